"""From a hub's GGUF repository to an answer: osprey pull, validate, chat and serve of one file and of a split model,
compared with the same weights as safetensors. tests/tools/test_gguf.py has the file format."""

import json
import pathlib
import sys
import urllib.request

import pytest
from conftest import ROOT
from hub import COMMIT, nano_files

sys.path.insert(0, str(ROOT / "bench" / "peers"))

import write_gguf  # noqa: E402  (the folder is no package)

NANO = ROOT / "models" / "osprey-nano"
REPO = "user/osprey-nano-GGUF"
ONE = "osprey-nano-BF16.gguf"
PARTS = ["F32/osprey-nano-F32-00001-of-00002.gguf", "F32/osprey-nano-F32-00002-of-00002.gguf"]
MAX_TENSORS = 80  # of 155
QUESTION = ("-q", "--temperature", "0", "-p", "What is the capital of France?")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """The bundled model in types that keep its values, so every model here computes the same."""
    folder = tmp_path_factory.mktemp("gguf")
    (folder / "F32").mkdir()
    tokenizer = NANO / "tokenizer.json"
    write_gguf.write(NANO, folder / ONE, "bf16", tokenizer=tokenizer)
    write_gguf.write(NANO, folder / "F32" / "osprey-nano-F32.gguf", "f32", tokenizer=tokenizer,
                     split_max_tensors=MAX_TENSORS)
    files = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*.gguf"))}
    assert set(files) == {ONE, *PARTS}
    return {"README.md": b"# model card\n", "config.json": (NANO / "config.json").read_bytes(),
            "mmproj-F32.gguf": b"GGUF an image encoder", **files}


@pytest.fixture
def gguf_case(case, repository):
    case.hub.add(REPO, repository)
    case.model = case.cache / "models--user--osprey-nano-GGUF"
    case.snapshot = case.model / "snapshots" / COMMIT
    return case


def run(case, *arguments):
    done = case.run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def validate(case, *arguments):
    return json.loads(run(case, "validate", *arguments, "--json"))


def completion(case, *arguments):
    """The served name, and a greedy completion with the logprobs of its tokens."""
    server = case.start("serve", "--port", "0", "--max-model-len", "4096", *arguments)
    try:
        url = server.stdout.readline().strip()
        assert url.startswith("http://"), server.communicate()
        body = {"prompt": "The capital of", "max_tokens": 12, "temperature": 0, "logprobs": 3}
        request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer = json.load(answer)
        server.terminate()
        log = server.communicate(timeout=30)[1]
        assert server.returncode == 0, log
    finally:
        server.kill()
    return answer["model"], answer["choices"]


@pytest.mark.parametrize("tag, files", [("bf16", [ONE]), ("F32", PARTS)])
def test_pull_validate_and_answer(gguf_case, tag, files):
    case, name = gguf_case, f"{REPO}:{tag}"
    assert run(case, "pull", name) == f"{case.snapshot / files[0]}\n"
    case.check_complete(files, REPO)  # links to blobs, and no others
    n = len(case.hub.log)
    report = validate(case, name, "--offline", "--read-all")
    assert (report["layout"], report["n_files"], report["n_tensors"]) == ("gguf", len(files), 155)
    expected = run(case, "chat", str(NANO), *QUESTION)
    assert expected.strip() and run(case, "chat", name, "--offline", *QUESTION) == expected
    assert run(case, "pull", name, "--verify").count("ok ") == len(files)
    assert case.run("pull", "--list").stdout.splitlines()[1].endswith("complete")
    assert len(case.hub.log) == n


def test_serve_hf_file(gguf_case):
    """-hf with --hf-file downloads the model, which may be named by any of its parts; then the cache has it."""
    case = gguf_case
    words = ("-hf", REPO, "--hf-file", PARTS[1])
    done = case.run("serve", *words, "--offline")
    assert done.returncode == 1 and f"osprey pull {REPO} --hf-file {PARTS[1]} downloads it" in done.stderr
    assert case.hub.log == []
    name, choices = completion(case, *words)
    case.check_complete(PARTS, REPO)
    n = len(case.hub.log)
    expected = completion(case, str(NANO))[1]
    assert name == REPO and expected[0]["text"] and choices == expected
    assert completion(case, *words, "--offline") == (name, expected)
    assert completion(case, f"{REPO}:F32", "--offline") == (f"{REPO}:F32", expected)
    assert len(case.hub.log) == n


def test_error_names_the_command_with_the_file(gguf_case):
    done = gguf_case.run("validate", REPO, "--hf-file", ONE)
    assert done.returncode == 1 and f"run osprey pull {REPO} --hf-file {ONE}, or add --pull" in done.stderr


def test_two_models_of_a_repository(gguf_case):
    """Each is found by its tag; the second one does not disturb the first."""
    case = gguf_case
    for tag in ("BF16", "F32"):
        run(case, "pull", f"{REPO}:{tag}")
    case.check_complete([ONE, *PARTS], REPO)
    assert [validate(case, f"{REPO}:{tag}", "--offline")["n_files"] for tag in ("BF16", "F32")] == [1, 2]
    done = case.run("validate", f"{REPO}:Q2_K", "--offline")
    assert done.returncode == 1 and f"no GGUF file with the tag Q2_K; available: {PARTS[0]}, {ONE}; HF_HUB" in done.stderr


def test_part_that_is_missing(gguf_case):
    """Another program may have fetched some parts only."""
    case = gguf_case
    case.python(f"import huggingface_hub as h\nh.hf_hub_download('{REPO}', '{PARTS[0]}')")
    done = case.run("validate", f"{REPO}:F32", "--offline")
    assert done.returncode == 1 and "1 of the model's 2 parts are there" in done.stderr
    n = len(case.hub.requests("storage"))
    run(case, "pull", f"{REPO}:F32")
    case.check_complete(PARTS, REPO)
    assert len({r.path for r in case.hub.requests("storage")[n:]}) == 1
    assert validate(case, f"{REPO}:F32", "--offline")["n_files"] == 2


def test_gguf_beside_safetensors(gguf_case):
    """A tag chooses GGUF; without one it is the folder of safetensors, before and after."""
    case = gguf_case
    case.hub.add(REPO, {**nano_files(), ONE: case.hub.repos[REPO][ONE]})
    run(case, "pull", REPO)
    run(case, "pull", f"{REPO}:BF16")
    assert validate(case, f"{REPO}:BF16", "--offline")["layout"] == "gguf"
    assert validate(case, REPO, "--offline")["layout"] != "gguf"
    assert pathlib.Path(run(case, "pull", REPO).strip()) == case.snapshot


@pytest.mark.parametrize("tag, files", [("BF16", [ONE]), ("F32", PARTS)])
def test_repair_fetches_what_the_cache_has(gguf_case, tag, files):
    """Without a tag, too, and not the file that a pull without a tag chooses."""
    case = gguf_case
    case.hub.repos[REPO]["m-Q4_K_M.gguf"] = b"GGUF another model"
    run(case, "pull", f"{REPO}:{tag}", "--include", "README.md")
    damaged = [case.snapshot / name for name in (files[-1], "README.md")]
    for link in damaged:
        link.resolve().write_bytes(b"x" * link.stat().st_size)
    done = case.run("pull", REPO, "--repair")
    assert done.returncode == 0 and f"2 of {len(files) + 1} files were corrupt" in done.stderr
    assert done.stdout.endswith(f"\n{case.snapshot / files[0]}\n")
    case.check_complete([*files, "README.md"], REPO)
    assert run(case, "chat", REPO, "--offline", *QUESTION) == run(case, "chat", str(NANO), *QUESTION)

"""What osprey pull downloads, where it puts it, and that huggingface_hub and osprey read each other's
caches."""

import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest
from conftest import REPO, WANTED
from hub import COMMIT, Fault, nano_files, random_bytes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))

OFFLINE = f"""
import huggingface_hub as h
folder = h.snapshot_download("{REPO}", local_files_only=True)
print(folder)
print(h.hf_hub_download("{REPO}", "config.json"))
info = h.scan_cache_dir()
print(len(info.warnings), [(r.repo_id, sorted(r.refs), r.nb_files) for r in info.repos])
"""


def test_files(case):
    done = case.pull()
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{case.snapshot}\n"
    case.check_complete()
    assert "every digest is right" in done.stderr
    # several connections took parts of the large file
    ranges = {r.range for r in case.hub.requests("storage") if r.range}
    assert len(ranges) >= 4 and case.hub.most_active >= 3
    assert not any("original" in r.path or "README" in r.path for r in case.hub.log)


def test_again_downloads_nothing(case):
    assert case.pull().returncode == 0
    n = len(case.hub.log)
    done = case.pull()
    assert done.returncode == 0 and "nothing to download" in done.stderr
    assert len(case.hub.log) == n + 2  # the revision and the listing


def test_huggingface_hub_reads_it_offline(case):
    assert case.pull().returncode == 0
    out = case.python(OFFLINE, HF_HUB_OFFLINE="1").splitlines()
    assert out[0] == str(case.snapshot) and out[1] == str(case.snapshot / "config.json")
    assert out[2] == f"0 [('{REPO}', ['main'], {len(WANTED)})]"


def test_huggingface_hub_finds_the_blobs(case):
    """With the hub in reach it takes the files as they are."""
    assert case.pull().returncode == 0
    n = case.hub.bytes_sent
    out = case.python(f"import huggingface_hub as h\nprint(h.snapshot_download('{REPO}', ignore_patterns=['original/*', "
                      f"'README.md', '.git*', 'empty/*']))")
    assert out.strip() == str(case.snapshot)
    assert case.hub.bytes_sent == n, [(r.method, r.path) for r in case.hub.log]


def test_osprey_reads_what_huggingface_hub_made(case):
    case.hub.add(REPO, nano_files())
    case.python(f"import huggingface_hub as h\nh.snapshot_download('{REPO}')")
    n = len(case.hub.requests("storage"))
    for arguments in (["pull", REPO, "--verify"], ["pull", REPO], ["validate", REPO],
                      ["chat", REPO, "-q", "--temperature", "0", "-p", "What is the capital of France?"]):
        done = case.run(*arguments)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "Paris\n"
    assert len(case.hub.requests("storage")) == n


def test_revisions_and_included_files(case):
    done = case.pull(f"{REPO}@refs/pr/1", "--include", "original/*,README.md")
    assert done.returncode == 0, done.stderr
    assert (case.model / "refs" / "refs" / "pr" / "1").read_text() == COMMIT
    assert not (case.model / "refs" / "main").exists()
    link = case.snapshot / "original" / "model.safetensors"
    assert os.readlink(link).startswith("../../../blobs/") and len(link.read_bytes()) == 8192
    assert (case.snapshot / "README.md").exists()
    done = case.pull(f"{REPO}@{COMMIT}")
    assert done.returncode == 0 and not (case.model / "refs" / COMMIT).exists()


def test_pages_of_the_listing(make_case):
    case = make_case(page=3)
    assert case.pull().returncode == 0
    case.check_complete()
    assert len(case.hub.requests("hub", "/tree/")) == 4


def test_dry_run_and_other_modes(case):
    done = case.pull(REPO, "--dry-run")
    assert done.returncode == 0 and "model-00001-of-00001.safetensors" in done.stdout
    assert "original" not in done.stdout and case.hub.requests(contains="/resolve/") == []
    case.check_nothing()
    for arguments, text in [
        ([], "needs the name of a model"), (["x"], "not the name of a model"),
        ([REPO, "--list"], "takes no name"), ([REPO, "--verify", "--remove"], "only one of"),
        ([f"{REPO}@a", "--revision", "b"], "different revisions"), ([REPO, "--connections", "0"], "between 1 and 32"),
    ]:
        done = case.run("pull", *arguments)
        assert done.returncode == 2 and text in done.stderr, done
    done = case.pull(REPO, "--remove")
    assert done.returncode == 2 and "needs --yes" in done.stderr


def test_offline(case):
    for arguments, environment in (([REPO, "--offline"], {}), ([REPO], {"HF_HUB_OFFLINE": "1"})):
        done = case.pull(*arguments, **environment)
        assert done.returncode == 1 and "HF_HUB_OFFLINE or --offline is set" in done.stderr
    assert case.hub.log == []


def test_list_verify_repair_remove(case):
    assert "no models" in case.run("pull", "--list").stderr
    assert case.pull().returncode == 0
    lines = case.run("pull", "--list").stdout.splitlines()
    assert lines[1].split()[:3] == [REPO, "main", COMMIT[:12]] and lines[1].endswith("complete")
    done = case.pull(REPO, "--verify")
    assert done.returncode == 0 and sorted(line.split()[1] for line in done.stdout.splitlines()) == sorted(WANTED)

    blob = (case.snapshot / "model-00001-of-00001.safetensors").resolve()
    data = bytearray(blob.read_bytes())
    data[1000] ^= 1
    blob.write_bytes(data)
    (case.snapshot / "tokenizer.json").resolve().unlink()
    done = case.pull(REPO, "--verify")
    assert done.returncode == 1 and "2 of 7 files are corrupt" in done.stderr
    assert {line for line in done.stdout.splitlines() if not line.startswith("ok")} == {
        "corrupt  model-00001-of-00001.safetensors", "corrupt  tokenizer.json"}
    n = len(case.hub.requests("storage"))
    assert case.pull(REPO, "--repair").returncode == 0
    case.check_complete()
    assert len({r.path for r in case.hub.requests("storage")[n:]}) == 2

    done = case.pull(REPO, "--remove", "--yes")
    assert done.returncode == 0 and "MB are free again" in done.stdout and not case.model.exists()
    done = case.pull(REPO, "--remove", "--yes")
    assert done.returncode == 1 and "not in the local Hugging Face cache" in done.stderr


def test_remove_one_snapshot(case):
    assert case.pull().returncode == 0
    case.hub.commit = COMMIT[::-1]
    case.hub.repos[REPO]["config.json"] = b'{"new": 1}\n'
    assert case.pull().returncode == 0
    assert case.pull(f"{REPO}@{COMMIT}", "--remove", "--yes").returncode == 0
    assert not case.snapshot.exists()
    case.snapshot = case.model / "snapshots" / case.hub.commit
    assert {p.name for p in case.snapshot.iterdir()} == WANTED
    assert case.check_blobs() == len(WANTED)  # the old config.json is gone, the shards are not
    assert case.pull(REPO, "--verify").returncode == 0


GGUF = "user/gpt-oss-GGUF"


def gguf_files():
    names = ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "F16/m-F16-00001-of-00002.gguf", "F16/m-F16-00002-of-00002.gguf",
             "mmproj-F16.gguf"]
    return {"config.json": b"{}", **{name: b"GGUF" + random_bytes(6000, name) for name in names}}


@pytest.mark.parametrize("arguments, found", [
    ([GGUF], ["m-Q4_K_M.gguf"]),
    ([f"{GGUF}:q8_0"], ["m-Q8_0.gguf"]),
    ([f"{GGUF}:F16"], ["F16/m-F16-00001-of-00002.gguf", "F16/m-F16-00002-of-00002.gguf"]),
    ([GGUF, "-hff", "m-Q8_0.gguf"], ["m-Q8_0.gguf"]),
])  # fmt: skip
def test_gguf(case, arguments, found):
    case.hub.add(GGUF, gguf_files())
    done = case.pull(*arguments)
    snapshot = case.cache / "models--user--gpt-oss-GGUF" / "snapshots" / COMMIT
    assert done.returncode == 0 and done.stdout == f"{snapshot / found[0]}\n", done.stderr
    assert sorted(str(p.relative_to(snapshot)) for p in snapshot.rglob("*.*") if not p.is_dir()) == found


def test_gguf_tag_that_is_not_there(case):
    case.hub.add(GGUF, gguf_files())
    done = case.pull(f"{GGUF}:Q2_K")
    assert done.returncode == 1 and "no GGUF file with the tag Q2_K; available: m-Q4_K_M.gguf" in done.stderr


# ---- commands with --pull ----


def serve_once(case, *arguments):
    server = case.start("serve", "--port", "0", "--max-model-len", "4096", *arguments)
    url = server.stdout.readline().strip()
    assert url.startswith("http://"), server.communicate()
    with urllib.request.urlopen(f"{url}/v1/models", timeout=60) as answer:
        name = json.load(answer)["data"][0]["id"]
    server.terminate()
    log = server.communicate(timeout=30)[1]
    assert server.returncode == 0, log
    return name


def test_serve_with_pull(case):
    case.hub.add(REPO, nano_files())
    done = case.run("serve", REPO, "--port", "0")
    assert done.returncode == 1 and f"run osprey pull {REPO}, or add --pull" in done.stderr
    assert case.hub.log == []
    assert serve_once(case, REPO, "--pull") == REPO
    n = len(case.hub.log)
    assert serve_once(case, "-hf", f"{REPO}@main") == REPO  # in the cache now
    assert len(case.hub.log) == n


@pytest.mark.parametrize("command", [
    ["chat", "-hf", REPO, "-q", "-p", "What is the capital of France?"],
    ["bench", REPO, "--pull", "--pp", "8", "--tg", "2", "--runs", "1"],
    ["validate", REPO, "--pull"], ["tokenize", REPO, "--pull", "-p", "Hello"],
])  # fmt: skip
def test_commands_with_pull(case, command):
    case.hub.add(REPO, nano_files())
    done = case.run(*command)
    assert done.returncode == 0, done.stderr
    progress = "downloading 13.6 MB" in done.stderr
    assert progress == ("-q" not in command)  # --quiet: no progress of the download either


def test_quantize_takes_names(case, tmp_path):
    case.hub.add(REPO, nano_files())
    out = tmp_path / "quantized"
    done = case.run("quantize", REPO, out, "--mxfp4-layers", "qkv")
    assert done.returncode == 1 and f"run osprey pull {REPO}, or add --pull" in done.stderr
    assert not out.exists()
    done = case.run("quantize", REPO, out, "--mxfp4-layers", "qkv", "--pull")
    assert done.returncode == 0 and "quantized to MXFP4: qkv" in done.stdout, done.stderr
    assert case.run("validate", out).returncode == 0


def test_wrong_hub_arguments(case):
    for arguments, text in [
        (["chat", "a/b", "-hf", "c/d", "-p", "x"], "the model is given twice"),
        (["chat", "-hf", "gpt-oss-20b", "-p", "x"], "expected USER/MODEL[:TAG]"),
        (["chat", "--hf-file", "x.gguf", "-p", "x"], "needs the name of a model"),
    ]:
        done = case.run(*arguments)
        assert done.returncode in (1, 2) and text in done.stderr, done.stderr


@pytest.mark.parametrize("answer", ["", "y", "n"])
def test_question_at_a_terminal(case, answer, monkeypatch, tmp_path):
    from terminal import Terminal

    case.hub.add(REPO, nano_files())
    if answer == "y":
        case.hub.faults = [lambda request: Fault(rate=4_000_000)]
    for name, value in case.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    terminal = Terminal(tmp_path, REPO, command=("chat", "--max-model-len", "4096"))
    question = terminal.read_until(r"\[Y/n\] ")
    assert f"{REPO} is not in the local Hugging Face cache. Download 13.6 MB to {case.cache}?" in question
    terminal.type(answer + "\r")
    if answer == "n":
        terminal.read_until("not downloaded")
        assert terminal.wait_code() == 1
        case.check_nothing()
    else:
        if answer == "y":
            line = rf"\r{REPO}: [\d.]+ MB of 13\.6 MB, \d+ %, [\d.]+ MB/s, \d+ s left, \d of 9 files\x1b\[K"
            terminal.read_until(line)
        terminal.read_until("Ctrl-D exits")
        assert terminal.wait_code("\x04") == 0


# ---- libcurl ----


@pytest.mark.parametrize("source, reason", [
    ("", "libcurl.so.4 cannot be initialized"),
    ("int curl_global_init(long flags) { return flags != 3; }", "libcurl.so.4 has no curl_easy_init"),
    (None, "libcurl.so.4: file too short"),
])  # fmt: skip
def test_another_libcurl(case, tmp_path, source, reason):
    """Commands that use no network run; the others name the package."""
    library = tmp_path / "libcurl.so.4"
    if source is None:
        library.write_bytes(b"")
    else:
        subprocess.run(["gcc", "-shared", "-o", library, "-x", "c", "-"], input=source, text=True, check=True)
    for command, needs in ((["pull", REPO], "downloads need"), (["status"], "calling a server needs")):
        done = case.run(*command, LD_LIBRARY_PATH=str(tmp_path))
        assert done.returncode == 1 and needs in done.stderr, done.stderr
        assert reason in done.stderr and "apt install libcurl4" in done.stderr, done.stderr
    assert case.run("version", LD_LIBRARY_PATH=str(tmp_path)).returncode == 0


# ---- proxies ----


def test_proxy(case):
    """http_proxy gets absolute URLs; no_proxy names hosts that are called directly."""
    seen = []

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_):
            return None

    class Proxy(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            seen.append((self.path, self.headers.get("Authorization")))
            target = self.path.replace("http://hub.test", case.hub.endpoint)
            kept = {k: v for k, v in self.headers.items() if k in ("Authorization", "Range")}
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect)
            try:
                answer = opener.open(urllib.request.Request(target, headers=kept), timeout=30)
            except urllib.error.HTTPError as error:
                answer = error
            body = answer.read()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("connection", "date", "server"):
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{proxy.server_address[1]}"
    try:
        done = case.pull(HF_ENDPOINT="http://hub.test", http_proxy=url, no_proxy="localhost,127.0.0.1")
        assert done.returncode == 0, done.stderr
        assert seen and all(path.startswith("http://hub.test/") for path, _ in seen)
        assert case.hub.requests("storage")  # at 127.0.0.1, so directly
        case.check_complete()
        shutil.rmtree(case.model)
        n = len(seen)
        done = case.pull(http_proxy=url, no_proxy="127.0.0.1")
        assert done.returncode == 0 and len(seen) == n
    finally:
        proxy.shutdown()
        proxy.server_close()

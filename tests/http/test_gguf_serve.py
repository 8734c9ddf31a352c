"""A GGUF file behind the server: its name, its answers and what the APIs say of it."""

import json
import pathlib
import sys
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "peers"))

import write_gguf  # noqa: E402  (the folder is no package)
from conftest import run  # noqa: E402

NANO = ROOT / "models" / "osprey-nano"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "nano-Q8_0.gguf"
    write_gguf.write(NANO, path, "q8_0", tokenizer=NANO / "tokenizer.json")
    return path


def get(server, path):
    with urllib.request.urlopen(server.url + path, timeout=30) as answer:
        return json.load(answer)


def test_server_of_a_gguf_file(start_server, model, tmp_path):
    """Twice with a cache of packed weights: the second start maps them and says the same."""
    answers = []
    for _ in range(2):
        server = start_server("-m", str(model), "--pack-cache", str(tmp_path / "packed"))
        client = server.client()
        assert [m.id for m in client.models.list()] == ["nano-Q8_0"]
        assert get(server, "/api/tags")["models"][0]["details"]["format"] == "gguf"
        answer = client.chat.completions.create(
            model="nano-Q8_0", temperature=0, seed=1, logprobs=True,
            messages=[{"role": "user", "content": "What is the capital of France?"}])
        assert "Paris" in answer.choices[0].message.content
        answers.append([(t.token, t.logprob) for t in answer.choices[0].logprobs.content])
        assert server.stop() == 0
    assert answers[0] == answers[1]


def test_load_format_must_agree(start_server, model):
    done = run("serve", "-m", str(model), "--load-format", "safetensors", "--port", "0")
    assert done.returncode == 1
    assert f"load format safetensors: {model} is a GGUF file" in done.stderr
    server = start_server("-m", str(model), "--load-format", "gguf")
    assert server.stop() == 0

"""/tokenize, /detokenize and /version, as vLLM's and llama-server's clients call them."""

import json
import urllib.error
import urllib.request

import pytest

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
TEXTS = ["", "Hello world", "Zürich – 12 €\n\n\tx  y", "日本語 🙂", "<|start|>user<|end|>", "a\0b"]


def post(server, path, body, content_type="application/json"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, {"Content-Type": content_type})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]


@pytest.mark.parametrize("text", TEXTS)
def test_there_and_back(server, text):
    status, answer = post(server, "/tokenize", {"model": "osprey-nano", "prompt": text})
    assert status == 200
    assert answer["count"] == len(answer["tokens"]) and answer["max_model_len"] > 0
    status, back = post(server, "/detokenize", {"tokens": answer["tokens"]})
    assert status == 200 and back["prompt"] == back["content"] == text
    assert post(server, "/tokenize", {"content": text})[1]["tokens"] == answer["tokens"]


def test_control_tokens_only_when_asked_for(server):
    plain = post(server, "/tokenize", {"prompt": "<|end|>"})[1]
    parsed = post(server, "/tokenize", {"prompt": "<|end|>", "parse_special": True, "return_token_strs": True})[1]
    assert plain["count"] > 1 and "token_strs" not in plain
    assert parsed["count"] == 1 and parsed["token_strs"] == ["<|end|>"]


def test_a_conversation_has_the_prompt_of_its_completion(server, client):
    status, answer = post(server, "/tokenize", {"messages": QUESTION})
    completion = client.chat.completions.create(
        model="osprey-nano", messages=QUESTION, max_tokens=1, extra_body={"return_token_ids": True}
    )
    assert status == 200 and answer["tokens"] == completion.model_dump()["prompt_token_ids"]


@pytest.mark.parametrize(
    "path, body, ignored",
    [
        ("/tokenize", {"prompt": "a", "add_special_tokens": False, "x": 1}, "add_special_tokens, x"),
        ("/tokenize", {"prompt": "a", "reasoning_effort": "high"}, "reasoning_effort"),  # there is no conversation
        ("/tokenize", {"messages": QUESTION, "reasoning_effort": "high", "tools": []}, None),
        ("/tokenize", {"messages": QUESTION, "model": "osprey-nano", "seats": 3}, "seats"),
        ("/tokenize", {"prompt": "a", "parse_special": True, "return_token_strs": None}, None),
        ("/detokenize", {"tokens": [1], "model": "osprey-nano", "tools": []}, "tools"),
        ("/detokenize", {"tokens": [1]}, None),
    ],
)
def test_unknown_fields_are_named(server, path, body, ignored):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.headers["x-osprey-warning"] == (ignored and f"ignored unknown fields: {ignored}")


def test_another_model_is_refused(server):
    for path, body in (("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [1]})):
        status, error = post(server, path, {**body, "model": "gpt-9"})
        assert status == 404 and error["code"] == "model_not_found" and error["param"] == "model"
        assert post(server, path, {**body, "model": 5})[1]["param"] == "model"


@pytest.mark.parametrize(
    "path, body, part",
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": 5}, "prompt"),
        ("/tokenize", {"content": ["a"]}, "content"),
        ("/tokenize", {"prompt": "a", "parse_special": 1}, "parse_special"),
        ("/tokenize", {"prompt": "a", "return_token_strs": "x"}, "return_token_strs"),
        ("/tokenize", {"messages": 5}, "messages"),
        ("/tokenize", {"prompt": "a", "content": "a"}, "content: there is prompt already"),
        ("/tokenize", {"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, "messages: there is prompt already"),
        ("/tokenize", {"prompt": "a", "tools": []}, "tools: are part of a conversation"),
        ("/tokenize", {"messages": [{"role": "user", "content": "a"}], "parse_special": {}}, "parse_special"),
        ("/tokenize", b"[1]", "JSON object"),
        ("/tokenize", b"{", "valid JSON"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": "a"}, "tokens"),
        ("/detokenize", {"tokens": [1.5]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": [2147483647]}, "tokens"),
    ],
)
def test_what_is_refused(server, path, body, part):
    status, error = post(server, path, body)
    assert status == 400 and part in error["message"]


def test_other_types_and_methods(server):
    assert post(server, "/tokenize", b"x", "text/plain")[0] == 415
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(server.url + "/tokenize", timeout=20)
    assert caught.value.code == 405 and caught.value.headers["Allow"]


def test_version(server):
    with urllib.request.urlopen(server.url + "/version", timeout=20) as answer:
        assert json.load(answer)["version"]

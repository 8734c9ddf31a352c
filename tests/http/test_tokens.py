"""/tokenize, /detokenize and /version, as vLLM's and llama-server's clients call them."""

import functools
import json
import random
import re
import socket
import time
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


def test_pieces_in_the_form_of_llama_server(server):
    text = "One \U0001f496 two"
    plain = post(server, "/tokenize", {"content": text, "add_special": True})[1]
    pieces = post(server, "/tokenize", {"content": text, "with_pieces": True})[1]
    assert [p["id"] for p in pieces["tokens"]] == plain["tokens"] and pieces["count"] == plain["count"]
    bytes_of = [p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces["tokens"]]
    assert b"".join(bytes_of).decode() == text
    parts = [p["piece"] for p in pieces["tokens"] if not isinstance(p["piece"], str)]
    assert parts and all(any(byte > 127 for byte in part) for part in parts)  # of the character that is several tokens
    special = post(server, "/tokenize", {"content": "<|end|>", "with_pieces": True, "parse_special": True})[1]
    assert [p["piece"] for p in special["tokens"]] == ["<|end|>"]


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
        ("/tokenize", {"prompt": "a", "content": "a"}, "content: cannot be combined with prompt"),
        ("/tokenize", {"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, "messages: cannot be combined with prompt"),
        ("/tokenize", {"prompt": "a", "tools": []}, "tools: requires messages"),
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


# ---- long texts beside chats ----

LONG_BYTES = 4 << 20  # with its braces what --max-body lets in


def raw(path, body):
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


@functools.cache
def long_request():
    """A text without any space: the most work for its size, most of a second on a fast core."""
    letters = random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=LONG_BYTES - 100)
    return raw("/tokenize", json.dumps({"prompt": "".join(letters)}).encode())


def send(server, request):
    """The connection, once the server has taken all of the request. A refusal may come before that."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(request)
    return connection


def read_all(connection):
    data = b""
    while block := connection.recv(1 << 20):
        data += block
    return data.decode()


def metric(server, name):
    text = urllib.request.urlopen(f"{server.url}/metrics", timeout=20).read().decode()
    return float(re.search(rf"^{name}(?:{{.*}})? (\S+)$", text, re.M)[1])


def one_token_chat_s(server):
    began = time.monotonic()
    server.client().chat.completions.create(model="osprey-nano", messages=QUESTION, max_tokens=1)
    return time.monotonic() - began


def test_a_chat_does_not_wait_for_long_texts(start_server):
    """Forty at once. On other threads than that of low priority they held a chat up for a dozen times one's time."""
    server, request = start_server(), long_request()
    one_token_chat_s(server)
    idle_s = min(one_token_chat_s(server) for _ in range(3))
    began = time.monotonic()
    assert read_all(send(server, request)).startswith("HTTP/1.1 200")
    one_s = time.monotonic() - began
    connections = [send(server, request) for _ in range(40)]
    took_s = one_token_chat_s(server)
    for connection in connections:
        connection.close()
    assert took_s < 10 * idle_s + 0.5 + 2 * one_s, (took_s, idle_s, one_s)
    assert server.stop() == 0


def test_too_many_are_refused_and_those_that_leave_are_forgotten(start_server):
    server, request = start_server(), long_request()
    connections = [send(server, request) for _ in range(20)]  # more than 64 MiB
    refused = read_all(connections[-1])
    head, _, body = refused.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 429"), head
    assert 1 <= int(re.search(r"retry-after: (\d+)", head)[1]) <= 60
    error = json.loads(body)["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert "limit is 67108864" in error["message"]
    n_refused, n_waiting = metric(server, "osprey:requests_refused_total"), metric(server, "osprey:tokenize_requests")
    assert n_refused >= 1 and 2 <= n_waiting <= 16
    assert server.client().chat.completions.create(model="osprey-nano", messages=QUESTION, max_tokens=1).choices
    for connection in connections:
        connection.close()
    began = time.monotonic()
    while metric(server, "osprey:tokenize_requests") > 0:
        assert time.monotonic() - began < 30
        time.sleep(0.01)
    assert metric(server, "osprey:tokenize_canceled_total") >= n_waiting - 1  # one may have been answered meanwhile
    assert post(server, "/tokenize", {"prompt": "Hello world"})[0] == 200
    assert server.stop() == 0


def test_many_short_ones_are_refused_by_their_number(start_server):
    """Behind three that are long, whose answers are read last."""
    server = start_server("--stall-timeout", "300")
    first = [send(server, long_request()) for _ in range(3)]
    began = time.monotonic()
    while metric(server, "osprey:tokenize_requests") < 3:  # they have been read
        assert time.monotonic() - began < 30
    connections = [send(server, raw("/tokenize", b'{"prompt": "a"}')) for _ in range(80)]
    heads = [read_all(c).split("\r\n")[0] for c in connections]
    assert {h.split()[1] for h in heads} <= {"200", "429"}
    assert all(read_all(c).startswith("HTTP/1.1 200") for c in first)
    # Of 64 places the three have at most three; on a slow machine some of the three have ended.
    assert 1 <= sum("429" in h for h in heads) <= 80 - 61, heads
    assert server.stop() == 0


def test_keys_have_equal_shares(start_server):
    """One key's texts fill half of the places; the other's short one runs before most of them."""
    server = start_server(environment={"OSPREY_API_KEY": "one,two"})

    def with_key(request, key):
        return request.replace(b"Host:", f"Authorization: Bearer {key}\r\nHost:".encode(), 1)

    connections = [send(server, with_key(long_request(), "one")) for _ in range(8)]
    for _ in range(40):
        connections.append(send(server, with_key(raw("/tokenize", b'{"prompt": "a"}'), "one")))
    assert read_all(connections[-1]).startswith("HTTP/1.1 429")
    other = read_all(send(server, with_key(raw("/tokenize", b'{"prompt": "a"}'), "two")))
    assert other.startswith("HTTP/1.1 200")
    text = with_key(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "two")
    n_waiting = int(re.search(r"^osprey:tokenize_requests{.*} (\d+)", read_all(send(server, text)), re.M)[1])
    assert n_waiting > 30  # of the first key's 32
    for connection in connections:
        connection.close()
    assert server.stop() == 0


def test_an_answer_beyond_its_limit(start_server):
    server = start_server("--max-body", "16M")
    status, error = post(server, "/tokenize", {"prompt": "a" * 12_000_000, "return_token_strs": True})
    assert status == 400 and "the answer is larger than 64 MiB" in error["message"]


def test_an_intricate_body_is_the_clients_fault(server):
    body = b'{"prompt": "a", "x": [' + b"{}," * 1000000 + b"1]}"
    status, error = post(server, "/tokenize", body)
    assert status == 400 and "too many JSON values" in error["message"]

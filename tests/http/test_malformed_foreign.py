"""Bodies that no good client sends, to the routes of Ollama and llama-server: each gets a 4xx in the form of its API, the
server lives on, and whatever a model writes is no error."""

import http.client
import json
import random

import pytest

# Fixtures too: a scripted server of this file's own.
from test_malformed import expected, half_character, rows, server, stop_ids, tokens_of  # noqa: F401

DEEP = 3000
VALUES = ["null", "true", "0", "-1", "1e999", "-0.0", "123456789012345678901234567890", '""', '"x"', '"\\u0000"',
          '"\\ud800"', "[]", "{}", "[[]]", "[null]", '[{"a":1}]', '{"a":{"b":[]}}', "[" * DEEP + "]" * DEEP,
          '{"a":' * DEEP + "1" + "}" * DEEP, '"' + "y" * 100_000 + '"', "[" + "1," * 20_000 + "1]"]  # fmt: skip
MESSAGE = ["role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id", "name"]
FIELDS = {
    "/api/chat": ["model", "messages", "tools", "format", "options", "think", "stream", "keep_alive", "template",
                  "logprobs", "top_logprobs", "tool_choice", "truncate", "_debug_render_only"],
    "/api/generate": ["model", "prompt", "system", "raw", "suffix", "images", "context", "format", "options", "think"],
    "/api/show": ["model", "name", "verbose"],
    "/completion": ["prompt", "n_predict", "stop", "logit_bias", "samplers", "n_probs", "json_schema", "grammar", "lora",
                    "stream", "seed", "temperature", "n_cmpl", "cache_prompt", "model"],
    "/completions": ["prompt", "n_predict", "model", "max_tokens", "logprobs"],
    "/apply-template": ["messages", "tools", "reasoning_effort"],
}  # fmt: skip
BASE = {
    "/api/chat": {"messages": '[{"role":"user","content":"Hi"}]', "options": '{"num_predict":1}', "stream": "false"},
    "/api/generate": {"prompt": '"Hi"', "options": '{"num_predict":1}', "stream": "false"},
    "/api/show": {"model": '"osprey-nano"'},
    "/completion": {"prompt": '"Hi"', "n_predict": "1"},
    "/completions": {"prompt": '"Hi"', "n_predict": "1"},
    "/apply-template": {"messages": '[{"role":"user","content":"Hi"}]'},
}


class Asker:
    def __init__(self, server):  # noqa: F811
        self.port = server.port
        self.connect()

    def connect(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def __call__(self, path, body):
        self.connection.request("POST", path, body if isinstance(body, bytes) else body.encode())
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.will_close:
            self.connect()
        return answer.status, answer.headers["content-type"], data


@pytest.fixture
def ask(server):  # noqa: F811
    server.write(server.ids_of("x<|return|>"))
    return Asker(server)


def check(path, body, answer):
    status, kind, data = answer
    shown = body[:300]
    assert status in (200, 400, 404, 413), (path, shown, status, data[:300])
    if status == 200:
        return
    error = json.loads(data)["error"]
    assert kind == "application/json"
    assert isinstance(error, str) == path.startswith("/api/"), (path, shown)
    assert (error if isinstance(error, str) else error["message"]), (path, shown)


def body_of(members):
    return "{" + ",".join(f"{json.dumps(k)}:{v}" for k, v in members.items()) + "}"


@pytest.mark.parametrize("path", FIELDS)
def test_every_field_with_every_kind_of_value(ask, path):
    refused = 0
    for field in FIELDS[path]:
        for value in VALUES:
            body = body_of({**BASE[path], field: value})
            answer = ask(path, body)
            check(path, body, answer)
            refused += answer[0] == 400
    assert refused > len(FIELDS[path]) * 3


def test_every_member_of_a_message_with_every_kind_of_value(ask):
    call = '[{"id":"c","function":{"name":"f","arguments":{}}}]'
    for role in ("user", "assistant", "tool"):
        for member in MESSAGE:
            for value in VALUES:
                message = {"role": f'"{role}"', "content": '"x"', member: value}
                before = '{"role":"assistant","content":"","tool_calls":%s}' % call
                body = body_of({**BASE["/api/chat"], "messages": f"[{before},{body_of(message)}]"})
                check("/api/chat", body, ask("/api/chat", body))


@pytest.mark.parametrize("calls", [
    "[null]", "[5]", "[{}]", '[{"function":null}]', '[{"function":{"name":5}}]', '[{"function":{"name":""}}]',
    '[{"function":{"name":"f","arguments":"{}"}}]', '[{"function":{"name":"f","arguments":[]}}]',
    '[{"function":{"name":"a b"}}]', '[{"function":{"name":"f\\u0000"}}]', '{"function":{}}',
])  # fmt: skip
def test_calls_that_are_none(ask, calls):
    body = body_of({"messages": '[{"role":"assistant","tool_calls":%s}]' % calls})
    status, _, data = ask("/api/chat", body)
    assert status == 400 and json.loads(data)["error"].startswith("messages[0]"), data


@pytest.mark.parametrize("path", FIELDS)
def test_bodies_that_are_no_objects(ask, path):
    good = body_of(BASE[path])
    for body in ["", " ", "x", "[]", "5", '"x"', "null", "{", good[:-1], good + "x", good + good, good[1:],
                 '{"a":1,"a":2}', '{"\\u0000":1}', "\ufeff" + good, good.replace(":", "=")]:  # fmt: skip
        answer = ask(path, body)
        check(path, body, answer)
        assert answer[0] == 400, body
    for body in (b'{"a":"\xff"}', b"\x00" + good.encode(), good.encode("utf-16"), bytes(range(256))):
        assert ask(path, body)[0] == 400


@pytest.mark.parametrize("path", FIELDS)
def test_mutated_bodies(ask, path):
    """Bytes of good bodies that are changed, repeated, left out or swapped, always the same ones."""
    maker = random.Random(path)
    good = body_of(BASE[path]).encode()
    for _ in range(150):
        body = bytearray(good)
        for _ in range(maker.randint(1, 4)):
            at, n = maker.randrange(len(body) + 1), maker.randint(0, 6)
            body[at : at + n] = bytes(maker.choice(b'"{}[]:,0truefalsn\\ -\xc3\xff\x00') for _ in range(maker.randint(0, 4)))
        check(path, bytes(body), ask(path, bytes(body)))


def test_many_small_pieces_of_a_prompt(ask):
    """A list of ids and texts in turn is read in linear time."""
    body = json.dumps({"prompt": [1, "a"] * 150_000, "n_predict": 1})
    status, _, data = ask("/completion", body)
    assert status == 400 and "maximum context length" in json.loads(data)["error"]["message"]


def test_many_calls_and_results(ask):
    """Results are assigned to calls in linear time."""
    calls = [{"function": {"name": f"f{i % 2}"}} for i in range(30_000)]
    for results in ([{"role": "tool"}] * 30_000, [{"role": "tool", "tool_name": "f1"}] * 15_001):
        first = {"role": "assistant", "content": "x" * 1_500_000, "tool_calls": calls}
        status, _, data = ask("/api/chat", json.dumps({"messages": [first, *results]}))
        assert status == 400 and json.loads(data)["error"].startswith("messages"), data[:200]


def told(messages):
    got = {"reasoning": "", "content": "", "calls": []}
    for message in messages:
        got["reasoning"] += message.get("thinking", "")
        got["content"] += message["content"]
        got["calls"] += [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])]
    return got


def is_object(text):
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def arguments_of(text):
    return json.loads(text) if is_object(text) else {"_raw": text} if text else {}


TOOLS = [{"type": "function", "function": {"name": name}} for name in ("get_weather", "search")]


@pytest.mark.parametrize("name,writes,gets", rows(), ids=[row[0] for row in rows()])
def test_whatever_the_model_writes(server, stop_ids, half_character, name, writes, gets):  # noqa: F811
    """The table of malformed forms in docs/harmony.md."""
    ids = tokens_of(server, writes, half_character)
    is_ended = ids[-1] in stop_ids and not any(id in stop_ids for id in ids[:-1])
    want = expected(gets)
    want["calls"] = [(f, arguments_of(text)) for f, text in want["calls"]]
    ask = Asker(server)
    for stream in (False, True):
        server.write(ids)
        status, _, data = ask("/api/chat", json.dumps({
            "messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS, "stream": stream,
            "options": {"num_predict": len(ids)}}))
        assert status == 200
        lines = [json.loads(line) for line in data.decode().splitlines()]
        assert lines[-1]["done"] and not any(line["done"] for line in lines[:-1])
        if any(id in stop_ids for id in ids[:-1]):
            continue  # the first one ends this answer
        got = told([line["message"] for line in lines])
        if not is_ended and len(got["calls"]) == len(want["calls"]) - 1:
            want["calls"].pop()  # a call that is cut is none
        assert got == want
        assert lines[-1]["done_reason"] == ("stop" if is_ended else "length")

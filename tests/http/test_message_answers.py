"""/v1/messages with a device that draws what a test says: the blocks, stop reasons and inputs of calls that come of it,
whole and streamed alike."""

import json
import urllib.request

import pytest

import scripted
from test_messages import CITY, QUESTION, check_events, events_of, plain, post

END = "<|end|><|start|>assistant"
THINK = "<|channel|>analysis<|message|>I think."
FINAL = "<|channel|>final<|message|>"
OSLO = '{"city":"Oslo"}'
TOOLS = [{"name": name, "input_schema": CITY} for name in ("f", "g")]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = scripted.ScriptedServer(tmp_path_factory.mktemp("scripted"))
    yield running
    assert running.stop() == 0, running.log


def answer(server, text, **body):
    """The message that the client gets of this text, which is the same whole and streamed."""
    ids = server.ids_of(text)
    body = {"messages": QUESTION, "max_tokens": 4000, "tools": TOOLS, **body}
    server.write(ids)
    status, _, got = post(server, body)
    whole = json.loads(got)
    assert status == 200, whole
    server.write(ids)
    streamed = check_events(events_of(post(server, {**body, "stream": True})[2]))
    assert plain(streamed["content"]) == plain(whole["content"])
    for name in ("stop_reason", "stop_sequence", "role", "model"):
        assert streamed[name] == whole[name]
    assert streamed["usage"]["output_tokens"] == whole["usage"]["output_tokens"]
    return whole


def call(name, arguments, end="<|call|>"):
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}{end}"


# ---- thinking ----

TEXT = {"type": "text", "text": "Done."}


@pytest.mark.parametrize("thinking", [None, {"type": "disabled"}])
def test_thinking_is_sent_only_if_it_is_enabled(server, thinking):
    """Programs that do not enable it read content[0].text."""
    message = answer(server, f"{THINK}{END}{FINAL}Done.<|return|>", thinking=thinking)
    assert message["content"] == [TEXT]
    assert message["usage"]["output_tokens_details"]["thinking_tokens"] > 0


@pytest.mark.parametrize("thinking", [
    {"type": "adaptive"}, {"type": "enabled", "budget_tokens": 1024}, {"type": "between_tools"},
    {"type": "adaptive", "display": "summarized"},
])
def test_thinking_comes_first(server, thinking):
    message = answer(server, f"{THINK}{END}{FINAL}Done.<|return|>", thinking=thinking)
    block = message["content"][0]
    assert message["content"][1:] == [TEXT] and block.keys() == {"type", "thinking", "signature"}
    assert block["thinking"] == "I think." and block["signature"]


def n_tokens(server, thinking):
    """Of a prompt in which the model is between a call and its answer, with this thinking before the call."""
    content = [thinking, {"type": "tool_use", "id": "c1", "name": "f", "input": {"city": "x"}}]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}]}
    messages = [*QUESTION, {"role": "assistant", "content": content}, result]
    return server.post("/v1/messages/count_tokens", {"messages": messages})["input_tokens"]


def test_thinking_without_its_text(server):
    """display omitted: the signature has what the next request needs."""
    text = f"{THINK}{END}{FINAL}Done.<|return|>"
    shown = answer(server, text, thinking={"type": "adaptive"})["content"]
    omitted = answer(server, text, thinking={"type": "adaptive", "display": "omitted"})["content"]
    assert omitted[0]["thinking"] == "" and omitted[1:] == shown[1:] == [TEXT]
    assert n_tokens(server, omitted[0]) == n_tokens(server, shown[0])
    assert n_tokens(server, omitted[0]) > n_tokens(server, {"type": "thinking", "thinking": "", "signature": ""})
    redacted = {"type": "redacted_thinking", "data": omitted[0]["signature"]}
    assert n_tokens(server, redacted) == n_tokens(server, shown[0])


# ---- the order of blocks ----


def test_thinking_preamble_and_calls(server):
    text = (
        f"{THINK}{END}<|channel|>commentary<|message|>I look.{END}<|channel|>analysis<|message|>More."
        f"{END}{call('f', OSLO)}<|start|>assistant{call('g', '{}')}"
    )
    message = answer(server, text, thinking={"type": "adaptive"}, ignore_eos=True, max_tokens=len(server.ids_of(text)))
    assert [b["type"] for b in message["content"]] == ["thinking", "text", "thinking", "tool_use", "tool_use"]
    assert [b["input"] for b in message["content"][3:]] == [{"city": "Oslo"}, {}]
    assert message["content"][3]["id"] != message["content"][4]["id"]


def test_a_preamble_and_the_answer_are_two_texts(server):
    text = f"<|channel|>commentary<|message|>First.{END}{FINAL}Then.<|return|>"
    message = answer(server, text)
    assert [b["text"] for b in message["content"]] == ["First.", "Then."]


def test_an_empty_answer(server):
    message = answer(server, f"{FINAL}<|return|>")
    assert message["content"] == [] and message["stop_reason"] == "end_turn"


# ---- stop reasons ----


def test_stop_sequences(server):
    text = f"{FINAL}One, two, three.<|return|>"
    message = answer(server, text, stop_sequences=["four", ", three", "zzz"])
    assert message["stop_reason"] == "stop_sequence" and message["stop_sequence"] == ", three"
    assert message["content"] == [{"type": "text", "text": "One, two"}]
    message = answer(server, text, stop_sequences=["four"])
    assert message["stop_reason"] == "end_turn" and message["stop_sequence"] is None


def test_a_call_ends_with_tool_use(server):
    message = answer(server, call("f", OSLO), stop_sequences=["four"])
    assert message["stop_reason"] == "tool_use" and message["stop_sequence"] is None


def test_limits_end_an_answer(server):
    text = FINAL + "a" * 50
    message = answer(server, text, max_tokens=20)
    assert message["stop_reason"] == "max_tokens" and message["usage"]["output_tokens"] == 20
    message = answer(server, FINAL + " a" * 4050, max_tokens=200_000)
    usage = message["usage"]
    assert message["stop_reason"] == "model_context_window_exceeded"
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["output_tokens"] == 4096


# ---- inputs of calls ----

INPUTS = {
    "none": ("{}", {}),
    "compact": ('{"a":1,"b":[1,{"c":"}"}]}', {"a": 1, "b": [1, {"c": "}"}]}),
    "lines": ('{\n  "a": 1,\n  "b": null\n}\n', {"a": 1, "b": None}),
    "escapes": ('{"a":"\\u00e9\\n\\"\\\\"}', {"a": 'é\n"\\'}),
    "line break in a string": ('{"a":"x\ny\tz"}', {"a": "x\ny\tz"}),
    "escape that there is not": ('{"a":"\\d+\\w","b":1}', {"a": "\\d+\\w", "b": 1}),
    "comma at the end": ('{"a":1,}', {"a": 1}),
    "text behind": ('{"a":1} and so on', {"a": 1}),
    "not json": ("Oslo", {}),
    "a list": ('["Oslo"]', {}),
    "a string": ('"{}"', {}),
    "bad second member": ('{"a":1,"b":oslo,"c":2}', {"a": 1}),
    "bad first member": ('{a:1,"b":2}', {}),
    "two values": ('{"a":1 2,"b":3}', {}),
    "wrong bracket": ('{"a":1]', {}),
    "large number": ('{"a":1,"b":99999999999999999999999}', {"a": 1}),
    "nothing": ("", {}),
}


@pytest.mark.parametrize("arguments, wanted", INPUTS.values(), ids=INPUTS)
def test_inputs_are_objects(server, arguments, wanted):
    message = answer(server, call("f", arguments))
    assert message["content"][0]["input"] == wanted and message["stop_reason"] == "tool_use"


def test_a_call_that_is_cut_has_whole_members_only(server):
    """Half of a command must not look like a command."""
    text = call("f", '{"path":"/tmp","command":"rm -rf /tmp/build"}', end="")
    ids = server.ids_of(text)
    inputs = [answer(server, text, max_tokens=n)["content"][-1].get("input") for n in range(len(ids) - 12, len(ids) + 1)]
    assert inputs[-1] == {"path": "/tmp", "command": "rm -rf /tmp/build"}
    assert all(i in ({"path": "/tmp"}, {"path": "/tmp", "command": "rm -rf /tmp/build"}) for i in inputs[-6:])
    assert {"path": "/tmp"} in inputs


# ---- pings ----


def test_a_ping_while_nothing_is_sent(tmp_path):
    """Thinking that the client does not get takes long: there is an event of type ping after message_start."""
    server = scripted.ScriptedServer(tmp_path, environment={"OSPREY_FAKE_STEP_MS": "50"})
    server.write(server.ids_of("<|channel|>analysis<|message|>" + "a " * 1500))
    body = {"messages": QUESTION, "max_tokens": 4000, "stream": True}
    request = urllib.request.Request(
        server.url + "/v1/messages", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        lines = []
        while not lines or lines[-1] != "event: ping":
            lines.append(answer.readline().decode().strip())
            assert "message_stop" not in lines[-1], lines
        assert answer.readline() == b'data: {"type":"ping"}\n'
    assert [line for line in lines if line.startswith("event: ")] == ["event: message_start", "event: ping"]
    assert server.stop() == 0

"""The table of malformed forms in docs/harmony.md through /v1/messages, whole and streamed: the blocks say what the row
says, the events keep their rules, and the input of a call is an object whatever the model writes."""

import json

import pytest

# Fixtures too: a scripted server of this file's own.
from test_malformed import client, expected, half_character, rows, server, stop_ids, tokens_of  # noqa: F401
from test_messages import check_events, events_of, plain, post

TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("get_weather", "search")]
KINDS = {"thinking": "reasoning", "text": "content"}


def told(message):
    got = {"reasoning": "", "content": "", "calls": []}
    for block in message["content"]:
        if block["type"] == "tool_use":
            got["calls"].append((block["name"], block["input"]))
        else:
            got[KINDS[block["type"]]] += block[block["type"]]
    return got


def as_input(arguments):
    """The object that the arguments begin with; {} if they do not."""
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(arguments.lstrip())
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


@pytest.mark.parametrize("name,writes,gets", rows(), ids=[row[0] for row in rows()])
def test_row(server, stop_ids, half_character, name, writes, gets):  # noqa: F811
    ids = tokens_of(server, writes, half_character)
    stops = [i for i, id in enumerate(ids) if id in stop_ids]
    body = {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": TOOLS,
        "max_tokens": len(ids),
        "thinking": {"type": "adaptive"},
        "ignore_eos": any(i < len(ids) - 1 for i in stops),
    }
    server.write(ids)
    status, _, text = post(server, body)
    assert status == 200
    whole = json.loads(text)
    server.write(ids)
    status, _, text = post(server, {**body, "stream": True})
    assert status == 200
    streamed = check_events(events_of(text))
    want = expected(gets)
    want["calls"] = [(called, as_input(arguments)) for called, arguments in want["calls"]]
    assert told(whole) == told(streamed) == want
    assert plain(whole["content"]) == plain(streamed["content"])
    ended = stops == [len(ids) - 1]
    assert whole["stop_reason"] == streamed["stop_reason"]
    assert whole["stop_reason"] == (("tool_use" if want["calls"] else "end_turn") if ended else "max_tokens")

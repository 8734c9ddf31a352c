"""The table of malformed forms in docs/harmony.md through /v1/responses, whole and streamed: the items say what the row
says, and the events keep their rules whatever the model writes."""

import json

import pytest

# Fixtures too: a scripted server of this file's own.
from test_malformed import client, expected, half_character, rows, server, stop_ids, tokens_of  # noqa: F401
from test_responses import check_events, events_of, plain, post

TOOLS = [{"type": "function", "name": name} for name in ("get_weather", "search")]


def told(response):
    got = {"reasoning": "", "content": "", "calls": []}
    for item in response["output"]:
        if item["type"] == "function_call":
            got["calls"].append((item["name"], item["arguments"]))
        else:
            kind = "reasoning" if item["type"] == "reasoning" else "content"
            got[kind] += "".join(part["text"] for part in item["content"])
    return got


@pytest.mark.parametrize("name,writes,gets", rows(), ids=[row[0] for row in rows()])
def test_row(server, stop_ids, half_character, name, writes, gets):  # noqa: F811
    ids = tokens_of(server, writes, half_character)
    stops = [i for i, id in enumerate(ids) if id in stop_ids]
    body = {
        "input": "Hi",
        "tools": TOOLS,
        "max_output_tokens": len(ids),
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
    assert told(whole) == told(streamed) == expected(gets)
    assert plain(whole["output"]) == plain(streamed["output"])
    assert whole["status"] == ("completed" if stops == [len(ids) - 1] else "incomplete")
    assert all(item["status"] == "completed" for item in whole["output"][:-1])

"""Bodies of /v1/messages and of count_tokens that no client sends: valid ones with a value replaced, removed or doubled at
any place. Each gets an answer or a refusal in Anthropic's form, and the server stays."""

import json
import os
import random

import pytest

from test_messages import CALL, RESULT, TEXT, WEATHER, assistant, post, user

N_BODIES = int(os.environ.get("HOSTILE", 400))
VALUES = [None, True, 0, -1, 5, 0.5, 1e300, 2**62, "", "x", "\0", "é" * 50, "auto", "text", "tool_use", "claude-", [], {},
          [[]], [None], [{}], {"type": "text"}, {"type": 5}, {"": ""}, ["x"] * 20, {"role": "assistant"}]
BODY = {
    "model": "claude-x",
    "max_tokens": 2,
    "system": [{"type": "text", "text": "x-anthropic-billing-header: a"}, {"type": "text", "text": "Be brief."}],
    "tools": [WEATHER, {"type": "bash_20250124", "name": "bash"}, {"type": "web_search_20250305", "name": "w"},
              {"name": "late", "input_schema": {}, "defer_loading": True}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "omitted"},
    "output_config": {"effort": "low"},
    "stop_sequences": ["zzz"],
    "metadata": {"user_id": "u"},
    "stream": False,
    "messages": [
        user(TEXT, TEXT),
        assistant({"type": "thinking", "thinking": "", "signature": "osprey1.SSBsb29rLg=="}, TEXT, CALL),
        user({**RESULT, "is_error": True}, {**RESULT, "content": [TEXT, {"type": "tool_reference", "tool_name": "late"}]}, TEXT),
        assistant({"type": "redacted_thinking", "data": "osprey1.SSBsb29rLg=="}, {"type": "server_tool_use"}, TEXT),
        {"role": "system", "content": "Now.", "clear_at": "next_user_message"},
        {"role": "system", "output_config": {"effort": "high"}, "content": [
            {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {"name": "f"}}},
            {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "f"}},
        ]},
        {"role": "user", "content": "Hi"},
    ],
}


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def copy_of(value):
    return json.loads(json.dumps(value))


def changed(rng, body):
    body = copy_of(body)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        path = rng.choice([p for p in places(body) if p])
        holder = body
        for key in path[:-1]:
            holder = holder[key]
        way = rng.randrange(4)
        if way == 0:
            del holder[path[-1]]
        elif way == 1 and isinstance(holder, list):
            holder.insert(path[-1], copy_of(rng.choice(holder)))
        elif way == 2 and isinstance(holder, dict):
            holder[rng.choice(["type", "content", "text", "input", "name", "id", "cache_control"])] = copy_of(holder[path[-1]])
        else:
            holder[path[-1]] = copy_of(rng.choice(VALUES))
        if not body:
            break
    return body


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_changed_bodies(server, path):
    rng, n = random.Random(path), {200: 0, 400: 0, 404: 0}
    for _ in range(N_BODIES):
        body = changed(rng, BODY)
        status, fields, text = post(server, body, path)
        assert status in n, (body, text)
        n[status] += 1
        if status == 200:
            continue
        answer = json.loads(text)
        assert answer["type"] == "error" and answer["request_id"] == fields["request-id"], (body, answer)
        assert answer["error"]["type"] == ("not_found_error" if status == 404 else "invalid_request_error")
        assert answer["error"]["message"]
    print(n)
    assert n[200] > N_BODIES / 20 and n[400] > N_BODIES / 5
    assert post(server, {**BODY}, path)[0] == 200


NESTED = {
    "input": lambda deep: {"messages": [user(TEXT), assistant({**CALL, "input": deep}), user(RESULT)]},
    "schema": lambda deep: {"tools": [{"name": "f", "input_schema": deep}]},
    "format": lambda deep: {"output_config": {"format": {"type": "json_schema", "schema": deep}}},
    "unknown": lambda deep: {"frob": deep},
}


@pytest.mark.parametrize("where", NESTED)
@pytest.mark.parametrize("depth", [60, 1000, 1_000_000])
def test_deep_bodies(server, where, depth):
    body = json.dumps({"max_tokens": 1, "messages": [user(TEXT)], **NESTED[where]({"items": "DEEP"})})
    body = body.replace('"DEEP"', '{"items":' * depth + "{}" + "}" * depth)
    status, _, text = post(server, body.encode())
    assert status in (200, 400, 413), text[:500]


def test_intricate_bodies(server):
    """Many small values: a limit of memory, not of time."""
    for body in (
        {"messages": [user(*[TEXT] * 30_000)]},
        {"messages": [user(TEXT)] * 30_000},
        {"messages": [user(TEXT), assistant(*[CALL] * 20_000), user(RESULT)]},
        {"system": [TEXT] * 30_000},
        {"tools": [{**WEATHER, "name": f"f{i}"} for i in range(5000)]},
        {"stop_sequences": ["x"] * 100_000},
    ):
        status, _, text = post(server, {"max_tokens": 1, "messages": [user(TEXT)], **body})
        assert status == 400 and json.loads(text)["error"]["message"], text[:500]

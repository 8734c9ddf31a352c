"""/v1/responses: the official client, the events of a stream, what is kept, and what is refused."""

import json
import socket

import openai
import pydantic
import pytest

QUESTION = "What is the capital of France?"
LONG_TASK = "Copy this exactly: " + "one two three four five six " * 20
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Gets the weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "The city"}},
        "required": ["city"],
    },
}
MODEL = "osprey-nano"
AS_CLIENT = "Authorization: Bearer none\r\n"  # the key of the fixture's client


def post(server, body, path="/v1/responses", headers="", method="POST"):
    """Status, headers and body, as they come."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\n{headers}Content-Length: {len(data)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
        s.sendall(head.encode() + data)
        got = b""
        while piece := s.recv(65536):
            got += piece
    head, rest = got.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines[1:])
    if fields.get("transfer-encoding") == "chunked":
        text = b""
        while True:
            size, rest = rest.split(b"\r\n", 1)
            if int(size, 16) == 0:
                break
            text, rest = text + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        rest = text
    return int(lines[0].split()[1]), fields, rest


def events_of(text):
    """The events of a stream; the name of each is its type."""
    events = []
    for block in text.decode().split("\n\n")[:-1]:
        if block.startswith(":"):
            continue
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == "event: " + events[-1]["type"]
    return events


def check_events(events):
    """The rules that every stream keeps; gives the last event's response."""
    items, item, part, text = [], None, None, ""
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert [e["type"] for e in events[:2]] == ["response.created", "response.in_progress"]
    for e in events[2:-1]:
        kind = e["type"].removeprefix("response.")
        assert e["output_index"] == len(items), e
        if kind == "output_item.added":
            assert item is None and part is None
            item, text = e["item"], ""
            assert item["status"] == "in_progress"
        elif kind == "output_item.done":
            assert part is None and e["item"]["id"] == item["id"] and e["item"]["type"] == item["type"]
            items.append(e["item"])
            item = None
        else:
            assert e["item_id"] == item["id"]
            if item["type"] != "function_call":
                assert e.get("content_index", e.get("summary_index")) == 0
            if kind == "content_part.added":
                assert part is None and e["part"]["text"] == ""
                part = e["part"]
            elif kind == "content_part.done":
                assert e["part"]["text"] == text and e["part"]["type"] == part["type"]
                part = None
            elif kind in ("output_text.delta", "reasoning_text.delta", "function_call_arguments.delta"):
                assert e["delta"] and (part is not None or item["type"] == "function_call")
                text += e["delta"]
            elif kind in ("output_text.done", "reasoning_text.done"):
                assert e["text"] == text
            elif kind == "function_call_arguments.done":
                assert e["arguments"] == text and e["name"] == item["name"]
            else:
                assert kind.startswith("reasoning_summary_"), kind
    last = events[-1]
    assert item is None
    assert last["type"] == "response." + last["response"]["status"]
    assert last["response"]["output"] == items
    assert last["response"]["id"] == events[0]["response"]["id"]
    return last["response"]


def stream(server, **body):
    status, fields, text = post(server, {**body, "stream": True})
    assert status == 200 and fields["content-type"].startswith("text/event-stream")
    return check_events(events_of(text))


def plain(output):
    """Items without what is different every time."""
    return [{k: v for k, v in item.items() if k not in ("id", "call_id")} for item in output]


# ---- whole and streamed ----


def test_whole_response(client):
    r = client.responses.create(model=MODEL, input=QUESTION, metadata={"a": "b"}, user="u")
    assert r.object == "response" and r.id.startswith("resp_") and r.status == "completed"
    assert "Paris" in r.output_text
    assert [item.type for item in r.output] == ["reasoning", "message"]
    assert r.output[0].content[0].text and r.output[0].summary == []
    assert r.model == MODEL and r.error is None and r.incomplete_details is None
    assert r.metadata == {"a": "b"} and r.user == "u" and r.store is True
    assert r.tool_choice == "auto" and r.tools == [] and r.truncation == "disabled"
    assert r.usage.total_tokens == r.usage.input_tokens + r.usage.output_tokens
    assert 0 < r.usage.output_tokens_details.reasoning_tokens < r.usage.output_tokens
    details = r.usage.input_tokens_details
    assert details.cached_tokens + details.cache_write_tokens == r.usage.input_tokens
    assert r.created_at <= r.completed_at


def test_streamed_as_whole(server, client):
    whole = client.responses.create(model=MODEL, input=QUESTION).model_dump(mode="json", exclude_unset=True)
    streamed = stream(server, input=QUESTION)
    assert plain(streamed["output"]) == plain(whole["output"])
    assert streamed["usage"]["output_tokens"] == whole["usage"]["output_tokens"]
    with client.responses.stream(model=MODEL, input=QUESTION) as helper:
        kinds = [event.type for event in helper]
        final = helper.get_final_response()
    assert "response.output_text.delta" in kinds and kinds[-1] == "response.completed"
    assert final.output_text == whole["output"][1]["content"][0]["text"]


def test_a_cut_response_is_incomplete(server, client):
    for text, kind in ((QUESTION, "reasoning"), ("Hi", None)):
        r = client.responses.create(model=MODEL, input=text, max_output_tokens=6)
        assert r.status == "incomplete" and r.incomplete_details.reason == "max_output_tokens"
        assert r.usage.output_tokens == 6
        assert r.output[-1].status == "incomplete"
        assert kind in (None, r.output[-1].type)
    cut = stream(server, input=QUESTION, max_output_tokens=6)
    assert cut["status"] == "incomplete" and cut["incomplete_details"] == {"reason": "max_output_tokens"}


def test_all_forms_of_messages(client):
    forms = [
        {"role": "user", "content": QUESTION},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is the capital"},
                {"type": "text", "text": " of France?"},
            ],
        },
    ]
    usages = {client.responses.create(model=MODEL, input=[f]).usage.input_tokens for f in forms}
    assert usages == {client.responses.create(model=MODEL, input=QUESTION).usage.input_tokens}


def test_instructions_and_roles_are_as_in_a_chat(client):
    messages = [{"role": "system", "content": "A."}, {"role": "user", "content": "Hi"}]
    chat = client.chat.completions.create(
        model=MODEL, messages=[{"role": "developer", "content": "Be brief."}, *messages], max_tokens=1
    )
    r = client.responses.create(
        model=MODEL, instructions="Be brief.", input=messages, max_output_tokens=1
    )
    assert r.usage.input_tokens == chat.usage.prompt_tokens
    assert r.instructions == "Be brief."


def test_effort_and_sampling(client):
    r = client.responses.create(
        model=MODEL, input="Hi", reasoning={"effort": "low"}, temperature=0.7, top_p=0.9,
        extra_body={"seed": 5},
    )
    assert r.reasoning.effort == "low" and (r.temperature, r.top_p) == (0.7, 0.9)
    again = client.responses.create(
        model=MODEL, input="Hi", reasoning={"effort": "low"}, temperature=0.7, top_p=0.9,
        extra_body={"seed": 5},
    )
    assert again.output_text == r.output_text


def test_logprobs(client, server):
    r = client.responses.create(
        model=MODEL, input=QUESTION, top_logprobs=2, include=["message.output_text.logprobs"]
    )
    part = r.output[-1].content[0]
    assert "".join(p.token for p in part.logprobs) == part.text
    assert all(len(p.top_logprobs) == 2 for p in part.logprobs) and r.top_logprobs == 2
    streamed = stream(server, input=QUESTION, include=["message.output_text.logprobs"])
    assert len(streamed["output"][-1]["content"][0]["logprobs"]) == len(part.logprobs)
    assert r.output[-1].content[0].logprobs[0].logprob <= 0


def test_forms_of_reasoning(server, client):
    r = stream(
        server, input=QUESTION, reasoning={"summary": "auto"}, include=["reasoning.encrypted_content"]
    )
    item = r["output"][0]
    assert item["summary"][0]["text"] == item["content"][0]["text"]
    call = {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "12 degrees"}
    tokens = []
    for fields in (["content"], ["encrypted_content"], ["summary"], []):
        reasoning = {"type": "reasoning", "summary": [], **{k: item[k] for k in fields}}
        answer = client.responses.create(
            model=MODEL, input=[{"role": "user", "content": QUESTION}, reasoning, call, result],
            max_output_tokens=1,
        )
        tokens.append(answer.usage.input_tokens)
    assert tokens[0] == tokens[1] == tokens[2] > tokens[3]


# ---- tools and forms ----


def test_a_round_of_tools(server, client):
    ask = [{"role": "user", "content": "What is the weather in Paris?"}]
    r = client.responses.create(model=MODEL, input=ask, tools=[WEATHER])
    calls = [item for item in r.output if item.type == "function_call"]
    assert calls and calls[0].name == "get_weather" and calls[0].call_id.startswith("call_")
    assert json.loads(calls[0].arguments)["city"] and r.status == "completed"
    streamed = stream(server, input=ask, tools=[WEATHER])
    assert plain(streamed["output"]) == plain(r.model_dump(mode="json", exclude_unset=True)["output"])
    result = {"type": "function_call_output", "call_id": calls[0].call_id, "output": "Sunny, 21 degrees"}
    by_items = client.responses.create(
        model=MODEL, input=[*ask, *[i.to_dict() for i in r.output], result], tools=[WEATHER]
    )
    by_id = client.responses.create(
        model=MODEL, input=[result], previous_response_id=r.id, tools=[WEATHER]
    )
    references = [{"type": "item_reference", "id": item.id} for item in r.output]
    by_reference = client.responses.create(model=MODEL, input=[*ask, *references, result], tools=[WEATHER])
    assert by_items.output_text == by_id.output_text == by_reference.output_text
    assert by_items.usage.input_tokens == by_id.usage.input_tokens == by_reference.usage.input_tokens
    # The reasoning is where it was: what the model has written is found in the cache.
    assert by_id.usage.input_tokens_details.cached_tokens >= r.usage.input_tokens


def test_calls_that_must_be(server, client):
    """Strict, with a named function, and one of a namespace, which goes by both its names."""
    strict = {
        **WEATHER,
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["days"],
            "additionalProperties": False,
        },
    }
    for choice in ("required", {"type": "function", "name": "get_weather"}):
        r = client.responses.create(model=MODEL, input="Hi", tools=[strict], tool_choice=choice,
                                    parallel_tool_calls=False)
        calls = [item for item in r.output if item.type == "function_call"]
        assert r.status == "completed" and len(calls) == 1
        assert 1 <= json.loads(calls[0].arguments)["days"] <= 9
        assert r.parallel_tool_calls is False
    ask = {"role": "user", "content": "What is the weather in Paris?"}
    files = {"type": "namespace", "name": "mcp__sky", "tools": [{**WEATHER, "name": "look"}, {"type": "x"}]}
    status, fields, text = post(server, {"input": [ask], "tools": [files], "tool_choice": "required"})
    first = json.loads(text)
    call = first["output"][-1]
    assert status == 200 and fields["x-osprey-warning"] == "ignored unknown fields: tools.namespace"
    assert (call["namespace"], call["name"]) == ("mcp__sky", "look") and first["tools"] == [files]
    streamed = stream(server, input=[ask], tools=[files], tool_choice="required")
    assert plain(streamed["output"]) == plain(first["output"])
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "Sunny."}
    _, _, text = post(server, {"input": [ask, *first["output"], result], "tools": [files]})
    second = json.loads(text)
    # The call is what the model wrote: the prompt is found in the cache up to the result.
    assert second["usage"]["input_tokens_details"]["cached_tokens"] >= first["usage"]["input_tokens"]


def test_no_tools(client):
    r = client.responses.create(
        model=MODEL, input="What is the weather in Paris?", tools=[WEATHER], tool_choice="none"
    )
    assert all(item.type != "function_call" for item in r.output)
    without = client.responses.create(model=MODEL, input="What is the weather in Paris?")
    assert without.usage.input_tokens < r.usage.input_tokens  # the tools stay in the prompt


def test_tools_that_agents_send(server):
    foreign = [
        {"type": "web_search"},
        {"type": "tool_search"},
        {"type": "image_generation"},
        {"type": "something\r\nnew"},
    ]
    status, fields, text = post(
        server,
        {"input": QUESTION, "tools": [*foreign, WEATHER, {"type": "web_search"}], "max_output_tokens": 4,
         "text": {"verbosity": "low"}, "client_metadata": {}},
    )
    body = json.loads(text)
    assert status == 200 and [t["type"] for t in body["tools"]] == ["function"]
    assert fields["x-osprey-warning"] == (
        "ignored unknown fields: client_metadata, tools.web_search, tools.tool_search, "
        "tools.image_generation, tools.something??new, text.verbosity"
    )


def test_an_agent_that_keeps_everything_itself(server):
    """The request of a coding agent: stateless, streamed, with items of other servers."""
    body = {
        "model": MODEL,
        "instructions": "You are an agent.",
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Rules."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}],
             "encrypted_content": None},
            {"type": "function_call", "id": "fc_1", "name": "shell", "arguments": "{\"cmd\":\"ls\"}",
             "call_id": "call_1"},
            {"type": "function_call_output", "call_id": "call_1", "output": "a.txt"},
            {"type": "web_search_call", "status": "completed", "action": {"type": "search"}},
        ],
        "tools": [{**WEATHER, "strict": False}, {"type": "web_search", "external_web_access": True}],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "0199",
        "max_output_tokens": 8,
    }
    r = stream(server, **body)
    assert r["store"] is False and r["prompt_cache_key"] == "0199"
    assert r["output"][0]["encrypted_content"].startswith("osprey1.")
    status, _, _ = post(server, b"", f"/v1/responses/{r['id']}", method="GET")
    assert status == 404


def test_probes(server):
    for body in ({"input": ""}, {"input": []}, {"input": [], "instructions": "x", "tools": [WEATHER]}, {}):
        status, _, text = post(server, body)
        r = json.loads(text)
        assert status == 200 and r["status"] == "completed" and r["output"] == []
        assert r["usage"]["total_tokens"] == 0
        assert stream(server, **body)["output"] == []


def test_structured_output(client):
    class City(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=20)
        capital: bool

    r = client.responses.parse(model=MODEL, input="Describe the city of Paris.", text_format=City,
                               max_output_tokens=400)
    assert r.status == "completed" and isinstance(r.output_parsed, City)
    assert r.text.format.type == "json_schema"
    r = client.responses.create(model=MODEL, input="Any object, please.", max_output_tokens=400,
                                text={"format": {"type": "json_object"}})
    if r.status == "completed":
        assert isinstance(json.loads(r.output_text), dict)


# ---- what is kept ----


def test_turns_are_kept(client):
    first = client.responses.create(model=MODEL, input=QUESTION)
    second = client.responses.create(model=MODEL, input="And of Italy?", previous_response_id=first.id)
    third = client.responses.create(model=MODEL, input="Thanks.", previous_response_id=second.id)
    assert second.previous_response_id == first.id
    assert first.usage.input_tokens < second.usage.input_tokens < third.usage.input_tokens
    by_hand = client.responses.create(
        model=MODEL,
        input=[{"role": "user", "content": QUESTION}, *[i.to_dict() for i in first.output],
               {"role": "user", "content": "And of Italy?"}],
    )
    assert by_hand.output_text == second.output_text
    assert by_hand.usage.input_tokens == second.usage.input_tokens
    assert client.responses.retrieve(second.id).to_dict() == second.to_dict()
    # Two go on from the same one; deleting it takes it from neither.
    other = client.responses.create(model=MODEL, input="And of Spain?", previous_response_id=first.id)
    assert client.responses.delete(first.id) is None
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input="x", previous_response_id=first.id)
    assert refused.value.code == "previous_response_not_found"
    assert refused.value.param == "previous_response_id"
    assert client.responses.create(model=MODEL, input="x", previous_response_id=other.id).output_text


def test_input_items(client, server):
    items = [{"role": "user", "content": f"Word {i}."} for i in range(5)]
    r = client.responses.create(model=MODEL, input=items, max_output_tokens=1)
    texts = [i.content[0].text for i in client.responses.input_items.list(r.id, limit=2)]
    assert texts == [f"Word {i}." for i in (4, 3, 2, 1, 0)]  # the client turns the pages
    page = client.responses.input_items.list(r.id, limit=2, order="asc")
    assert page.has_more and [i.content[0].text for i in page.data] == ["Word 0.", "Word 1."]
    for query in ("limit=0", "limit=101", "limit=x", "order=up", "after=msg_9"):
        status, _, text = post(
            server, b"", f"/v1/responses/{r.id}/input_items?{query}", AS_CLIENT, method="GET"
        )
        assert status == 400 and json.loads(text)["error"]["param"] == query.split("=")[0]


def test_unknown_ids(client, server):
    for path, method in (
        ("resp_1", "GET"), ("resp_1", "DELETE"), ("resp_1/input_items", "GET"), ("resp_1/cancel", "POST"),
    ):
        status, _, text = post(server, b"", f"/v1/responses/{path}", method=method)
        assert status == 404, path
        assert "resp_1" in json.loads(text)["error"]["message"]
    r = client.responses.create(model=MODEL, input="Hi", max_output_tokens=1)
    with pytest.raises(openai.BadRequestError, match="synchronous"):
        client.responses.cancel(r.id)
    status, fields, _ = post(server, b"", f"/v1/responses/{r.id}", method="PUT")
    assert status == 405 and fields["allow"].upper() == "GET, HEAD, DELETE, OPTIONS"


def test_nobody_else_finds_it(server):
    alice, bob = server.client("alice"), server.client("bob")
    r = alice.responses.create(model=MODEL, input=QUESTION)
    assert alice.responses.retrieve(r.id).id == r.id
    for attempt in (
        lambda: bob.responses.retrieve(r.id),
        lambda: bob.responses.delete(r.id),
        lambda: bob.responses.input_items.list(r.id),
    ):
        with pytest.raises(openai.NotFoundError):
            attempt()
    with pytest.raises(openai.BadRequestError):
        bob.responses.create(model=MODEL, input="x", previous_response_id=r.id)
    with pytest.raises(openai.BadRequestError):
        bob.responses.create(model=MODEL, input=[{"type": "item_reference", "id": r.output[0].id}])
    status, _, _ = post(server, b"", f"/v1/responses/{r.id}", method="GET")
    assert status == 404


def test_not_stored(client):
    r = client.responses.create(model=MODEL, input="Hi", store=False, max_output_tokens=2)
    assert r.store is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(r.id)


def test_limits_of_the_store(start_server):
    server = start_server("--max-stored-responses", "2")
    client = server.client()
    ids = [client.responses.create(model=MODEL, input="Hi", max_output_tokens=1).id for _ in range(3)]
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(ids[0])
    assert [client.responses.retrieve(i).id for i in ids[1:]] == ids[1:]
    assert server.stop() == 0
    none = start_server("--max-stored-responses", "0")
    r = none.client().responses.create(model=MODEL, input="Hi", max_output_tokens=1)
    assert r.store is False
    assert none.stop() == 0


def test_input_tokens(client, server):
    """The count is that of the prompt which the same request has."""
    bodies = [
        {"input": QUESTION},
        {"input": [{"role": "user", "content": QUESTION}], "instructions": "Be brief.", "tools": [WEATHER],
         "tool_choice": "auto", "reasoning": {"effort": "high"}, "truncation": "auto"},
        {"input": QUESTION, "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}}},
    ]
    for body in bodies:
        made = client.responses.create(model=MODEL, max_output_tokens=1, **body)
        assert client.responses.input_tokens.count(model=MODEL, **body).input_tokens == made.usage.input_tokens
    first = client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=1)
    follow = {"input": "And of Italy?", "previous_response_id": first.id}
    # with a seed the prompt is made of the texts alone, as the count is; else of the tokens that the model drew
    made = client.responses.create(model=MODEL, max_output_tokens=1, extra_body={"seed": 1}, **follow)
    assert client.responses.input_tokens.count(model=MODEL, **follow).input_tokens == made.usage.input_tokens
    status, _, text = post(server, {"input": "word " * 6000, "stream": True}, "/v1/responses/input_tokens")
    count = json.loads(text)
    assert status == 200 and count["object"] == "response.input_tokens" and 6000 < count["input_tokens"] < 6200
    status, _, text = post(server, {}, "/v1/responses/input_tokens")
    assert status == 200 and json.loads(text)["input_tokens"] == 0
    for body, param in (({"input": 3}, "input"), ({"input": "x", "tools": [{}]}, "tools[0].type"),
                        ({"input": "x", "previous_response_id": "resp_1"}, "previous_response_id")):
        status, _, text = post(server, body, "/v1/responses/input_tokens")
        assert status == 400 and json.loads(text)["error"]["param"] == param


def test_compact_is_refused_with_its_reason(server):
    status, _, text = post(server, {"model": MODEL, "input": []}, "/v1/responses/compact")
    error = json.loads(text)["error"]
    assert status == 400 and error["code"] == "unsupported" and "truncation" in error["message"]


def turns(n, words=200):
    """A conversation of n turns, which nano's context of 4,096 tokens holds about 18 of."""
    return [{"role": role, "content": f"{i} " + "word " * words} for i in range(n) for role in ("user", "assistant")]


def test_truncation_drops_the_oldest(server, client):
    """What remains is the prompt of the conversation without the dropped messages."""
    items = [{"role": "developer", "content": "Be brief."}, *turns(15), {"role": "user", "content": "last"}]
    body = {"model": MODEL, "input": items, "max_output_tokens": 2, "truncation": "auto"}
    raw = client.responses.with_raw_response.create(**body)
    r, warning = raw.parse(), raw.headers["x-osprey-warning"]
    assert r.truncation == "auto" and "of 32" in warning
    n_dropped = int(warning.split(" of 32")[0].rsplit(" ")[-1])
    assert 5 < n_dropped < 31 and r.usage.input_tokens <= 4096 - 2
    rest = [items[0], *items[1 + n_dropped:]]
    same = client.responses.create(**{**body, "input": rest, "truncation": "disabled"})
    assert same.usage.input_tokens == r.usage.input_tokens
    counted = client.responses.input_tokens.count(model=MODEL, input=items, truncation="auto")
    assert counted.input_tokens <= 4096 - 4096 // 8
    # the next turn drops the same messages, and the rest of its prompt is in the prefix cache
    more = [*items, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "and?"}]
    raw = client.responses.with_raw_response.create(**{**body, "input": more})
    assert f"{n_dropped} of 34" in raw.headers["x-osprey-warning"]
    # the stored conversation is truncated likewise
    stored = client.responses.create(**{**body, "input": items})
    following = client.responses.create(model=MODEL, input=turns(3)[:5], previous_response_id=stored.id,
                                        truncation="auto", max_output_tokens=2)
    assert following.usage.input_tokens <= 4096 - 2
    with pytest.raises(openai.BadRequestError) as e:
        client.responses.create(**{**body, "truncation": "disabled"})
    assert e.value.code == "context_length_exceeded"


def test_truncation_in_an_agents_loop(client):
    """One user message and many calls: the oldest calls go, each with its result."""
    items = [{"role": "user", "content": "task"}]
    for i in range(30):
        items += [{"type": "function_call", "call_id": f"c{i}", "name": "get_weather", "arguments": '{"city": "Paris"}'},
                  {"type": "function_call_output", "call_id": f"c{i}", "output": f"{i} " + "word " * 200}]
    body = {"model": MODEL, "max_output_tokens": 2, "tools": [WEATHER]}
    raw = client.responses.with_raw_response.create(**body, input=items, truncation="auto")
    n_dropped = int(raw.headers["x-osprey-warning"].split(" of 61")[0].rsplit(" ")[-1])
    assert n_dropped % 2 == 0 and n_dropped > 20
    same = client.responses.create(**body, input=[items[0], *items[1 + n_dropped:]])
    assert same.usage.input_tokens == raw.parse().usage.input_tokens


def test_truncation_auto(client):
    """What the Agents SDK sends: the same as disabled while the conversation fits."""
    answers = [client.responses.create(model="osprey-nano", input="Hello", temperature=0, max_output_tokens=20, truncation=how)
               for how in ("disabled", "auto")]
    assert [answer.truncation for answer in answers] == ["disabled", "auto"]
    assert answers[0].usage.input_tokens == answers[1].usage.input_tokens
    assert answers[0].output_text == answers[1].output_text


# ---- what is refused ----

REFUSED = {
    "no such model": ({"input": "x", "model": "gpt-9"}, 404, "model"),
    "truncation word": ({"input": "x", "truncation": "newest"}, 400, "truncation"),
    "truncation auto, too long": ({"input": "word " * 6000, "truncation": "auto"}, 400, None),
    "truncation other": ({"input": "x", "truncation": 3}, 400, "truncation"),
    "conversation": ({"input": "x", "conversation": "conv_1"}, 404, "conversation"),
    "conversation object": ({"input": "x", "conversation": {"id": "conv_1"}}, 404, "conversation"),
    "conversation number": ({"input": "x", "conversation": 3}, 400, "conversation"),
    "conversation without id": ({"input": "x", "conversation": {}}, 400, "conversation"),
    "conversation and previous": ({"input": "x", "conversation": "conv_1", "previous_response_id": "resp_1"}, 400,
                                  "conversation"),
    "prompt": ({"input": "x", "prompt": {"id": "pmpt_1"}}, 400, "prompt"),
    "input is a number": ({"input": 3}, 400, "input"),
    "an image": (
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
        400,
        "input[0].content[0].type",
    ),
    "a result of no call": (
        {"input": [{"role": "user", "content": "x"},
                   {"type": "function_call_output", "call_id": "c", "output": "x"}]},
        400,
        "input[1].call_id",
    ),
    "a bad name": (
        {"input": [{"type": "function_call", "call_id": "c", "name": "a b", "arguments": "{}"}]},
        400,
        "input[0].name",
    ),
    "a bad tool": ({"input": "x", "tools": [{"type": "web_search"}, {"type": "function", "name": "a b"}]},
                   400, "tools[1].name"),
    "tools of no type": ({"input": "x", "tools": [{}]}, 400, "tools[0].type"),
    "tools no list": ({"input": "x", "tools": {}}, 400, "tools"),
    "effort": ({"input": "x", "reasoning": {"effort": "enormous"}}, 400, "reasoning.effort"),
    "effort a number": ({"input": "x", "reasoning": {"effort": 3}}, 400, "reasoning.effort"),
    "summary": ({"input": "x", "reasoning": {"summary": "long"}}, 400, "reasoning.summary"),
    "include": ({"input": "x", "include": ["everything"]}, 400, "include[0]"),
    "include a number": ({"input": "x", "include": [3]}, 400, "include[0]"),
    "top_logprobs": ({"input": "x", "top_logprobs": 21}, 400, "top_logprobs"),
    "max_output_tokens": ({"input": "x", "max_output_tokens": 0}, 400, "max_output_tokens"),
    "temperature": ({"input": "x", "temperature": 3}, 400, "temperature"),
    "metadata": ({"input": "x", "metadata": {"a": 1}}, 400, "metadata.a"),
    "metadata full": ({"input": "x", "metadata": {str(i): "" for i in range(17)}}, 400, "metadata"),
    "format": ({"input": "x", "text": {"format": {"type": "yaml"}}}, 400, "text.format"),
    "schema": ({"input": "x", "text": {"format": {"type": "json_schema", "name": "a"}}}, 400,
               "text.format.schema"),
    "an invalid schema": (
        {"input": "x", "text": {"format": {"type": "json_schema", "name": "a", "strict": True,
                                           "schema": {"type": "object", "properties": {"a": {"pattern": "("}}}}}},
        400,
        "text.format",
    ),
    "no function to call": ({"input": "x", "tool_choice": "required"}, 400, "tool_choice"),
    "a choice of none": (
        {"input": "x", "tools": [WEATHER], "tool_choice": {"type": "function", "name": "g"}}, 400, "tool_choice",
    ),
    "a namespace without tools": ({"input": "x", "tools": [{"type": "namespace", "name": "a"}]}, 400,
                                  "tools[0].tools"),
    "a call of no name": (
        {"input": [{"type": "function_call", "call_id": "c", "name": "a", "namespace": "b c", "arguments": ""}]},
        400,
        "input[0].namespace",
    ),
    "instructions": ({"input": "x", "instructions": 3}, 400, "instructions"),
    "store": ({"input": "x", "store": "yes"}, 400, "store"),
    "previous": ({"input": "x", "previous_response_id": "resp_1"}, 400, "previous_response_id"),
    "stream": ({"input": "x", "stream": 1}, 400, "stream"),
    "too long": ({"input": "word " * 5000}, 400, None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(server, name):
    body, wanted, param = REFUSED[name]
    for more in ({}, {"stream": True}) if "stream" not in body else ({},):
        status, _, text = post(server, {**body, **more})
        error = json.loads(text)["error"]
        assert status == wanted, error
        assert error["param"] == param, error
        assert error["type"] == "invalid_request_error" and error["code"]


def test_overflow_tells_both_numbers(server):
    _, _, text = post(server, {"input": "word " * 5000})
    error = json.loads(text)["error"]
    assert error["code"] == "context_length_exceeded" and "4096" in error["message"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"input":"x"', b'{"input":"\xff"}', b'{"input":"x","input":"y"}']
)
def test_bodies_that_are_no_request(server, body):
    status, _, text = post(server, body)
    assert status == 400 and json.loads(text)["error"]["type"] == "invalid_request_error"
    server.wait_idle()


def test_a_client_that_leaves_stops_its_response(server, client):
    with client.responses.create(model=MODEL, input=LONG_TASK, stream=True) as events:
        for event in events:
            if event.type.endswith(".delta"):
                break
    server.wait_idle()

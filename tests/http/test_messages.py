"""/v1/messages: the official client, the events of a stream, what is read and what is refused."""

import json

import anthropic
import pydantic
import pytest

from test_responses import post as post_to

MODEL = "osprey-nano"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
WEATHER_QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Gets the weather of a city.", "input_schema": CITY}
TIME = {"name": "get_time", "description": "Gets the time in a city.", "input_schema": CITY}
THINKING = {"type": "adaptive"}
STOPS = "end_turn max_tokens stop_sequence tool_use model_context_window_exceeded".split()


def client_of(server, **options):
    return anthropic.Anthropic(
        base_url=server.url, auth_token="none", max_retries=0, timeout=120, _strict_response_validation=True, **options
    )


@pytest.fixture
def client(server):
    return client_of(server)


def for_client(options):
    """The client has no temperature, nor the fields that are not Anthropic's."""
    extra = {name: options.pop(name) for name in ("temperature", "seed", "cache_salt") if name in options}
    return {"extra_body": extra, **options}


def ask(client, messages=QUESTION, **options):
    options = for_client(options)
    return client.messages.create(**{"model": MODEL, "max_tokens": 1500, "messages": messages, **options})


def ask_until_ended(client, **options):
    """A small model now and then writes on until max_tokens; with which seed depends on the CPU's kernels."""
    for seed in range(10):
        message = ask(client, seed=seed, **options)
        if message.stop_reason != "max_tokens":
            return message
    raise AssertionError(f"10 of 10 answers reached max_tokens; the last: {message}")


def post(server, body, path="/v1/messages", **more):
    return post_to(server, body, path, **more)


def post_until_ended(server, body):
    """As ask_until_ended()."""
    for seed in range(10):
        status, _, text = post(server, {"max_tokens": 1500, "temperature": 1, "seed": seed, **body})
        message = json.loads(text)
        assert status == 200, message
        if message["stop_reason"] != "max_tokens":
            return message
    raise AssertionError(f"10 of 10 answers reached max_tokens; the last: {message}")


def refusal(server, body, path="/v1/messages", status=400, kind="invalid_request_error", **more):
    """The message of an error in Anthropic's form."""
    got, fields, text = post(server, body, path, **more)
    answer = json.loads(text)
    assert got == status, answer
    assert answer.keys() == {"type", "error", "request_id"} and answer["type"] == "error"
    assert answer["error"].keys() == {"type", "message"} and answer["error"]["type"] == kind
    assert answer["request_id"] == fields["request-id"]
    return answer["error"]["message"]


# ---- events ----


def events_of(text):
    """The events of a stream; the name of each is its type. Comments come before the first event only."""
    events = []
    for block in text.decode().split("\n\n")[:-1]:
        if block.startswith(":"):
            assert not events
            continue
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == "event: " + events[-1]["type"]
    return events


DELTAS = {"thinking_delta": "thinking", "text_delta": "text", "input_json_delta": "partial_json"}


def check_events(events):
    """The rules that every stream keeps; gives the message that they make."""
    events = [e for e in events if e["type"] != "ping"]
    assert events[0]["type"] == "message_start" and events[-1]["type"] == "message_stop"
    message, delta = events[0]["message"], events[-2]
    assert message["content"] == [] and message["stop_reason"] is None and message["role"] == "assistant"
    block, pieces = None, ""
    for e in events[1:-2]:
        assert e["index"] == len(message["content"])
        if e["type"] == "content_block_start":
            assert block is None
            block, pieces, signature = e["content_block"], "", None
        elif e["type"] == "content_block_delta":
            kind, piece = e["delta"]["type"], e["delta"]
            assert signature is None
            if kind == "signature_delta":
                assert block["type"] == "thinking" and piece["signature"]
                signature = piece["signature"]
            else:
                assert DELTAS[kind].startswith({"tool_use": "partial"}.get(block["type"], block["type"]))
                assert piece[DELTAS[kind]]
                pieces += piece[DELTAS[kind]]
        else:
            assert e["type"] == "content_block_stop"
            if block["type"] == "tool_use":
                assert block["input"] == {}
                block["input"] = json.loads(pieces)
                assert isinstance(block["input"], dict)
            else:
                assert block[block["type"]] == ""
                block[block["type"]] = pieces
            if block["type"] == "thinking":
                assert block["signature"] == "" and signature
                block["signature"] = signature
            message["content"].append(block)
            block = None
    assert block is None and delta["type"] == "message_delta"
    assert delta["delta"].keys() == {"stop_reason", "stop_sequence"} and delta["delta"]["stop_reason"] in STOPS
    start = message["usage"]
    message.update(delta["delta"])
    message["usage"] = delta["usage"]
    assert start["input_tokens"] == message["usage"]["input_tokens"]
    assert start["cache_read_input_tokens"] == message["usage"]["cache_read_input_tokens"]
    return message


def stream(server, **body):
    status, fields, text = post(server, {"max_tokens": 1500, "messages": QUESTION, **body, "stream": True})
    assert status == 200 and fields["content-type"].startswith("text/event-stream"), text
    return check_events(events_of(text))


def plain(content):
    """Blocks without what is different every time."""
    blocks = [b if isinstance(b, dict) else b.to_dict() for b in content]
    return [{k: v for k, v in b.items() if k != "id"} for b in blocks]


# ---- whole and streamed ----


def test_whole_message(client):
    m = ask(client, thinking=THINKING, metadata={"user_id": "u"})
    assert m.type == "message" and m.role == "assistant" and m.id.startswith("msg_") and m.model == MODEL
    assert [block.type for block in m.content] == ["thinking", "text"]
    assert m.content[0].thinking and m.content[0].signature
    assert "Paris" in m.content[1].text
    assert m.stop_reason == "end_turn" and m.stop_sequence is None
    assert m._request_id.startswith("req-")
    assert 0 < m.usage.output_tokens_details.thinking_tokens < m.usage.output_tokens
    assert m.usage.cache_creation_input_tokens == 0 and m.usage.service_tier == "standard"


@pytest.mark.parametrize("more", [{}, {"tools": [WEATHER, TIME], "tool_choice": {"type": "any"}}], ids=["text", "call"])
def test_streamed_as_whole(server, client, more):
    options = {"thinking": THINKING, "temperature": 0, "messages": WEATHER_QUESTION, "max_tokens": 300, **more}
    whole = ask(client, **options)
    streamed = stream(server, **options)
    assert plain(streamed["content"]) == plain(whole.content)
    assert streamed["usage"]["output_tokens"] == whole.usage.output_tokens
    assert streamed["stop_reason"] == whole.stop_reason
    with client.messages.stream(model=MODEL, **for_client(dict(options))) as helper:
        kinds = [event.type for event in helper]
        final = helper.get_final_message()
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop" and "thinking" in kinds
    assert plain(final.content) == plain(whole.content)
    with client.messages.stream(model=MODEL, **for_client(dict(options))) as helper:
        text = "".join(helper.text_stream)
    assert text == "".join(block.text for block in whole.content if block.type == "text")


def test_usage_counts_cached_tokens_apart(client):
    long = [{"role": "user", "content": "Say something about the number 4711. " * 30}]
    first = ask(client, long, max_tokens=1, cache_salt="apart").usage
    second = ask(client, long, max_tokens=1, cache_salt="apart").usage
    assert first.cache_read_input_tokens == 0 and first.input_tokens > 100
    assert second.cache_read_input_tokens > 0.9 * first.input_tokens
    assert second.cache_read_input_tokens + second.input_tokens == first.input_tokens


@pytest.mark.parametrize("more", [
    {},
    {"system": "Be brief.", "tools": [WEATHER], "thinking": {"type": "disabled"}},
    {"output_config": {"effort": "high", "format": {"type": "json_schema", "schema": CITY}}},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
])
def test_count_tokens_is_the_usage(client, more):
    body = {"messages": QUESTION, **more}
    usage = ask(client, max_tokens=1, **{k: v for k, v in body.items() if k != "messages"}, messages=body["messages"]).usage
    counted = client.messages.count_tokens(model=MODEL, **body).input_tokens
    assert counted == usage.input_tokens + usage.cache_read_input_tokens


def test_any_name_of_claude_is_a_model(server, client):
    for name in ("claude-opus-5", "claude-3-haiku-20240307", MODEL):
        assert ask(client, max_tokens=1, model=name).model == name
        assert stream(server, max_tokens=1, model=name)["model"] == name
        assert client.messages.count_tokens(model=name, messages=QUESTION).input_tokens > 0
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        body = {"model": "gpt-9", "messages": QUESTION, "max_tokens": 1}
        assert "gpt-9" in refusal(server, body, path, 404, "not_found_error")
    body = {"model": "claude-opus-5", "messages": QUESTION}
    assert post_to(server, body, "/v1/chat/completions")[0] == 404


def test_beta_requests(server, client):
    """The client's beta methods and Claude Code add a query to the path."""
    made = client.beta.messages.create(model=MODEL, max_tokens=1, messages=QUESTION, betas=["claude-code-20250219"])
    assert made.type == "message"
    assert post(server, {"messages": QUESTION, "max_tokens": 1}, "/v1/messages?beta=true")[0] == 200
    assert "max_tokens" in refusal(server, {"messages": QUESTION}, "/v1/messages?beta=true")


def test_models(client):
    page = client.models.list()
    assert [m.id for m in page.data] == [MODEL] and page.first_id == page.last_id == MODEL and not page.has_more
    model = client.models.retrieve(MODEL)
    assert model.id == model.display_name == MODEL and model.max_input_tokens == 4096
    assert client.models.retrieve("claude-opus-5").id == "claude-opus-5"
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("gpt-9")


# ---- thinking and effort ----


@pytest.mark.parametrize("thinking, output_config, effort", [
    (None, None, "medium"),
    ({"type": "disabled"}, None, "low"),
    ({"type": "adaptive"}, None, "medium"),
    ({"type": "enabled", "budget_tokens": 1024}, None, "low"),
    ({"type": "enabled", "budget_tokens": 4000}, None, "medium"),
    ({"type": "enabled", "budget_tokens": 31999}, None, "high"),
    ({"type": "enabled", "budget_tokens": 31999}, {"effort": "low"}, "low"),
    (None, {"effort": "medium"}, "medium"),
    (None, {"effort": "high"}, "high"),
    ({"type": "disabled"}, {"effort": "xhigh"}, "high"),
    (None, {"effort": "max"}, "high"),
])
def test_effort(server, thinking, output_config, effort):
    body = {"messages": QUESTION, "max_tokens": 1, "thinking": thinking, "output_config": output_config}
    status, fields, _ = post(server, body)
    assert status == 200 and fields["x-osprey-reasoning-effort"] == effort


# ---- tools ----


def calls(message):
    return [block for block in message.content if block.type == "tool_use"]


def test_tool_choices(client):
    options = {"messages": WEATHER_QUESTION, "tools": [WEATHER, TIME], "temperature": 1}
    some = ask_until_ended(client, tool_choice={"type": "any"}, **options)
    assert some.stop_reason == "tool_use" and calls(some)
    one = ask_until_ended(client, tool_choice={"type": "tool", "name": "get_time"}, **options)
    assert {call.name for call in calls(one)} == {"get_time"}
    for call in calls(some) + calls(one):
        assert call.input.keys() == {"city"} and call.id
    single = {"type": "any", "disable_parallel_tool_use": True}
    assert len(calls(ask_until_ended(client, tool_choice=single, **options))) == 1
    none = ask_until_ended(client, tool_choice={"type": "none"}, **options)
    assert none.stop_reason == "end_turn" and not calls(none)
    strict = ask_until_ended(client, **{**options, "tools": [{**WEATHER, "strict": True}]}, tool_choice={"type": "any"})
    assert calls(strict)[0].input.keys() == {"city"}


def test_a_conversation_with_a_tool(client):
    """The blocks go back as they came."""
    options = {"tools": [WEATHER], "thinking": THINKING}
    first = ask_until_ended(client, messages=WEATHER_QUESTION, tool_choice={"type": "any"}, **options)
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "Rain, 9 degrees."}]}
        for call in calls(first)
    ]
    messages = [
        *WEATHER_QUESTION,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [*results, {"type": "text", "text": "In one word?"}]},
    ]
    second = ask(client, messages=messages, **options)
    assert second.stop_reason in ("end_turn", "tool_use", "max_tokens")
    assert second.usage.cache_read_input_tokens >= first.usage.input_tokens + first.usage.cache_read_input_tokens - 1


TYPED = [
    {"type": "bash_20250124", "name": "bash"},
    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 9000},
    {"type": "memory_20250818", "name": "memory"},
]


@pytest.mark.parametrize("tool", TYPED, ids=[t["name"] for t in TYPED])
def test_tools_that_the_client_runs(server, client, tool):
    n_without = client.messages.count_tokens(model=MODEL, messages=QUESTION).input_tokens
    assert client.messages.count_tokens(model=MODEL, messages=QUESTION, tools=[tool]).input_tokens > n_without + 50
    forced = {"tools": [tool], "tool_choice": {"type": "tool", "name": tool["name"]}}
    status, _, text = post(server, {"max_tokens": 300, "messages": QUESTION, **forced})
    assert status == 200
    assert {b["name"] for b in json.loads(text)["content"] if b["type"] == "tool_use"} <= {tool["name"]}


def test_tools_of_servers_are_ignored_with_a_warning(server, client):
    tools = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}, WEATHER,
             {"type": "code_execution_20250825", "name": "code_execution"}]
    status, fields, _ = post(server, {"max_tokens": 1, "messages": QUESTION, "tools": tools})
    assert status == 200
    assert fields["x-osprey-warning"].endswith("tools.web_search_20250305, tools.code_execution_20250825")
    alone = client.messages.count_tokens(model=MODEL, messages=QUESTION, tools=[WEATHER])
    assert client.messages.count_tokens(model=MODEL, messages=QUESTION, tools=tools) == alone
    bad = [*tools[:1], {"name": "no good", "input_schema": CITY}]
    message = refusal(server, {"max_tokens": 1, "messages": QUESTION, "tools": bad})
    assert message.startswith("tools[1].name: ")
    chosen = {"tools": tools, "tool_choice": {"type": "tool", "name": "web_search"}}
    assert "tool_choice" in refusal(server, {"max_tokens": 1, "messages": QUESTION, **chosen})


class Digit(pydantic.BaseModel):
    digit: int


def test_output_format(server, client):
    schema = {"type": "object", "properties": {"digit": {"type": "integer", "minimum": 1, "maximum": 9}},
              "required": ["digit"], "additionalProperties": False}
    for field in ({"output_config": {"format": {"type": "json_schema", "schema": schema}}},
                  {"output_format": {"type": "json_schema", "schema": schema}}):
        answer = post_until_ended(server, {"messages": QUESTION, **field})
        assert answer["stop_reason"] == "end_turn"
        assert 1 <= json.loads(answer["content"][-1]["text"])["digit"] <= 9
    options = {"model": MODEL, "messages": QUESTION, "output_format": Digit}
    for seed in range(10):  # an answer that reached max_tokens cannot be parsed
        try:
            parsed = client.messages.parse(max_tokens=1500, extra_body={"seed": seed, "temperature": 1}, **options)
            break
        except pydantic.ValidationError:
            continue
    assert isinstance(parsed.parsed_output.digit, int)
    bad = {"output_config": {"format": {"type": "json_schema", "schema": {"type": "digit"}}}}
    message = refusal(server, {"max_tokens": 1, "messages": QUESTION, **bad})
    assert message.startswith("output_config.format"), message


# ---- what is read ----


def n_tokens(client, messages, **more):
    return client.messages.count_tokens(model=MODEL, messages=messages, **more).input_tokens


def test_the_billing_header_is_dropped(client):
    header = "x-anthropic-billing-header: cc_version=2.1.36.ba3; cc_entrypoint=cli; cch=5d1c7;"
    texts = [{"type": "text", "text": text} for text in (header, "You are an agent.", "Be brief.")]
    wanted = n_tokens(client, QUESTION, system="You are an agent.\n\nBe brief.")
    assert n_tokens(client, QUESTION, system=texts) == wanted
    assert n_tokens(client, QUESTION, system=texts[1:]) == wanted
    assert n_tokens(client, QUESTION, system=header + "\nYou are an agent.\n\nBe brief.") == wanted
    assert n_tokens(client, QUESTION, system=header) == n_tokens(client, QUESTION)
    assert n_tokens(client, QUESTION, system="About " + header) > wanted


def test_cache_control_changes_nothing(client):
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    text = {"type": "text", "text": QUESTION[0]["content"]}
    plain = n_tokens(client, QUESTION, system="x", tools=[WEATHER])
    marked = n_tokens(client, [{"role": "user", "content": [{**text, **mark}]}], system=[{"type": "text", "text": "x", **mark}],
                      tools=[{**WEATHER, **mark}], **mark)
    assert plain == marked


def test_fields_without_effect(server):
    body = {"messages": QUESTION, "max_tokens": 1, "service_tier": "auto", "betas": ["x"], "container": None,
            "inference_geo": "eu", "mcp_servers": [], "speed": "standard", "diagnostics": None, "top_k": 40, "top_p": 0.9}
    status, fields, _ = post(server, body, headers="anthropic-version: 2023-06-01\r\nanthropic-beta: a,b\r\n")
    assert status == 200 and "x-osprey-warning" not in fields
    edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    status, fields, _ = post(server, {**body, "context_management": edits, "speed": "fast", "frobnicate": 1})
    warning = fields["x-osprey-warning"]
    assert status == 200 and all(name in warning for name in ("context_management", "speed", "frobnicate"))


def test_the_effort_of_a_system_message(server):
    """It holds from there on; the last one is that of the answer."""
    messages = [*QUESTION, {"role": "system", "output_config": {"effort": "low"}}, *QUESTION]
    body = {"messages": messages, "max_tokens": 1, "output_config": {"effort": "high"}}
    assert post(server, body)[1]["x-osprey-reasoning-effort"] == "low"
    messages.insert(2, {"role": "system", "content": "Think.", "output_config": {"effort": "xhigh"}})
    assert post(server, body)[1]["x-osprey-reasoning-effort"] == "high"


def test_deferred_tools_are_not_in_the_prompt(client):
    """The model reads the definition where the conversation refers to it, so that what is cached stays valid."""
    deferred = {**TIME, "defer_loading": True}
    search = assistant({"type": "tool_use", "id": "c", "name": "ToolSearch", "input": {"query": "time"}})
    refers = [*QUESTION, search, user({"type": "tool_result", "tool_use_id": "c", "content": [
        {"type": "tool_reference", "tool_name": "get_time"}]})]
    plain = [*refers[:2], user({"type": "tool_result", "tool_use_id": "c", "content": "get_time"})]
    without = n_tokens(client, QUESTION, tools=[WEATHER])
    assert n_tokens(client, QUESTION, tools=[deferred, WEATHER]) == without
    assert n_tokens(client, plain, tools=[deferred, WEATHER]) == n_tokens(client, plain, tools=[WEATHER])
    assert n_tokens(client, refers, tools=[deferred, WEATHER]) > n_tokens(client, plain, tools=[WEATHER]) + 20
    assert n_tokens(client, refers, tools=[WEATHER]) == n_tokens(client, plain, tools=[WEATHER])


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


CALL = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain."}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
TEXT = {"type": "text", "text": "Hi"}


def test_conversations_that_are_read(server, client):
    question = QUESTION[0]
    for messages in (
        [user(TEXT, TEXT)],
        [user()],
        [question, assistant(), user(TEXT)],
        [question, {"role": "assistant", "content": ""}, user(TEXT)],
        [question, assistant({"type": "thinking", "thinking": "", "signature": ""}, TEXT), user(TEXT)],
        [question, assistant({"type": "thinking", "thinking": "a", "signature": "of-another-server"}, CALL), user(RESULT)],
        [question, assistant(CALL), user({**RESULT, "content": [TEXT, TEXT]}, TEXT)],
        [question, assistant(CALL), user({"type": "tool_result", "tool_use_id": "toolu_1"})],
        [question, assistant(TEXT, CALL, TEXT), user({**RESULT, "is_error": True}), {"role": "system", "content": "Now."}],
        [{"role": "system", "content": "First."}, question],
        [question, question],
    ):
        assert post(server, {"messages": messages, "max_tokens": 1})[0] == 200, messages
        assert n_tokens(client, messages) > 50
    foreign = [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
               {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
               {"type": "redacted_thinking", "data": "AAAA"}]
    status, fields, _ = post(server, {"messages": [question, assistant(*foreign, TEXT), user(TEXT)], "max_tokens": 1})
    assert status == 200
    for name in ("server_tool_use", "web_search_tool_result", "redacted_thinking"):
        assert f"messages.{name}" in fields["x-osprey-warning"]


REFUSED = [
    ({"messages": None}, "messages: is missing"),
    ({"messages": "Hi"}, "messages: must be a list"),
    ({"messages": []}, "messages: must have at least one"),
    ({"messages": [5]}, "messages[0]: must be an object"),
    ({"messages": [{"content": "Hi"}]}, "messages[0].role: must be"),
    ({"messages": [{"role": "tool", "content": "Hi"}]}, "messages[0].role: must be"),
    ({"messages": [{"role": "user"}]}, "messages[0].content: must be a string or a list"),
    ({"messages": [user(5)]}, "messages[0].content[0].type: must be the type of a block"),
    ({"messages": [user({"type": "text"})]}, "messages[0].content[0].text: must be a string"),
    ({"messages": [user(TEXT, IMAGE)]}, 'messages[0].content[1].type: "image" is not supported: the model reads text'),
    ({"messages": [user({"type": "document", "source": {}})]}, 'messages[0].content[0].type: "document" is not supported'),
    ({"messages": [user({"type": "frob"})]}, 'messages[0].content[0].type: "frob"'),
    ({"messages": [user(RESULT)]}, "messages[0].content[0].tool_use_id: no tool call before this has the id"),
    ({"messages": [QUESTION[0], assistant(CALL), user({**RESULT, "content": [TEXT, IMAGE]})]},
     'messages[2].content[0].content[1].type: "image" is not supported'),
    ({"messages": [QUESTION[0], assistant(CALL), user({**RESULT, "content": 5})]}, "messages[2].content[0].content: must be"),
    ({"messages": [QUESTION[0], assistant(CALL), user({**RESULT, "is_error": 1})]}, "messages[2].content[0].is_error: must"),
    ({"messages": [QUESTION[0], assistant({**CALL, "input": "x"}), user(TEXT)]}, "messages[1].content[0].input: must be an"),
    ({"messages": [QUESTION[0], assistant({**CALL, "name": "a b"}), user(TEXT)]}, "messages[1].content[0].name: "),
    ({"messages": [QUESTION[0], assistant(TEXT, {**CALL, "id": ""}), user(TEXT)]}, "messages[1].content[1]: a call's id"),
    ({"messages": [QUESTION[0], assistant({"type": "thinking"}), user(TEXT)]}, "messages[1].content[0].thinking: must"),
    ({"messages": [QUESTION[0], assistant({"type": "thinking", "thinking": "", "signature": "osprey1.!"}), user(TEXT)]},
     "messages[1].content[0].signature: was not created by this server"),
    ({"messages": [QUESTION[0], assistant(RESULT), user(TEXT)]}, 'messages[1].content[0].type: "tool_result"'),
    ({"messages": [QUESTION[0], assistant(TEXT)]}, "messages[1].role: this model does not support assistant message prefill"),
    ({"messages": [QUESTION[0], {"role": "system", "content": [IMAGE]}]}, 'messages[1].content[0].type: must be "text"'),
    ({"messages": [QUESTION[0], {"role": "system", "content": 5}]}, "messages[1].content: must be a string or a list"),
    ({"messages": [QUESTION[0], {"role": "system", "content": "x", "clear_at": "soon"}]}, "messages[1].clear_at: must be"),
    ({"messages": [QUESTION[0], {"role": "system", "content": "x", "output_config": {"effort": "much"}}]},
     "messages[1].output_config.effort: must be"),
    ({"messages": [QUESTION[0], {"role": "system", "content": [{"type": "tool_addition", "tool": "f"}]}]},
     "messages[1].content[0].tool: must be"),
    ({"system": 5}, "system: must be"),
    ({"system": [IMAGE]}, 'system[0].type: must be "text"'),
    ({"system": [TEXT, {"type": "text", "text": 5}]}, "system[1].text: must be a string"),
    ({"max_tokens": None}, "max_tokens: is missing"),
    ({"max_tokens": 0}, "max_tokens: must be"),
    ({"max_tokens": "5"}, "max_tokens: must be"),
    ({"temperature": 3}, "temperature: must be"),
    ({"stop_sequences": "x"}, "stop_sequences: must be a list"),
    ({"stop_sequences": [""]}, "stop_sequences: each stop string"),
    ({"thinking": {"type": "on"}}, "thinking.type: must be"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens: must be"),
    ({"thinking": {"type": "enabled", "budget_tokens": 0}}, "thinking.budget_tokens: must be"),
    ({"thinking": {"type": "adaptive", "display": "all"}}, "thinking.display: must be"),
    ({"output_config": {"effort": "huge"}}, "output_config.effort: must be"),
    ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type: must be"),
    ({"output_config": {"format": {"type": "json_schema", "schema": 5}}}, "output_config.format.schema: must be"),
    ({"tool_choice": {"type": "required"}}, "tool_choice.type: must be"),
    ({"tool_choice": {"type": "tool"}}, "tool_choice.name: must be"),
    ({"tool_choice": {"type": "any"}}, "tool_choice: "),
    ({"tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}}, "tool_choice.disable_parallel_tool_use: must"),
    ({"tools": [5]}, "tools[0]: must be an object"),
    ({"tools": [{"name": "f"}]}, "tools[0].input_schema: must be an object"),
    ({"tools": [{"name": 5, "input_schema": {}}]}, "tools[0].name: must be a string"),
    ({"tools": [{"name": "f", "input_schema": {}, "strict": "yes"}]}, "tools[0].strict: must be"),
    ({"tools": [WEATHER, WEATHER]}, "tools[1]: the function"),
    ({"tools": [{"type": "bash_20250124"}]}, "tools[0].name: must be a string"),
    ({"metadata": {"user_id": 5}}, "metadata.user_id: must be a string"),
    ({"container": "c"}, "container: not supported"),
    ({"mcp_servers": [{"type": "url"}]}, "mcp_servers: not supported"),
]


@pytest.mark.parametrize("more, wanted", REFUSED, ids=range(len(REFUSED)))
def test_refusals_name_the_place(server, more, wanted):
    message = refusal(server, {"messages": QUESTION, "max_tokens": 1, **more})
    assert message.startswith(wanted), message
    if next(iter(more)) in ("messages", "system", "tools", "thinking", "output_config"):
        message = refusal(server, {"messages": QUESTION, **more}, "/v1/messages/count_tokens")
        assert message.startswith(wanted), message


def test_a_prompt_that_is_too_long(server, client):
    """Claude Code compacts a conversation when it reads these words."""
    messages = [{"role": "user", "content": "word " * 5000}]
    n = n_tokens(client, messages)
    message = refusal(server, {"messages": messages, "max_tokens": 10})
    assert message.startswith(f"prompt is too long: {n} tokens > 4095 maximum")


# ---- errors ----


def test_errors_of_the_client_library(client):
    for body, kind in (({"max_tokens": 0}, anthropic.BadRequestError), ({"model": "gpt-9"}, anthropic.NotFoundError)):
        with pytest.raises(kind) as caught:
            ask(client, **body)
        assert caught.value.request_id and caught.value.body["type"] == "error"


def test_errors_before_the_handler(start_server):
    server = start_server("--api-key", "secret", "--max-body", "2K")
    key = "x-api-key: secret\r\n"
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        assert "API key" in refusal(server, {}, path, 401, "authentication_error")
        refusal(server, b"", path, 405, headers=key, method="GET")
        refusal(server, b"{", path, 400, headers=key)
        large = {"messages": [{"role": "user", "content": "x" * 3000}], "max_tokens": 1}
        assert "--max-body" in refusal(server, large, path, 413, "request_too_large", headers=key)
        refusal(server, {}, path, 403, "permission_error", headers=key + "Origin: https://a.example\r\n")
    refusal(server, {}, "/v1/messages/batches", 404, "not_found_error", headers=key)
    assert post(server, {"messages": QUESTION, "max_tokens": 1}, headers=key)[0] == 200

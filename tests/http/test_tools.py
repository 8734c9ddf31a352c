"""Calls of functions, from the real server: which may be called and whether one must, strict arguments, beside forms, whole
and streamed, and through the worker's process.

STRUCTURED sets how many tool requests are made (24; `make structured` takes 1,000): conversations of the program that the
bundled model was trained on, so that it knows what to call."""

import json
import os
import pathlib
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import openai
import pydantic
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "text"))
sys.path.insert(0, str(ROOT / "tools" / "nano"))
import conversations  # noqa: E402  (what the bundled model was trained on)
from test_schema import valid  # noqa: E402

N_REQUESTS = int(os.environ.get("STRUCTURED", 24))
MODEL = "osprey-nano"
WEATHER_QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
CAPITAL_QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
NO_ARGUMENTS = {"type": "object", "properties": {}}


def function(name, properties, strict=None, description=None):
    made = {"name": name, "parameters": {"type": "object", "properties": properties, "required": list(properties)}}
    if strict is not None:
        made["strict"] = strict
    if description:
        made["description"] = description
    return {"type": "function", "function": made}


CITY = {"city": {"type": "string", "maxLength": 20}}
WEATHER = function("get_weather", CITY, True, "Gets the weather of a city.")
LOOSE = function("get_weather", CITY, None, "Gets the weather of a city.")
TIME = function("get_time", CITY, True, "Get the current time in a city.")
NUMBER = {"type": "json_schema", "json_schema": {"name": "number", "strict": True,
                                                 "schema": {"type": "integer", "minimum": 1, "maximum": 9}}}


def named(name):
    return {"type": "function", "function": {"name": name}}


def ask(client, messages=WEATHER_QUESTION, **options):
    options = {"max_completion_tokens": 1500, "temperature": 1, **options}
    return client.chat.completions.create(model=MODEL, messages=messages, **options)


def ask_until_ended(client, messages, seed, **options):
    """The first choice of an answer that ends by itself: a small model at temperature 1 now and then writes on until
    max_tokens, and with which seed depends on the CPU's kernels."""
    for attempt in range(10):
        choice = ask(client, messages, seed=seed + 1000 * attempt, **options).choices[0]
        if choice.finish_reason != "length":
            return choice
    raise AssertionError(f"10 of 10 answers reached max_completion_tokens; the last: {choice}")


def closed(tool):
    return {**tool["function"].get("parameters", NO_ARGUMENTS), "additionalProperties": False}


def check(choice, tools, options):
    """What must hold of an answer that has ended."""
    by_name = {tool["function"]["name"]: tool for tool in tools}
    calls = choice.message.tool_calls or []
    wanted = options.get("tool_choice", "auto")
    assert (choice.finish_reason == "tool_calls") == bool(calls)
    for call in calls:
        tool, arguments = by_name[call.function.name], json.loads(call.function.arguments)
        assert isinstance(arguments, dict)
        if tool["function"].get("strict"):
            assert valid(arguments, closed(tool), closed(tool)), (tool, arguments)
    if wanted != "auto":
        assert bool(calls) == (wanted != "none"), choice
    if isinstance(wanted, dict):
        assert {call.function.name for call in calls} == {wanted["function"]["name"]}
    if options.get("parallel_tool_calls") is False:
        assert len(calls) <= 1


def tool_requests(n):
    """Messages and options of requests with functions, of each way to ask for calls; and the function that fits."""
    for i in range(n):
        maker = conversations.Maker(random.Random(7_000 + i), ["train", "test"][i % 2])
        task = maker.tool_call()
        strict = [{**tool, "function": {**tool["function"], "strict": True}} for tool in task.tools]
        ways = [{"tools": strict}, {"tools": strict, "parallel_tool_calls": False},
                {"tools": strict, "tool_choice": "required"}, {"tools": task.tools, "tool_choice": "required"},
                {"tools": strict, "tool_choice": named(task.call[0])}, {"tools": strict, "response_format": NUMBER}]
        options = {**ways[i // 2 % len(ways)], "reasoning_effort": conversations.EFFORTS[i % 3]}
        yield i, [{"role": "user", "content": task.user}], options, task.call[0]


def test_requests(client):
    """Every answer that ends by itself keeps to what was asked, and nearly all end so."""
    patient = client.with_options(timeout=1800)
    n_ended = n_called = n_fitting = 0

    def one(request):
        seed, messages, options, fitting = request
        return options, fitting, ask(patient, messages, seed=seed, **options).choices[0]

    with ThreadPoolExecutor(4) as pool:
        for options, fitting, choice in pool.map(one, tool_requests(N_REQUESTS)):
            assert choice.finish_reason in ("stop", "tool_calls", "length")
            if choice.finish_reason == "length":
                continue
            check(choice, options["tools"], options)
            n_ended += 1
            n_called += choice.finish_reason == "tool_calls"
            n_fitting += any(call.function.name == fitting for call in choice.message.tool_calls or [])
            if choice.finish_reason == "stop" and "response_format" in options:
                assert choice.message.content in "123456789"
    print(f"{n_ended} of {N_REQUESTS} ended, {n_called} with calls, {n_fitting} of the function that fits")
    assert n_ended >= 0.99 * N_REQUESTS - 1
    assert n_fitting > 0.8 * N_REQUESTS


@pytest.mark.parametrize("seed", range(3))
def test_choices(client, seed):
    """none, required, one function, some of them."""
    tools = [LOOSE, TIME]
    for options in ({"tool_choice": "none"}, {"tool_choice": "required"}, {"tool_choice": named("get_time")},
                    {"tool_choice": "required", "parallel_tool_calls": False}):
        for messages in (WEATHER_QUESTION, CAPITAL_QUESTION):
            check(ask_until_ended(client, messages, seed, tools=tools, **options), tools, options)
    some = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named("get_time")]}}
    call = ask_until_ended(client, WEATHER_QUESTION, seed, tools=tools, tool_choice=some).message.tool_calls[0]
    assert call.function.name == "get_time" and json.loads(call.function.arguments).keys() == {"city"}


def test_none_keeps_the_prompt(client):
    """The tools stay in the prompt, so that requests with and without calls share its prefix."""
    called = ask(client, tools=[WEATHER])
    quiet = ask(client, tools=[WEATHER], tool_choice="none")
    assert called.choices[0].finish_reason == "tool_calls" and quiet.choices[0].finish_reason == "stop"
    assert quiet.choices[0].message.content and not quiet.choices[0].message.tool_calls
    assert quiet.usage.prompt_tokens == called.usage.prompt_tokens


def test_form_or_call(client):
    """With a form and tools the model may call, and what it says otherwise has the form."""
    options = {"tools": [WEATHER], "response_format": NUMBER}
    call = ask(client, **options).choices[0]
    assert call.finish_reason == "tool_calls" and not call.message.content
    said = ask(client, CAPITAL_QUESTION, **options).choices[0]
    assert said.finish_reason == "stop" and said.message.content in "123456789"
    held = ask(client, tool_choice="none", **options).choices[0]
    assert held.finish_reason == "stop" and held.message.content in "123456789"


def test_the_model_is_told_the_schema(client):
    plain = ask(client, CAPITAL_QUESTION).usage.prompt_tokens
    described = {"type": "json_schema", "json_schema": {**NUMBER["json_schema"], "description": "One digit.\nJust one."}}
    told = [ask(client, CAPITAL_QUESTION, response_format=form).usage.prompt_tokens for form in (NUMBER, described)]
    assert plain < told[0] < told[1]
    held = ask(client, CAPITAL_QUESTION, response_format={"type": "json_object"}, max_completion_tokens=5)
    assert held.usage.prompt_tokens == plain


@pytest.mark.parametrize("tools", [[WEATHER, TIME], [LOOSE]])
def test_streams_alike(client, tools):
    """The name and an empty text first, then pieces of the arguments, each of which adds to a beginning of a value."""
    options = {"tools": tools, "seed": 3, "temperature": 0}
    whole = ask(client, **options).choices[0].message.tool_calls[0]
    seen, text, finish = [], "", None
    for chunk in ask(client, stream=True, **options):
        finish = chunk.choices[0].finish_reason or finish
        for piece in chunk.choices[0].delta.tool_calls or []:
            assert piece.index == 0 and chunk.choices[0].finish_reason is None
            if not seen:
                assert piece.id and piece.type == "function" and piece.function.arguments == ""
                assert piece.function.name == whole.function.name
            else:
                assert piece.id is None and piece.function.name is None and piece.function.arguments
            seen.append(piece)
            text += piece.function.arguments
    assert finish == "tool_calls" and len(seen) > 3
    assert text == whole.function.arguments and isinstance(json.loads(text), dict)


class GetWeather(pydantic.BaseModel):
    """Gets the weather of a city."""
    city: str


def test_helpers_of_the_client(client):
    """pydantic's functions, parsed by the client library, whole and streamed."""
    tool = openai.pydantic_function_tool(GetWeather, name="get_weather")
    assert tool["function"]["strict"] is True
    options = {"model": MODEL, "messages": WEATHER_QUESTION, "tools": [tool], "temperature": 0, "max_tokens": 300}
    parsed = client.chat.completions.parse(**options).choices[0].message.tool_calls[0].function.parsed_arguments
    assert isinstance(parsed, GetWeather)
    with client.chat.completions.stream(**options) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds
    assert final.function.parsed_arguments == parsed


BAD = {"x": {"type": "string", "not": {}}}


@pytest.mark.parametrize("options, names", [
    ({"tools": [LOOSE, function("f", BAD, True)]}, ["tools", "f", "/properties/x/not"]),
    ({"tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "array"}}}]},
     ["tools", "f", "object"]),
    ({"tools": [{"type": "function", "function": {"name": "f", "strict": 1}}]}, ["tools[0].function.strict"]),
    ({"tools": [LOOSE], "tool_choice": named("f")}, ["tool_choice", '"f"']),
    ({"tools": [LOOSE], "tool_choice": "any"}, ["tool_choice", "required"]),
    ({"tools": [LOOSE], "tool_choice": {"type": "mcp"}}, ["tool_choice", "type"]),
    ({"tools": [LOOSE], "tool_choice": {"type": "custom"}}, ["tool_choice", "name"]),
    ({"tools": [{"type": "custom"}]}, ["tools[0].custom", "object"]),
    ({"tools": [{"type": "custom", "custom": {"name": "a b"}}]}, ["tools[0].custom.name"]),
    ({"tools": [{"type": "custom", "custom": {"name": "a", "format": {"type": "x"}}}]}, ["tools[0].custom.format.type", "grammar"]),
    ({"tools": [{"type": "custom", "custom": {"name": "a", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}}}]}, ["tools[0].custom.format.grammar.syntax", "regex"]),
    ({"tool_choice": "required"}, ["tool_choice", "no tools"]),
    ({"tools": [LOOSE], "parallel_tool_calls": 3}, ["parallel_tool_calls"]),
    ({"tools": [WEATHER], "extra_body": {"ignore_eos": True}}, ["tools", "ignore_eos"]),
])
def test_refused(client, options, names):
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, **options)
    assert all(name in error.value.message for name in names), error.value.message
    assert error.value.param == names[0]


FORCED = function("book", {
    "city": {"type": "string", "maxLength": 12},
    "class": {"enum": ["first", "second"]},
    "guest": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer",
              "minimum": 0, "maximum": 99}}, "required": ["name"]}}, None, "Books a journey.")


@pytest.mark.parametrize("streamed", [False, True])
def test_forced_calls_keep_to_schemas_that_are_not_strict(client, streamed):
    """As vLLM: 20 seeds at temperature 1; calls that are cut by max_tokens say so and are the beginning of a value."""
    def one(seed):
        options = {"tools": [FORCED], "tool_choice": ["required", named("book")][seed % 2], "seed": seed,
                   "max_completion_tokens": 400, "reasoning_effort": "low"}
        if not streamed:
            choice = ask(client, **options).choices[0]
            calls = [call.function.arguments for call in choice.message.tool_calls or []]
            return choice.finish_reason, calls
        texts, finish = {}, None
        for chunk in ask(client, stream=True, **options):
            finish = chunk.choices[0].finish_reason or finish
            for piece in chunk.choices[0].delta.tool_calls or []:
                texts[piece.index] = texts.get(piece.index, "") + piece.function.arguments
        return finish, list(texts.values())

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(one, range(20)))
    schema = FORCED["function"]["parameters"]
    for finish, calls in answers:
        assert finish in ("tool_calls", "length")
        if finish == "tool_calls":
            assert calls and all(valid(json.loads(text), schema, schema) for text in calls), calls
    assert any(finish == "tool_calls" for finish, _ in answers)


def test_forced_calls_that_are_cut_say_length(client):
    """The pattern needs more tokens than there are."""
    tool = function("f", {"x": {"type": "string", "pattern": "^[a-z]{400}$"}})
    for options in ({}, {"stream": True}):
        answer = ask(client, tools=[tool], tool_choice=named("f"), max_completion_tokens=60, **options)
        choices = [chunk.choices[0] for chunk in answer] if options else answer.choices
        assert [c.finish_reason for c in choices if c.finish_reason] == ["length"]


def test_forced_calls_by_responses(client):
    """The same for /v1/responses, whose functions are strict unless they say otherwise."""
    tool = {"type": "function", **FORCED["function"], "strict": False}
    schema = tool["parameters"]
    for choice in ("required", {"type": "function", "name": "book"}):
        for seed in range(4):
            answer = client.responses.create(model=MODEL, input="Book a journey.", tools=[tool], tool_choice=choice,
                                             temperature=1, max_output_tokens=400, extra_body={"seed": seed})
            for call in (item for item in answer.output if item.type == "function_call"):
                assert call.status == "incomplete" or valid(json.loads(call.arguments), schema, schema)
            assert answer.status == "incomplete" or any(item.type == "function_call" for item in answer.output)


@pytest.mark.parametrize("schema, ignored", [
    ({"properties": {"x": {"type": "string", "not": {}}}, "required": ["x"]}, ["/properties/x/not"]),
    ({"properties": {"x": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2, "uniqueItems": True}, "y/z": {"format": "int32", "type": "integer", "maximum": 9}},
      "required": ["x", "y/z"]}, ["/properties/x/uniqueItems"]),
    ({"type": "dict", "properties": {"x": {"type": "float"}}, "required": ["x"]}, ["/type", "/properties/x/type"]),
    ({"type": "object", "properties": {"x": {"oneOf": [{"type": "integer", "maximum": 9}, {"type": "number", "maximum": 9}]}},
      "required": ["x"]}, ["/properties/x/oneOf/1"]),
    ({"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["x"],
      "$defs": {"a": {"type": "string", "maxLength": 5, "pattern": "(?=a)"}}}, ["/$defs/a/pattern"]),
    ({"type": "object", "properties": {"x": {"$ref": "other.json"}}, "required": ["x"]}, ["/properties/x/$ref"]),
    ({"type": "object", "properties": {"x": {"type": "integer", "minimum": 5, "maximum": 4}}, "required": ["x"]}, ["/properties/x"]),
    ({"type": "object", "properties": {"x": False}, "required": ["x"]}, [""]),
    ({"type": "object", "properties": {"x": {"type": "string", "maxLength": 5, "\u00e9\n": 1}}, "required": ["x"]}, ["/properties/x/??"]),
    ({"type": "array"}, ["/type"]),
    ({"type": "object", "properties": {f"x{i}": {"nope": 1} for i in range(100)}}, ["f: the schema"]),
])
def test_forced_calls_ignore_what_is_not_supported(client, schema, ignored):
    """A schema that is not strict is never refused; the header says what was left out of it."""
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=WEATHER_QUESTION, tools=[tool], tool_choice="required", temperature=1, seed=1,
        max_completion_tokens=300, reasoning_effort="low")
    assert raw.headers["x-osprey-warning"].startswith("schema keywords that are not supported are ignored: f: ")
    for location in ignored:
        assert location in raw.headers["x-osprey-warning"], raw.headers["x-osprey-warning"]
    choice = raw.parse().choices[0]
    if choice.finish_reason == "tool_calls":
        arguments = json.loads(choice.message.tool_calls[0].function.arguments)
        assert set(schema.get("required", [])) <= set(arguments) or "x" in schema.get("properties", {}) and \
            schema["properties"]["x"] is False


def test_loose_functions_take_any_schema(client):
    """What a strict function may not have does not matter to others."""
    loose = function("get_weather", {**CITY, **BAD}, False, "Gets the weather of a city.")
    answer = ask(client, tools=[loose], tool_choice="required")
    check(answer.choices[0], [loose], {"tool_choice": "required"})
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=WEATHER_QUESTION, tools=[loose])
    assert raw.parse().choices[0].finish_reason in ("stop", "tool_calls") and "x-osprey-warning" not in raw.headers


def test_through_the_worker(start_server, client):
    """The rules cross to the worker's process: the same answers."""
    server = start_server("--worker", "on")
    other = server.client()
    for options in ({"tools": [WEATHER, TIME]}, {"tools": [LOOSE, TIME], "tool_choice": named("get_time")},
                    {"tools": [LOOSE], "tool_choice": "none"}, {"tools": [WEATHER], "response_format": NUMBER}):
        here, there = (ask(one, seed=4, **options).choices[0] for one in (client, other))
        check(there, options["tools"], options)
        assert here.message.content == there.message.content
        assert [call.function for call in here.message.tool_calls or []] == \
            [call.function for call in there.message.tool_calls or []]
    told = other.chat.completions.with_raw_response.create(
        model=MODEL, messages=WEATHER_QUESTION, tools=[function("f", BAD)], tool_choice="required", max_tokens=300)
    assert told.headers["x-osprey-warning"].endswith("f: /properties/x/not")
    with pytest.raises(openai.BadRequestError, match="/properties/x/not"):
        ask(other, tools=[function("f", BAD, True)])
    assert server.stop() == 0

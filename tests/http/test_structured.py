"""Constrained decoding with the real server: schemas, strict or not, objects, expressions and choices; with reasoning
left free, beside requests without a form, and through the worker's process.

STRUCTURED sets how many random schemas are asked for (30; `make structured` takes 1,000)."""

import json
import os
import pathlib
import re
import sys
import typing
from concurrent.futures import ThreadPoolExecutor

import openai
import pydantic
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "text"))
from test_schema import Maker, valid  # noqa: E402  (the validator and the maker of schemas)

N_SCHEMAS = int(os.environ.get("STRUCTURED", 30))
MODEL = "osprey-nano"
ASK = [{"role": "user", "content": "Give me an example."}]
TASK = [{"role": "user", "content": "Copy this exactly: one two three four five six seven eight nine ten"}]


def bounded(schema):
    """The same with short strings and lists and no properties but those that are listed, so that an answer of 1,500
    tokens has room for it."""
    if isinstance(schema, list):
        return [bounded(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema == {} or schema.get("type") == ["string", "null"]:
        return {"type": "boolean"}
    small = {}
    for name, one in schema.items():
        if name in ("properties", "$defs"):
            small[name] = {key: bounded(value) for key, value in one.items()}
        elif name in ("enum", "const", "required"):
            small[name] = one
        elif name != "additionalProperties" or one is False:
            small[name] = bounded(one)
    if small.get("type") == "array":
        small["maxItems"] = min(small.get("maxItems", 3), 3 + small.get("minItems", 0))
    if small.get("type") == "string":
        small["maxLength"] = min(small.get("maxLength", 12), 12)
    return small


def strict(schema, name="answer"):
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


def ask(client, **options):
    return client.chat.completions.create(model=MODEL, messages=ASK, max_completion_tokens=1500, **options)


def usable_schemas(n):
    """Random schemas that something fits, by a document that the validator accepts."""
    seed = 0
    while n > 0:
        maker = Maker(20_000 + seed)
        seed += 1
        maker.root = bounded(maker.whole())
        schema = maker.root
        if any(valid(maker.document(schema), schema, schema) for _ in range(20)):
            n -= 1
            yield seed, schema


def test_random_schemas(client):
    """Every answer that ends by itself fits its schema, and nearly all do."""
    n_ended = 0
    patient = client.with_options(timeout=1800)

    def one(case):
        seed, schema = case
        return schema, ask(patient, response_format=strict(schema), seed=seed, temperature=1).choices[0]

    with ThreadPoolExecutor(4) as pool:
        for schema, choice in pool.map(one, usable_schemas(N_SCHEMAS)):
            assert choice.finish_reason in ("stop", "length")
            if choice.finish_reason == "stop":
                n_ended += 1
                assert valid(json.loads(choice.message.content), schema, schema), (schema, choice.message.content)
    print(f"{n_ended} of {N_SCHEMAS} ended")
    assert n_ended >= 0.99 * N_SCHEMAS - 1


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(max_length=10)
    age: int = pydantic.Field(ge=0, le=130)


def test_parse_helper(client):
    """What the client library makes of a pydantic model."""
    answer = client.chat.completions.parse(model=MODEL, messages=ASK, response_format=Person, seed=2, max_tokens=800)
    assert isinstance(answer.choices[0].message.parsed, Person)


def test_reasoning_is_free_and_streams_alike(client):
    options = {"response_format": strict({"enum": ["red", "green"]}), "seed": 5}
    whole = ask(client, **options).choices[0].message
    assert whole.content in ('"red"', '"green"') and whole.reasoning_content
    pieces = [chunk.choices[0].delta for chunk in ask(client, stream=True, **options) if chunk.choices]
    assert "".join(piece.content or "" for piece in pieces) == whole.content
    assert "".join(getattr(piece, "reasoning_content", None) or "" for piece in pieces) == whole.reasoning_content


def test_a_form_goes_before_min_tokens(client):
    """Where a form can only end it ends, with fewer tokens than min_tokens; before that min_tokens holds."""
    most = {"min_tokens": 600}
    free = ask(client, seed=5, extra_body=most)
    assert free.usage.completion_tokens >= 600
    for form in ({"choice": ["yes", "no"]}, {"response_format": strict({"enum": ["red", "green"]})}):
        choice = ask(client, seed=5, extra_body={**form, **most}).choices[0]
        assert choice.finish_reason == "stop" and choice.message.content in ("yes", "no", '"red"', '"green"')
    parameters = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": parameters}}
    choice = ask(
        client, seed=5, tools=[tool], tool_choice="required", parallel_tool_calls=False, extra_body=most
    ).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert [json.loads(c.function.arguments)["n"] in (1, 2) for c in choice.message.tool_calls] == [True]


@pytest.mark.parametrize("seed", range(4))
def test_other_forms(client, seed):
    choice = ask(client, extra_body={"choice": ["yes", "no", "perhaps"]}, seed=seed)
    assert choice.choices[0].message.content in ("yes", "no", "perhaps")
    regex = ask(client, extra_body={"regex": r"[A-Z]{3}-\d{2,4}"}, seed=seed)
    assert re.fullmatch(r"[A-Z]{3}-\d{2,4}", regex.choices[0].message.content)
    vllm = ask(client, extra_body={"structured_outputs": {"json": {"type": "integer", "minimum": 3, "maximum": 5}}})
    assert vllm.choices[0].message.content in ("3", "4", "5")
    whole = ask(client, response_format={"type": "json_object"}, seed=seed).choices[0]
    assert whole.finish_reason == "length" or isinstance(json.loads(whole.message.content), dict)


@pytest.mark.parametrize("more, matches", [
    ({"guided_choice": ["Rome", "Berlin"]}, "Rome|Berlin"),
    ({"guided_regex": r"[A-Z]{3}-\d{2,4}"}, r"[A-Z]{3}-\d{2,4}"),
    ({"guided_json": {"type": "integer", "minimum": 3, "maximum": 5}}, "[345]"),
    ({"guided_json": '{"enum": ["a", "b"]}'}, '"[ab]"'),
    ({"json_schema": {"type": "integer", "minimum": 3, "maximum": 5}}, "[345]"),
])
def test_other_names(server, client, more, matches):
    """The names of vLLM's older releases and of llama-server, in every endpoint."""
    assert re.fullmatch(matches, ask(client, extra_body=more).choices[0].message.content)
    text = client.completions.create(model=MODEL, prompt="Hello", max_tokens=20, extra_body=more)
    assert re.fullmatch(matches, text.choices[0].text)
    assert re.fullmatch(matches, client.responses.create(model=MODEL, input="Hello", extra_body=more).output_text)


def test_an_enum_of_a_thousand_values(client):
    """As many as OpenAI allows, alone and in all properties together; more than 1,024 in one place are refused."""
    values = [f"value {i}" for i in range(1025)]

    def said(schema, **options):  # without the schema in the prompt, which would be too long for this server
        answer = ask(client, extra_body={"structured_outputs": {"json": schema}}, **options).choices[0]
        assert answer.finish_reason == "stop"
        return json.loads(answer.message.content)

    for n in (1000, 1001, 1024):
        assert said({"enum": values[:n]}) in values[:n]
    schema = {"type": "object", "properties": {"a": {"enum": [*values[:999], None]}, "b": {"enum": values[:1000]}},
              "required": ["a", "b"], "additionalProperties": False}
    for form in (schema, {"type": "array", "items": {"enum": values[:1000]}, "minItems": 1, "maxItems": 2}):
        assert valid(said(form), form, form)
    with pytest.raises(openai.BadRequestError, match="limit of 1024 alternatives"):
        said({"enum": values})
    assert ask(client, extra_body={"choice": values[:1024]}).choices[0].message.content in values


class Box(pydantic.BaseModel):
    """Fields whose schemas have uniqueItems and multipleOf."""
    model_config = pydantic.ConfigDict(extra="forbid")
    sides: set[bool] = pydantic.Field(min_length=2)
    tags: set[typing.Annotated[str, pydantic.Field(max_length=4)]] = pydantic.Field(max_length=2)
    width_mm: int = pydantic.Field(multiple_of=25, ge=100, le=900)


def test_sets_and_multiples(client):
    """Enumerated items are all different; other arrays may repeat, and a header says so."""
    for seed in range(3):
        raw = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=ASK, max_completion_tokens=1500, reasoning_effort="low", temperature=1, seed=seed,
            response_format=strict(Box.model_json_schema(), "box"))
        assert raw.headers["x-osprey-warning"] == (
            "schema keywords that are not supported are ignored: response_format: /properties/tags/uniqueItems")
        choice = raw.parse().choices[0]
        if choice.finish_reason == "stop":
            box = json.loads(choice.message.content)
            Box.model_validate(box)
            assert sorted(box["sides"]) == [False, True] and box["width_mm"] % 25 == 0


def test_others_are_not_touched(client):
    """A request without a form says the same beside requests with one."""
    plain = {"model": MODEL, "messages": TASK, "seed": 1, "max_completion_tokens": 60}
    alone = client.chat.completions.create(**plain).choices[0].message
    with ThreadPoolExecutor(4) as pool:
        held = [pool.submit(ask, client, response_format=strict({"type": "integer", "minimum": 10 ** i}), seed=i)
                for i in range(6)]
        beside = client.chat.completions.create(**plain).choices[0].message
        assert all(one.result().choices[0].message.content.isdigit() for one in held)
    assert (beside.content, beside.reasoning_content) == (alone.content, alone.reasoning_content)


@pytest.mark.parametrize("more, names", [
    ({"response_format": strict({"properties": {"a": {"not": {}}}})}, ["response_format", "/properties/a/not"]),
    ({"response_format": strict({"type": "string", "pattern": "(?=a)"})}, ["response_format", "/pattern"]),
    ({"response_format": strict({"type": "array", "minItems": 10 ** 8})}, ["response_format", "65536"]),
    ({"response_format": {"type": "json_schema"}}, ["response_format.json_schema.schema"]),
    ({"response_format": {"type": "yaml"}}, ["response_format", "yaml"]),
    ({"extra_body": {"regex": "("}}, ["regex"]),
    ({"extra_body": {"regex": 5}}, ["regex"]),
    ({"extra_body": {"choice": []}}, ["choice"]),
    ({"extra_body": {"choice": [1]}}, ["choice"]),
    ({"extra_body": {"structured_outputs": {"grammar": "x"}}}, ["structured_outputs.grammar"]),
    ({"extra_body": {"regex": "a", "choice": ["b"]}}, ["choice", "another field"]),
    ({"extra_body": {"regex": "a", "ignore_eos": True}}, ["regex", "ignore_eos"]),
    ({"extra_body": {"guided_grammar": "root ::= 'a'"}}, ["guided_grammar", "response_format"]),
    ({"extra_body": {"grammar": "root ::= \"a\""}}, ["grammar", "response_format"]),
    ({"extra_body": {"guided_json": {"not": {}}}}, ["guided_json: /not"]),
    ({"extra_body": {"guided_json": "{"}}, ["guided_json: ", "JSON"]),
    ({"extra_body": {"guided_json": 5}}, ["guided_json", "is 5"]),
    ({"extra_body": {"json_schema": {"type": "string", "pattern": "(?=a)"}}}, ["json_schema: /pattern"]),
    ({"extra_body": {"guided_regex": "("}}, ["guided_regex: "]),
    ({"extra_body": {"guided_choice": []}}, ["guided_choice: "]),
    ({"extra_body": {"guided_choice": ["a"], "regex": "b"}}, ["another field"]),
    ({"extra_body": {"guided_json": {}, "json_schema": {}}}, ["json_schema", "another field"]),
    ({"response_format": {"type": "json_object"}, "extra_body": {"guided_regex": "b"}}, ["another field"]),
])
def test_refused(client, more, names):
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, **more)
    assert all(name in error.value.message for name in names), error.value.message


def test_through_the_worker(start_server, client):
    """The worker's process makes the masks with a tokenizer of its own: the same answers."""
    server = start_server("--worker", "on")
    other = server.client()
    for options in ({"response_format": strict({"type": "array", "items": {"type": "boolean"}, "maxItems": 4})},
                    {"extra_body": {"regex": "[a-z]{3}[0-9]"}}):
        here, there = (ask(one, seed=9, **options).choices[0].message for one in (client, other))
        assert (here.content, here.reasoning_content) == (there.content, there.reasoning_content)
    with pytest.raises(openai.BadRequestError, match="/not"):
        ask(other, response_format=strict({"not": {}}))
    assert server.stop() == 0

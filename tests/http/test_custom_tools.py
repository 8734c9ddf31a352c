"""Custom tools, whose input is free text: in chat completions and in responses, whole and streamed, in the conversation that
follows, and held to a regular expression."""

import json
import re

import openai
import pytest

from scripted import ScriptedServer

MODEL = "osprey-nano"
ASK = [{"role": "user", "content": "Note that the weather in Paris is fine."}]
NOTE = {"type": "custom", "custom": {"name": "note", "description": "Keeps a note."}}
CODE = {"type": "custom", "custom": {"name": "code", "format": {
    "type": "grammar", "grammar": {"syntax": "regex", "definition": "[A-Z]{2}-[0-9]{3}"}}}}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
CALL = '<|channel|>commentary to=functions.note <|constrain|>json<|message|>{}<|call|>'
TEXT = 'a "quoted" line\n\\ é ☃ 🙂'
WRITTEN = r'{"input": "a \"quoted\" line\n\\ \u00e9 ☃ 🙂"}'
assert json.loads(WRITTEN) == {"input": TEXT}


def flat(tool):
    """As responses have it."""
    made = {"type": "custom", **tool["custom"]}
    if "format" in made:
        made["format"] = {"type": "grammar", **made["format"]["grammar"]}
    return made


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    """The model calls the note's tool with TEXT, some of it escaped."""
    server = ScriptedServer(tmp_path_factory.mktemp("custom"))
    ids = server.ids_of(CALL.replace("{}", WRITTEN))

    def client():
        """Whose next answer is the call."""
        server.write(ids)
        return server.client()

    server.calling = client
    yield server
    assert server.stop() == 0


def joined(stream):
    """The calls of a stream of chunks."""
    calls = {}
    for chunk in stream:
        for choice in chunk.choices:
            for call in choice.delta.model_dump().get("tool_calls") or []:
                into = calls.setdefault(call["index"], {"input": ""})
                custom = call.get("custom") or {}
                into["input"] += custom.get("input") or ""
                into.update({k: v for k, v in (("id", call.get("id")), ("type", call.get("type")), ("name", custom.get("name"))) if v})
    return list(calls.values())


def test_a_call(scripted):
    whole = scripted.calling().chat.completions.create(model=MODEL, messages=ASK, tools=[WEATHER, NOTE])
    choice = whole.choices[0]
    assert choice.finish_reason == "tool_calls"
    call = choice.message.tool_calls[0]
    assert call.type == "custom" and call.custom.name == "note" and call.custom.input == TEXT
    assert call.id.startswith("call_") and choice.message.content is None
    client = scripted.calling()
    streamed = joined(client.chat.completions.create(model=MODEL, messages=ASK, tools=[WEATHER, NOTE], stream=True))
    assert len(streamed) == 1 and streamed[0].pop("id").startswith("call_")
    assert streamed[0] == {"type": "custom", "name": "note", "input": TEXT}


def test_a_call_as_an_item(scripted):
    response = scripted.calling().responses.create(model=MODEL, input=ASK, tools=[flat(NOTE)])
    item = response.output[-1]
    assert item.type == "custom_tool_call" and item.name == "note" and item.input == TEXT
    assert item.id.startswith("ctc_") and item.call_id.startswith("call_")
    assert response.tools[0].type == "custom"
    events = list(scripted.calling().responses.create(model=MODEL, input=ASK, tools=[flat(NOTE)], stream=True))
    kinds = [e.type for e in events if "output_item" in e.type or "custom_tool_call" in e.type]
    assert kinds[0] == "response.output_item.added" and kinds[-1] == "response.output_item.done"
    deltas = [e for e in events if e.type == "response.custom_tool_call_input.delta"]
    done = [e for e in events if e.type == "response.custom_tool_call_input.done"]
    assert "".join(e.delta for e in deltas) == TEXT == done[0].input and len(done) == 1 and len(deltas) > 1
    assert {e.item_id for e in deltas + done} == {events[-1].response.output[-1].id}
    assert events[-1].response.output[-1].input == TEXT


def test_what_follows(scripted):
    """A call and its result in the conversation, by all three ways, are one prompt."""
    call = {"id": "call_1", "type": "custom", "custom": {"name": "note", "input": TEXT}}
    history = [*ASK, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_1", "content": "kept"}]
    chat = scripted.post("/tokenize", {"messages": history, "tools": [NOTE]})
    prompt = scripted.post("/detokenize", {"tokens": chat["tokens"]})["prompt"]
    assert "to=functions.note" in prompt and json.dumps({"input": TEXT}, ensure_ascii=False, separators=(",", ":")) in prompt
    assert "type note = (_: {" in prompt and "kept" in prompt
    items = [*ASK, {"type": "custom_tool_call", "call_id": "call_1", "name": "note", "input": TEXT},
             {"type": "custom_tool_call_output", "call_id": "call_1", "output": "kept"}]
    second = scripted.calling().responses.create(model=MODEL, input=items, tools=[flat(NOTE)])
    assert second.usage.input_tokens == chat["count"]
    first = scripted.calling().responses.create(model=MODEL, input=ASK, tools=[flat(NOTE)])
    output = {"type": "custom_tool_call_output", "call_id": first.output[-1].call_id, "output": "kept"}
    client = scripted.calling()
    third = client.responses.create(model=MODEL, input=[output], previous_response_id=first.id, tools=[flat(NOTE)])
    assert third.usage.input_tokens == chat["count"]
    assert [i.type for i in client.responses.input_items.list(third.id).data] == ["custom_tool_call_output"]
    assert client.responses.retrieve(first.id).output[-1].input == TEXT


@pytest.mark.parametrize("seed", range(3))
def test_a_regular_expression(client, seed):
    options = {"model": MODEL, "seed": seed, "temperature": 1}
    chosen = {"type": "custom", "custom": {"name": "code"}}
    choice = client.chat.completions.create(messages=ASK, tools=[NOTE, CODE], tool_choice=chosen, max_completion_tokens=1500,
                                            **options).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert all(c.custom.name == "code" and re.fullmatch("[A-Z]{2}-[0-9]{3}", c.custom.input) for c in choice.message.tool_calls)
    response = client.responses.create(input=ASK, tools=[flat(CODE)], tool_choice={"type": "custom", "name": "code"},
                                       max_output_tokens=1500, model=MODEL, temperature=1)
    calls = [i for i in response.output if i.type == "custom_tool_call"]
    assert calls and all(re.fullmatch("[A-Z]{2}-[0-9]{3}", c.input) for c in calls)


def test_free_text_of_the_model(client):
    """Whatever it writes is its input, the same streamed."""
    options = {"model": MODEL, "messages": ASK, "tools": [NOTE], "tool_choice": "required", "seed": 3, "temperature": 1,
               "max_completion_tokens": 400}
    choice = client.chat.completions.create(**options).choices[0]
    calls = [(c.custom.name, c.custom.input) for c in choice.message.tool_calls or []]
    assert calls or choice.finish_reason == "length"
    streamed = joined(client.chat.completions.create(**options, stream=True))
    assert [(c["name"], c["input"]) for c in streamed] == calls


def test_errors_name_the_place(client):
    bad = {"type": "custom", "name": "a", "format": {"type": "grammar", "syntax": "regex", "definition": 5}}
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=MODEL, input=ASK, tools=[bad])
    assert "tools[0].format" in str(caught.value)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=MODEL, input=[*ASK, {"type": "custom_tool_call", "call_id": "1", "name": "a"}])
    assert "input[1].input" in str(caught.value)

"""Clients that others wrote, beside OpenAI's own: instructor and langchain-openai, with the release of openai that
both take. Each uses the server as its documentation says, with nothing changed but the address."""

import enum

import instructor
import litellm
import openai
import pydantic
import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

QUESTION = "What is the capital of France?"
WEATHER = "What is the weather in Oslo?"


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=130)
    colours: list[Colour] = pydantic.Field(max_length=2)


@tool
def get_weather(city: str) -> str:
    """Gets the weather of a city."""
    return f"It is 12 degrees in {city}."


@pytest.fixture(scope="module")
def server(start_server):
    return start_server()


@pytest.fixture
def chat(server):
    return ChatOpenAI(base_url=f"{server.url}/v1", api_key="none", model="osprey-nano", max_retries=0, timeout=60)


@pytest.fixture
def teacher(server):
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60)
    return instructor.from_openai(client, mode=instructor.Mode.JSON_SCHEMA)


def test_langchain_invokes(chat):
    answer = chat.invoke([SystemMessage("You are helpful."), HumanMessage(QUESTION)])
    assert "Paris" in answer.content
    assert answer.usage_metadata["input_tokens"] > 10
    assert answer.usage_metadata["output_token_details"]["reasoning"] > 0
    assert answer.response_metadata["finish_reason"] == "stop"


def test_langchain_streams_the_same(chat):
    whole = chat.invoke(QUESTION, temperature=0)
    pieces = list(chat.stream(QUESTION, temperature=0, stream_usage=True))
    total = pieces[0]
    for piece in pieces[1:]:
        total += piece
    assert total.content == whole.content
    for name in ("input_tokens", "output_tokens", "total_tokens"):
        assert total.usage_metadata[name] == whole.usage_metadata[name]


def test_langchain_batch(chat):
    answers = chat.batch([QUESTION] * 4)
    assert all("Paris" in answer.content for answer in answers)


def test_langchain_structured_output(chat):
    person = chat.with_structured_output(Person, method="json_schema").invoke("Describe a person.")
    assert isinstance(person, Person)


def test_langchain_json_mode(chat):
    answer = chat.bind(max_tokens=200, response_format={"type": "json_object"}).invoke("Describe a person as JSON.")
    assert answer.content.startswith("{")


def test_langchain_tools(chat):
    asking = chat.bind_tools([get_weather])
    messages = [HumanMessage(WEATHER)]
    call = asking.invoke(messages)
    assert isinstance(call, AIMessage) and call.response_metadata["finish_reason"] == "tool_calls"
    assert [c["name"] for c in call.tool_calls] == ["get_weather"] and call.tool_calls[0]["args"]["city"]
    messages += [call] + [ToolMessage(get_weather.invoke(c["args"]), tool_call_id=c["id"]) for c in call.tool_calls]
    assert "12" in asking.invoke(messages).content


def test_langchain_streams_tools(chat):
    total = None
    for piece in chat.bind_tools([get_weather]).stream(WEATHER):
        total = piece if total is None else total + piece
    assert [c["name"] for c in total.tool_calls] == ["get_weather"] and total.tool_calls[0]["args"]["city"]


def test_langchain_logprobs(chat):
    answer = chat.bind(logprobs=True, top_logprobs=2).invoke(QUESTION)
    entries = answer.response_metadata["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries) == answer.content


def test_instructor_makes_a_model(teacher):
    person = teacher.create(model="osprey-nano", response_model=Person, max_retries=0,
                            messages=[{"role": "user", "content": "Describe a person."}])
    assert isinstance(person, Person)


def test_instructor_streams_a_partial_model(teacher):
    """strict=False: by default the library wants enums in Python's form, and fails at a list of any, whoever writes it."""
    people = list(teacher.create_partial(model="osprey-nano", response_model=Person, max_retries=0, strict=False,
                                         messages=[{"role": "user", "content": "Describe a person."}]))
    assert len(people) > 1 and Person.model_validate(people[-1].model_dump())


def test_langchain_knows_a_prompt_that_is_too_long(server, start_server):
    """LangChain finds the error by its text and raises its own, by which an agent shortens its history."""
    small = start_server("--max-model-len", "512")
    chat = ChatOpenAI(base_url=f"{small.url}/v1", api_key="none", model="osprey-nano", max_retries=0, timeout=60)
    with pytest.raises(ContextOverflowError):
        chat.invoke("one two three " * 1000)
    with pytest.raises(ContextOverflowError):
        list(chat.stream("one two three " * 1000))


def ask_litellm(server, model="openai/osprey-nano", **options):
    return litellm.completion(model=model, api_base=f"{server.url}/v1", api_key="none", timeout=60, num_retries=0,
                              **options)


def test_litellm_answers(server):
    messages = [{"role": "user", "content": QUESTION}]
    answer = ask_litellm(server, messages=messages, temperature=0)
    assert "Paris" in answer.choices[0].message.content and answer.choices[0].message.reasoning_content
    assert answer.usage.prompt_tokens > 10
    chunks = list(ask_litellm(server, messages=messages, temperature=0, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == answer.choices[0].message.content


def test_litellm_calls_a_tool(server):
    answer = ask_litellm(server, messages=[{"role": "user", "content": WEATHER}], tool_choice="required", tools=[
        {"type": "function", "function": {"name": "get_weather", "parameters": {
            "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}}}])
    call = answer.choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather" and call.function.arguments in ('{"city":"Oslo"}', '{"city":"Rome"}',
                                                                               '{"city": "Oslo"}', '{"city": "Rome"}')


def test_litellm_knows_a_prompt_that_is_too_long(start_server):
    small = start_server("--max-model-len", "512")
    with pytest.raises(litellm.ContextWindowExceededError):
        ask_litellm(small, messages=[{"role": "user", "content": "one two three " * 1000}])


def test_litellm_knows_other_errors(server, start_server):
    messages = [{"role": "user", "content": "Hi"}]
    with pytest.raises(litellm.BadRequestError):
        ask_litellm(server, messages=messages, temperature=3)
    with pytest.raises(litellm.NotFoundError):
        ask_litellm(server, model="openai/no-such-model", messages=messages)
    locked = start_server("--api-key", "secret")
    with pytest.raises(litellm.AuthenticationError):
        ask_litellm(locked, messages=messages)

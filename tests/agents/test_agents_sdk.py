"""The OpenAI Agents SDK with both of its models: tools, handoffs, streams, structured output, custom-form tools. The device draws
what a test says; a tool says what it draws next."""

import asyncio
import json

import agents
import openai
import pydantic
import pytest
from agents import Agent, ModelSettings, Runner, function_tool

NAME = "osprey-nano"
THOUGHT = "<|channel|>analysis<|message|>I think.<|end|><|start|>assistant"
FINAL = THOUGHT + "<|channel|>final<|message|>%s<|return|>"
CALL = THOUGHT + "<|channel|>commentary to=functions.%s <|constrain|>json<|message|>%s<|call|>"

agents.set_tracing_disabled(True)


@pytest.fixture(params=["responses", "chat"])
def model(request, server):
    client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=60)
    kind = agents.OpenAIResponsesModel if request.param == "responses" else agents.OpenAIChatCompletionsModel
    return kind(model=NAME, openai_client=client)


@pytest.fixture
def responses(server):
    client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=60)
    return agents.OpenAIResponsesModel(model=NAME, openai_client=client)


@pytest.fixture
def draws(server):
    """Says what the next answer is."""
    return lambda text: server.write(server.ids_of(text))


def call(name, **arguments):
    return CALL % (name, json.dumps(arguments, ensure_ascii=False))


def test_an_answer(model, draws):
    draws(FINAL % "Paris é.")
    result = Runner.run_sync(Agent(name="a", instructions="Be brief.", model=model), "The capital of France?")
    assert result.final_output == "Paris é."
    usage = result.context_wrapper.usage
    assert usage.requests == 1 and usage.input_tokens > 50 and usage.output_tokens > 5


def test_a_tool(model, draws):
    asked = []

    @function_tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        asked.append(city)
        draws(FINAL % "It is sunny.")
        return "sunny"

    draws(call("get_weather", city="Paris"))
    result = Runner.run_sync(Agent(name="a", model=model, tools=[get_weather]), "Weather in Paris?")
    assert result.final_output == "It is sunny." and asked == ["Paris"]
    assert [type(i).__name__ for i in result.new_items if "Reasoning" not in type(i).__name__] == [
        "ToolCallItem", "ToolCallOutputItem", "MessageOutputItem",
    ]  # fmt: skip
    # the next turn, with the items of this one
    draws(FINAL % "Rainy.")
    again = Runner.run_sync(Agent(name="a", model=model, tools=[get_weather]),
                            result.to_input_list() + [{"role": "user", "content": "And tomorrow?"}])
    assert again.final_output == "Rainy."


def test_a_stream_with_a_tool(model, draws):
    @function_tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        draws(FINAL % "It is sunny in Paris.")
        return "sunny"

    async def play():
        result = Runner.run_streamed(Agent(name="a", model=model, tools=[get_weather]), "Weather in Paris?")
        return [event async for event in result.stream_events()], result

    draws(call("get_weather", city="Paris"))
    events, result = asyncio.run(play())
    assert result.final_output == "It is sunny in Paris."
    deltas = [e.data.delta for e in events if e.type == "raw_response_event" and e.data.type == "response.output_text.delta"]
    assert "".join(deltas) == result.final_output
    names = [e.name for e in events if e.type == "run_item_stream_event"]
    assert [n for n in names if n in ("tool_called", "tool_output", "message_output_created")] == [
        "tool_called", "tool_output", "message_output_created",
    ]  # fmt: skip


def test_a_handoff(model, draws):
    spanish = Agent(name="Spanish", instructions="Answer in Spanish.", model=model)
    chosen = []

    async def on_handoff(_):
        chosen.append("Spanish")
        draws(FINAL % "Hola.")

    first = Agent(name="first", model=model, handoffs=[agents.handoff(spanish, on_handoff=on_handoff)])
    draws(call("transfer_to_spanish"))
    result = Runner.run_sync(first, "Hola?")
    assert result.last_agent is spanish and result.final_output == "Hola." and chosen == ["Spanish"]


class City(pydantic.BaseModel):
    name: str
    people: int


def test_structured_output(model, draws):
    draws(FINAL % '{"name":"Paris","people":2100000}')
    result = Runner.run_sync(Agent(name="a", model=model, output_type=City), "The capital of France?")
    assert result.final_output == City(name="Paris", people=2100000)


def test_settings(model, draws):
    """What a ModelSettings sends is taken: none of it is an error."""
    draws(FINAL % "Yes.")
    settings = ModelSettings(temperature=0.5, top_p=0.9, max_tokens=200, truncation="auto", parallel_tool_calls=False, store=True,
                             metadata={"a": "b"}, reasoning={"effort": "low"}, include_usage=True)  # fmt: skip

    @function_tool
    def unused() -> str:
        """Not called."""
        return ""

    result = Runner.run_sync(Agent(name="a", model=model, model_settings=settings, tools=[unused]), "Really?")
    assert result.final_output == "Yes."


def test_previous_response_id(responses, draws):
    draws(FINAL % "One.")
    agent = Agent(name="a", model=responses)
    first = Runner.run_sync(agent, "Count.")
    draws(FINAL % "Two.")
    second = Runner.run_sync(agent, "Go on.", previous_response_id=first.last_response_id)
    assert second.final_output == "Two."
    assert second.context_wrapper.usage.input_tokens > first.context_wrapper.usage.input_tokens


def test_a_session_on_the_server(responses, draws, server):
    """The SDK keeps the items of a session in a conversation of the server. Its chat model does not take them back."""
    client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=60)

    async def play():
        session = agents.OpenAIConversationsSession(openai_client=client)
        draws(FINAL % "Paris.")
        first = await Runner.run(Agent(name="a", model=responses), "The capital of France?", session=session)
        draws(FINAL % "Rome.")
        second = await Runner.run(Agent(name="a", model=responses), "And of Italy?", session=session)
        return first, second, await session.get_items()

    first, second, items = asyncio.run(play())
    assert (first.final_output, second.final_output) == ("Paris.", "Rome.")
    assert second.context_wrapper.usage.input_tokens > first.context_wrapper.usage.input_tokens
    roles = [i["role"] for i in items if i.get("type", "message") == "message"]
    assert roles == ["user", "assistant", "user", "assistant"]


def test_conversation_id(responses, draws, server):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=60)
    id = client.conversations.create().id
    for text in ("One.", "Two."):
        draws(FINAL % text)
        assert Runner.run_sync(Agent(name="a", model=responses), "Go on.", conversation_id=id).final_output == text
    assert len([i for i in client.conversations.items.list(id) if i.type == "message"]) == 4


def test_the_shell(responses, draws):
    ran = []

    async def execute(request):
        ran.append(request.data.action.commands)
        draws(FINAL % "Two files.")
        return agents.ShellResult(output=[agents.ShellCommandOutput(stdout="a b", stderr="", outcome=agents.ShellCallOutcome(
            type="exit", exit_code=0))])  # fmt: skip

    draws(call("shell", commands=["ls"]))
    result = Runner.run_sync(Agent(name="a", model=responses, tools=[agents.ShellTool(executor=execute)]), "How many files?")
    assert result.final_output == "Two files." and ran == [["ls"]]


def test_a_local_shell(responses, draws):
    ran = []

    def execute(request):
        ran.append(request.data.action.command)
        draws(FINAL % "Two files.")
        return "a b"

    draws(call("local_shell", command=["ls", "-l"]))
    result = Runner.run_sync(Agent(name="a", model=responses, tools=[agents.LocalShellTool(executor=execute)]), "How many?")
    assert result.final_output == "Two files." and ran == [["ls", "-l"]]


def test_a_patch(responses, draws):
    done = []

    class Editor:
        def note(self, operation):
            done.append((operation.type, operation.path, operation.diff))
            draws(FINAL % "Done.")
            return agents.ApplyPatchResult(output="written")

        create_file = update_file = delete_file = note

    draws(call("apply_patch", type="create_file", path="a.txt", diff="+x"))
    result = Runner.run_sync(Agent(name="a", model=responses, tools=[agents.ApplyPatchTool(editor=Editor())]), "Make a.txt.")
    assert result.final_output == "Done." and done == [("create_file", "a.txt", "+x")]

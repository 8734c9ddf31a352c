"""Sessions in the form in which Claude Code sends them, of 30 requests each: nearly all of every prompt comes from the
prefix cache, whatever the model writes.

A device draws what the session says, so that the answers are like those of a large model: reasoning, calls in several
ways to write JSON, preambles, final answers. The client sends back what it got, as the official client parses it."""

import json
import random

import anthropic
import pytest

import scripted

N_SESSIONS = 4
N_REQUESTS = 30
N_SYSTEM_WORDS = 9000
CACHED_MIN = 0.98
WORDS = (
    "the of to and a in is it you that he was for on are with as his they be at one have this from or had by hot but "
    "some what there we can out other were all your when up use word how said an each she which do their time if will "
    "way about many then them would write like so these her long make thing see him two has look more day could go"
).split()


def prose(rng, n):
    return " ".join(rng.choices(WORDS, k=n))


def tool(rng, name, properties):
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {key: {"type": kind, "description": prose(rng, 12)} for key, kind in properties.items()},
        "required": list(properties)[:1],
        "additionalProperties": False,
    }
    return {"name": name, "description": prose(rng, 150), "input_schema": schema}


def tools_of(rng):
    known = [
        tool(rng, "Bash", {"command": "string", "timeout": "number", "description": "string"}),
        tool(rng, "Read", {"file_path": "string", "offset": "number", "limit": "number"}),
        tool(rng, "Edit", {"file_path": "string", "old_string": "string", "new_string": "string"}),
        tool(rng, "Write", {"file_path": "string", "content": "string"}),
    ]
    return known + [tool(rng, f"mcp__server__tool_{i}", {"query": "string", "count": "number"}) for i in range(11)]


class Session:
    """The client's side: what it sends, and what it does with the answers."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.tools = tools_of(self.rng)
        self.instructions = prose(self.rng, N_SYSTEM_WORDS)
        environment = {"type": "text", "text": "# Environment\n" + prose(self.rng, 200)}
        self.messages = [
            self.prompt(), {"role": "system", "content": [environment], "output_config": {"effort": "high"}}
        ]
        # Newer versions do not show thinking; half of the sessions are of an older one.
        self.thinking = {"type": "adaptive", **({"display": "omitted"} if seed % 2 else {})}

    def system(self):
        """The first block differs in every request, and must not reach the prompt."""
        cch = f"{self.rng.getrandbits(20):05x}"
        return [
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.36; cc_entrypoint=cli; cch={cch};"},
            {"type": "text", "text": "You are an agent for programmers.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": self.instructions, "cache_control": {"type": "ephemeral"}},
        ]

    def prompt(self):
        reminder = f"<system-reminder>\n{prose(self.rng, 60)}\n</system-reminder>\n"
        blocks = [{"type": "text", "text": text} for text in (reminder, prose(self.rng, 20))]
        return {"role": "user", "content": blocks}

    def request(self):
        """cache_control stands at the last block, so that it moves with every request."""
        messages = json.loads(json.dumps(self.messages))
        messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        return {
            "model": "claude-opus-5",
            "max_tokens": 32000,
            "system": self.system(),
            "tools": self.tools,
            "messages": messages,
            "thinking": self.thinking,
            "output_config": {"effort": "high"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "metadata": {"user_id": "user_0_account__session_0"},
        }

    def load_tool(self):
        """What a search for tools finds joins the list of tools, at the place of its name, and is referred to."""
        name = f"Deferred{len(self.tools)}"
        found = tool(self.rng, name, {"query": "string"})
        self.tools.insert(self.rng.randrange(len(self.tools)), {**found, "defer_loading": True})
        return [{"type": "tool_reference", "tool_name": name}]

    def results(self, content):
        blocks = []
        for block in content:
            if block["type"] == "tool_use":
                text = prose(self.rng, self.rng.randrange(10, 160))
                result = text if self.rng.random() < 0.5 else [{"type": "text", "text": text}]
                if self.rng.random() < 0.1:
                    result = self.load_tool()
                blocks.append({"type": "tool_result", "tool_use_id": block["id"], "content": result,
                               "is_error": self.rng.random() < 0.1})
        if self.rng.random() < 0.3:
            blocks.append({"type": "text", "text": f"<system-reminder>\n{prose(self.rng, 30)}\n</system-reminder>"})
        return {"role": "user", "content": blocks}

    def take(self, message):
        content = [block.to_dict() for block in message.content]
        self.messages.append({"role": "assistant", "content": content})
        self.messages.append(self.results(content) if message.stop_reason == "tool_use" else self.prompt())


def arguments(rng, name):
    """JSON as models write it: close together, with spaces, or over several lines."""
    values = {
        "Bash": {"command": prose(rng, 8) + ' | grep "é\\n"', "timeout": rng.randrange(9) + 0.5},
        "Read": {"file_path": "/src/" + prose(rng, 1), "offset": rng.randrange(999)},
        "Edit": {"file_path": "/src/a.c", "old_string": prose(rng, 15), "new_string": "\tx = 1;\n" + prose(rng, 15)},
    }
    form = rng.choice([{"separators": (",", ":")}, {}, {"indent": 2}])
    return json.dumps(values[name], ensure_ascii=rng.random() < 0.5, **form)


def answer(rng, is_final):
    """What the model writes, with the names of control tokens."""
    reasoning = f"<|channel|>analysis<|message|>{prose(rng, rng.randrange(5, 60))}"
    if is_final:
        return f"{reasoning}<|end|><|start|>assistant<|channel|>final<|message|>{prose(rng, 60)}<|return|>"
    text = reasoning + "<|end|><|start|>assistant"
    if rng.random() < 0.3:
        text += f"<|channel|>commentary<|message|>{prose(rng, 12)}<|end|><|start|>assistant"
    name = rng.choice(["Bash", "Read", "Edit"])
    to = rng.choice([f"<|channel|>commentary to=functions.{name}", f" to=functions.{name}<|channel|>commentary"])
    kind = rng.choice([" <|constrain|>json", " json", ""])
    return f"{text}{to}{kind}<|message|>{arguments(rng, name)}<|call|>"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = scripted.ScriptedServer(tmp_path_factory.mktemp("scripted"), "--max-model-len", "131072")
    yield running
    assert running.stop() == 0, running.log


def client_of(server):
    return anthropic.Anthropic(
        base_url=server.url, auth_token="none", max_retries=0, timeout=120, _strict_response_validation=True
    )


@pytest.mark.parametrize("seed", range(N_SESSIONS))
def test_prompts_come_from_the_cache(server, seed):
    client, session, rng = client_of(server), Session(seed), random.Random(seed + 100)
    n_prompt = n_cached = 0
    worst = 1.0
    for i in range(N_REQUESTS):
        is_final = i % 12 == 11
        server.write(server.ids_of(answer(rng, is_final)))
        request = session.request()
        context = {"context_management": request.pop("context_management")}
        with client.messages.stream(extra_body=context, **request) as stream:
            message = stream.get_final_message()
        assert message.stop_reason == ("end_turn" if is_final else "tool_use")
        assert message.content[0].type == "thinking" and message.content[0].signature
        assert (message.content[0].thinking == "") == ("display" in session.thinking)
        usage = message.usage
        if i > 0:
            n = usage.input_tokens + usage.cache_read_input_tokens
            n_prompt += n
            n_cached += usage.cache_read_input_tokens
            worst = min(worst, usage.cache_read_input_tokens / n)
        session.take(message)
    print(f"session {seed}: {n_cached} of {n_prompt} prompt tokens from the cache ({n_cached / n_prompt:.2%}), "
          f"{worst:.2%} in the worst request, {n} tokens in the last prompt")
    assert n_cached >= CACHED_MIN * n_prompt


FORMS = {
    "compact": '{"command":"ls -l","timeout":0.5}',
    "spaces": '{"command": "ls -l", "timeout": 0.5}',
    "lines": '{\n  "command": "ls -l",\n  "timeout": 0.5\n}',
    "escapes": '{"command":"\\u00e9\\/","timeout":5e-1}',
}


def call_and_result(server, written, **more):
    """Usage of an answer that is a call, and of the request that has its result."""
    client, rng = client_of(server), random.Random(written)
    messages = [{"role": "user", "content": prose(rng, 200)}]
    options = {"model": "claude-x", "max_tokens": 500, "tools": tools_of(random.Random(7)), **more}
    server.write(server.ids_of(f"<|channel|>analysis<|message|>I look.<|end|><|start|>assistant{written}<|call|>"))
    first = client.messages.create(messages=messages, **options)
    assert first.stop_reason == "tool_use" and first.content[-1].input["timeout"] == 0.5
    result = {"type": "tool_result", "tool_use_id": first.content[-1].id, "content": "ok"}
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    server.write(server.ids_of("<|channel|>final<|message|>Done.<|return|>"))
    return first.usage, client.messages.create(messages=messages, **options).usage


def is_all_cached(first, second):
    n_before = first.input_tokens + first.cache_read_input_tokens + first.output_tokens
    return second.cache_read_input_tokens >= n_before - 1


@pytest.mark.parametrize("form", FORMS)
def test_arguments_are_rendered_as_the_model_wrote_them(server, form):
    """The client sends back a value, and the text that it came from is in the cache."""
    written = f" to=functions.Bash<|channel|>commentary json<|message|>{FORMS[form]}"
    assert is_all_cached(*call_and_result(server, written, thinking={"type": "adaptive"}))


def test_the_model_keeps_thinking_that_the_client_does_not_get(server):
    """Between its calls the model needs it; the prompt has it, from the cache."""
    written = "<|channel|>commentary to=functions.Bash json<|message|>" + FORMS["spaces"]
    assert is_all_cached(*call_and_result(server, written))
    omitted = {"type": "adaptive", "display": "omitted"}
    assert is_all_cached(*call_and_result(server, written, thinking=omitted))

"""Ollama's API with its official client: models, chat, generate, streams, thinking, tools, formats, errors. Where exact
text matters, a device draws what the test says."""

import datetime
import http.client
import json
import pathlib
import sys

import ollama
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import scripted

MODEL = "osprey-nano"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
THOUGHT = "<|channel|>analysis<|message|>I know it.<|end|><|start|>assistant"
FINAL = "<|channel|>final<|message|>It is Paris.<|return|>"
DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


def get_weather(city: str, days: int = 1) -> str:
    """Gets the weather of a city.

    Args:
      city: the city
      days: how many days
    """
    return f"{city}: {days} days of sun"


def call(name, arguments, end="<|call|>"):
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}{end}"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A server whose answers are what a test writes."""
    running = scripted.ScriptedServer(tmp_path_factory.mktemp("ollama"))
    yield running
    assert running.stop() == 0, running.log


def write(server, text):
    ids = server.ids_of(text)
    server.write(ids)
    return len(ids)


@pytest.fixture
def client(server):
    return ollama.Client(server.url, timeout=60)


def test_models(client):
    (model,) = client.list().models
    assert model.model == "osprey-nano:latest" and model.size > 1_000_000 and len(model.digest) == 64
    assert model.details.family == "gptoss" and model.details.parameter_size.endswith("M")
    assert abs(model.modified_at - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(days=1)
    (running,) = client.ps().models
    assert running.model == model.model and running.digest == model.digest and running.context_length == 4096
    assert running.expires_at.year > 2300 and running.size > model.size
    for name in (MODEL, "osprey-nano:latest"):
        shown = client.show(name)
        assert {"completion", "tools", "thinking"} <= set(shown.capabilities)
        assert shown.modelinfo["general.architecture"] == "gptoss" and shown.modelinfo["gptoss.context_length"] == 4096


def test_names_have_a_tag(start_server):
    server = start_server("--served-model-name", "gpt-oss:20b,mine")
    client = ollama.Client(server.url)
    assert [m.model for m in client.list().models] == ["gpt-oss:20b", "mine:latest"]
    for name in ("gpt-oss:20b", "mine", "mine:latest", "gpt-oss:20b:latest"):
        assert client.chat(name, QUESTION, options={"num_predict": 1}).model == name
    for name in ("gpt-oss", "gpt-oss:120b", "mine:", "mine:latest:latest", "mine:latest2", ""):
        with pytest.raises(ollama.ResponseError) as error:
            post = client._request_raw("POST", "/api/chat", json={"model": name, "messages": QUESTION})
            raise AssertionError(post.text)
        assert error.value.status_code == 404 and error.value.error == f"model '{name}' not found"


def check_end(answer, n_tokens):
    assert answer.done and answer.eval_count == n_tokens and answer.prompt_eval_count > 10
    assert all(isinstance(answer[name], int) and answer[name] >= 0 for name in DURATIONS)
    assert abs(answer.total_duration - sum(answer[name] for name in DURATIONS[1:])) < 10
    made = datetime.datetime.fromisoformat(answer.created_at)
    assert abs(made - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(hours=1)


def test_chat_whole_and_streamed(written):
    client = ollama.Client(written.url)
    n = write(written, THOUGHT + FINAL)
    whole = client.chat(MODEL, QUESTION)
    assert (whole.message.role, whole.message.content, whole.message.thinking) == (
        "assistant", "It is Paris.", "I know it.")
    assert whole.done_reason == "stop" and whole.model == MODEL
    check_end(whole, n)
    write(written, THOUGHT + FINAL)
    *parts, last = client.chat(MODEL, QUESTION, stream=True)
    assert "".join(p.message.content or "" for p in parts) == "It is Paris." and len(parts) > 3
    assert "".join(p.message.thinking or "" for p in parts) == "I know it."
    assert not any(p.done or p.done_reason for p in parts) and last.message.content == ""
    assert last.done_reason == "stop"
    check_end(last, n)


def test_generate_whole_and_streamed(written):
    client = ollama.Client(written.url)
    n = write(written, THOUGHT + FINAL)
    whole = client.generate(MODEL, "What is the capital of France?", system="Be brief.")
    assert (whole.response, whole.thinking, whole.done_reason) == ("It is Paris.", "I know it.", "stop")
    check_end(whole, n)
    write(written, THOUGHT + FINAL)
    parts = list(client.generate(MODEL, "What is the capital of France?", stream=True))
    assert "".join(p.response for p in parts) == "It is Paris."
    assert "".join(p.thinking or "" for p in parts) == "I know it."


def test_the_system_message_is_in_the_prompt(client):
    counts = {
        system: client.generate(MODEL, "Hi", system=system, options={"num_predict": 1}).prompt_eval_count
        for system in ("", "Be brief.", "Be brief, and be brief again.")
    }
    assert counts[""] < counts["Be brief."] < counts["Be brief, and be brief again."]


def test_think(written):
    client = ollama.Client(written.url)
    for think, effort, thinking in [
        (None, "medium", "I know it."), (True, "medium", "I know it."), (False, "low", None),
        ("low", "low", "I know it."), ("high", "high", "I know it."), ("max", "high", "I know it."),
    ]:
        for stream in (False, True):
            write(written, THOUGHT + FINAL)
            answer = client._request_raw(
                "POST", "/api/chat", json={"messages": QUESTION, "think": think, "stream": stream})
            lines = [json.loads(line)["message"] for line in answer.text.splitlines()]
            assert ("".join(m.get("thinking", "") for m in lines) or None) == thinking
            assert "".join(m["content"] for m in lines) == "It is Paris."
            assert answer.headers["x-osprey-reasoning-effort"] == effort


@pytest.mark.parametrize("stream", [False, True])
def test_tools(written, stream):
    """A conversation with two calls of one message, whose results come back in the other order."""
    client = ollama.Client(written.url)

    def ask(messages):
        answer = client.chat(MODEL, messages, tools=[get_weather], stream=stream)
        parts = list(answer) if stream else [answer]
        calls = [c for p in parts for c in p.message.tool_calls or []]
        return calls, "".join(p.message.content or "" for p in parts), parts[-1].done_reason

    messages = [{"role": "user", "content": "What is the weather in Paris and Rome?"}]
    write(written, call("get_weather", '{"city": "Paris",\n "days": 2}', "<|call|>"))
    calls, content, reason = ask(messages)
    assert [(c.function.name, c.function.arguments) for c in calls] == [("get_weather", {"city": "Paris", "days": 2})]
    assert content == "" and reason == "stop"
    messages.append({"role": "assistant", "tool_calls": calls})
    messages.append({"role": "tool", "tool_name": "get_weather", "content": get_weather(**calls[0].function.arguments)})
    write(written, FINAL)
    assert ask(messages) == ([], "It is Paris.", "stop")


def test_a_call_whose_arguments_are_no_object(written):
    client = ollama.Client(written.url)
    for text, arguments in [("no JSON {", {"_raw": "no JSON {"}), ("[1]", {"_raw": "[1]"}), ("", {}), ("{}", {})]:
        write(written, call("get_weather", text))
        (made,) = client.chat(MODEL, QUESTION, tools=[get_weather]).message.tool_calls
        assert made.function.arguments == arguments, text


def test_a_call_that_is_cut_is_no_call(written):
    client = ollama.Client(written.url)
    n = write(written, call("get_weather", '{"city": "Pa', ""))
    for stream in (False, True):
        write(written, call("get_weather", '{"city": "Pa', ""))
        answer = client.chat(MODEL, QUESTION, tools=[get_weather], options={"num_predict": n}, stream=stream)
        answer = list(answer)[-1] if stream else answer
        assert answer.done_reason == "length" and not answer.message.tool_calls and answer.eval_count == n


def test_conversations_are_rendered_as_in_the_openai_api(server):
    """The forms of calls and results differ, the prompts do not."""
    client = ollama.Client(server.url)
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {
        "type": "object", "properties": {"a": {"type": "integer"}}}}}
    openai_calls = [{"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": '{"a":%d}' % i}}
                    for i, name in enumerate(["f", "g"])]
    ours = [{"id": c["id"], "function": {"name": c["function"]["name"], "arguments": {"a": i}}}
            for i, c in enumerate(openai_calls)]
    head = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    openai_results = [{"role": "tool", "tool_call_id": "c1", "content": "second, which is longer"},
                      {"role": "tool", "tool_call_id": "c0", "content": "first"}]
    wanted = client._request_raw("POST", "/tokenize", json={"messages": [
        *head, {"role": "assistant", "content": "", "reasoning": "r", "tool_calls": openai_calls}, *openai_results],
        "tools": [tool]}).json()["count"]
    for calls, results in [
        (ours, [{"tool_call_id": "c1"}, {"tool_call_id": "c0"}]),
        (ours, [{"tool_name": "g"}, {"tool_name": "f"}]),
        ([{"function": c["function"]} for c in ours], [{"name": "g"}, {}]),
        ([{"function": c["function"]} for c in ours], [{"name": "g"}, {"tool_name": "f"}]),
    ]:
        messages = [{"role": "SYSTEM", "content": "s"}, {"role": "User", "content": "u", "images": []},
                    {"role": "assistant", "thinking": "r", "tool_calls": calls}]
        messages += [{"role": "tool", "content": o["content"], **r} for o, r in zip(openai_results, results)]
        answer = client._request_raw("POST", "/api/chat", json={
            "messages": messages, "tools": [tool], "stream": False, "options": {"num_predict": 1}}).json()
        assert answer["prompt_eval_count"] == wanted


def test_formats(client):
    schema = {"type": "object", "properties": {"big": {"type": "boolean"}, "n": {"enum": [1, 2]}},
              "required": ["big", "n"], "additionalProperties": False}
    for stream in (False, True):
        answer = client.chat(MODEL, QUESTION, format=schema, stream=stream, think=False)
        text = "".join(p.message.content for p in answer) if stream else answer.message.content
        value = json.loads(text)
        assert isinstance(value["big"], bool) and value["n"] in (1, 2) and len(value) == 2
    assert json.loads(client.generate(MODEL, "Say yes.", format=schema).response).keys() == {"big", "n"}
    # A raw prompt is continued at once in the format, so that its first character is certain.
    raw = client.generate(MODEL, "Some JSON: ", raw=True, format="json", options={"num_predict": 20})
    assert raw.response.startswith("{")
    assert client.chat(MODEL, QUESTION, format="", options={"num_predict": 1}).done


def test_logprobs(client):
    answer = client.chat(MODEL, QUESTION, logprobs=True, top_logprobs=2)
    assert "".join(entry.token for entry in answer.logprobs) == answer.message.content
    assert all(len(entry.top_logprobs) == 2 and entry.logprob <= 0 for entry in answer.logprobs)
    parts = list(client.generate(MODEL, QUESTION[0]["content"], logprobs=True, stream=True))
    assert "".join(e.token for p in parts for e in p.logprobs or []) == "".join(p.response for p in parts)


def test_options(client):
    answer = client.generate(MODEL, "Hello", raw=True, options={"num_predict": 3, "temperature": 0})
    assert answer.eval_count == 3 and answer.done_reason == "length" and answer.response
    random = {"num_predict": 12, "temperature": 2, "top_k": 500, "top_p": 0.99, "min_p": 0}
    seeded, unseeded = (
        {client.generate(MODEL, "Once upon", raw=True, options={**random, "seed": seed}).response for _ in range(12)}
        for seed in (7, -1)
    )
    assert len(seeded) == 1 and len(unseeded) > 1
    greedy = {"num_predict": 12, "temperature": 0}
    plain = client.generate(MODEL, "1 1 1 1", raw=True, options=greedy).response
    assert client.generate(MODEL, "1 1 1 1", raw=True, options={**greedy, "repeat_penalty": 1.0}).response == plain
    penalized = {**greedy, "repeat_penalty": 100.0, "repeat_last_n": -1}
    assert client.generate(MODEL, "1 1 1 1", raw=True, options=penalized).response != plain
    assert client.generate(MODEL, "1 1 1 1", raw=True, options={**penalized, "repeat_last_n": 0}).response == plain


def test_stop_strings(written):
    client = ollama.Client(written.url)
    write(written, FINAL)
    answer = client.chat(MODEL, QUESTION, options={"stop": ["Par", "xyz"]})
    assert answer.message.content == "It is " and answer.done_reason == "stop"


def test_load_and_unload(client):
    for keep_alive, reason in [(None, "load"), ("5m", "load"), (-1, "load"), (0, "unload"), ("0s", "unload")]:
        answer = client.generate(MODEL, keep_alive=keep_alive)
        assert (answer.response, answer.done, answer.done_reason) == ("", True, reason)
        answer = client.chat(MODEL, keep_alive=keep_alive)
        assert (answer.message.content, answer.done, answer.done_reason) == ("", True, reason)
    (streamed,) = client.chat(MODEL, stream=True)
    assert streamed.done_reason == "load"
    assert client.chat(MODEL, QUESTION, keep_alive=0, options={"num_predict": 1}).done_reason == "length"


CHAT, GENERATE = {"messages": QUESTION}, {"prompt": "Hello"}
CALLED = [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]
REFUSED = [
    (GENERATE, {"suffix": "x"}, "suffix"),
    (GENERATE, {"template": "{{ .Prompt }}"}, "template"),
    (CHAT, {"template": "{{ .Prompt }}"}, "template"),
    (GENERATE, {"context": [1, 2, 3]}, "context"),
    (GENERATE, {"images": ["aGk="]}, "images"),
    (GENERATE, {"raw": True, "system": "x"}, "system"),
    (GENERATE, {"raw": True, "think": "low"}, "think"),
    (GENERATE, {"_debug_render_only": True}, "_debug_render_only"),
    (CHAT, {"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}, "messages[0].images"),
    (CHAT, {"format": "yaml"}, "format"),
    (CHAT, {"format": {"type": "object", "properties": {"x": {"not": {}}}}}, "format"),
    (CHAT, {"think": "very much"}, "think"),
    (CHAT, {"tools": [{"type": "function", "function": {"name": "bad name"}}]}, "tools[0].function.name"),
    (CHAT, {"messages": [{"role": "tool", "content": "x", "tool_name": "f"}]}, "messages[0].tool_name"),
    (CHAT, {"messages": CALLED + [{"role": "tool", "content": "x", "tool_name": "g"}]}, "messages[1].tool_name"),
    (CHAT, {"messages": CALLED + [{"role": "tool", "content": "x"}] * 2}, "messages[2].tool_name"),
    *((CHAT, {"options": {name: value}}, f"options.{name}") for name, value in [
        ("mirostat", 1), ("mirostat", 2), ("typical_p", 0.5), ("tfs_z", 0.9), ("penalize_newline", False),
        ("temperature", 3), ("temperature", "hot"), ("top_k", -2), ("top_p", 1.5), ("min_p", -1), ("seed", 0.5),
        ("stop", ["x"] * 17), ("stop", [""]), ("num_predict", "many"), ("num_ctx", "large"), ("repeat_penalty", 0),
        ("presence_penalty", 3), ("frequency_penalty", -3)]),
    (CHAT, {"options": {"repeat_penalty": 1.1, "repeat_last_n": 64}}, "repeat_last_n"),
]


@pytest.mark.parametrize("body, more, field", REFUSED, ids=lambda v: v if isinstance(v, str) else "")
def test_what_would_change_the_answer_is_refused_by_name(client, body, more, field):
    path = "/api/chat" if "messages" in body else "/api/generate"
    for stream in (False, True):
        with pytest.raises(ollama.ResponseError) as error:
            client._request_raw("POST", path, json={**body, **more, "stream": stream})
        assert error.value.status_code == 400 and error.value.error.startswith(f"{field}: "), error.value


def test_what_does_not_change_the_answer_is_accepted(client):
    options = {
        "num_ctx": 2048, "num_batch": 512, "num_gpu": 99, "main_gpu": 0, "num_thread": 4, "numa": False, "num_keep": 4,
        "low_vram": False, "f16_kv": True, "vocab_only": False, "use_mmap": True, "use_mlock": False,
        "mirostat": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1, "typical_p": 1.0, "tfs_z": 1.0,
        "penalize_newline": True, "repeat_last_n": 64, "repeat_penalty": 1.0, "num_predict": 1, "draft_num_predict": 4,
    }
    more = {"options": options, "keep_alive": "10m", "truncate": True, "shift": False, "template": "", "format": ""}
    for path, body in [("/api/chat", CHAT), ("/api/generate", {**GENERATE, "suffix": "", "images": [], "context": []})]:
        answer = client._request_raw("POST", path, json={**body, **more, "stream": False})
        assert answer.status_code == 200 and "x-osprey-warning" not in answer.headers
        answer = client._request_raw("POST", path, json={**body, "options": {"num_predict": 1, "speed": 9}, "zoom": 1})
        assert answer.headers["x-osprey-warning"] == "ignored unknown fields: options.speed, zoom"
        nothing = {name: None for name in ("options", "think", "format", "tools", "keep_alive", "stream", "template")}
        answer = client._request_raw("POST", path, json={**body, **nothing, "options": {"num_predict": 1}})
        assert answer.headers["content-type"] == "application/x-ndjson"  # streams by default


def test_routes_that_are_not_there_say_why(client):
    for ask, words in [
        (lambda: client.embed(MODEL, "x"), "no embeddings"),
        (lambda: client.embeddings(MODEL, "x"), "no embeddings"),
        (lambda: client.pull("llama3"), "serves the model that it was started with"),
        (lambda: client.push("llama3"), "serves the model that it was started with"),
        (lambda: client.create("mine", from_="x"), "serves the model that it was started with"),
        (lambda: client.delete("x"), "serves the model that it was started with"),
        (lambda: client.copy("x", "y"), "serves the model that it was started with"),
        (lambda: client.show("llama3"), "model 'llama3' not found"),
        (lambda: client.chat("llama3", QUESTION), "model 'llama3' not found"),
        (lambda: list(client.generate("llama3", "x", stream=True)), "model 'llama3' not found"),
    ]:
        with pytest.raises(ollama.ResponseError) as error:
            ask()
        assert error.value.status_code == 404 and words in error.value.error


def test_a_prompt_that_is_too_long(client):
    with pytest.raises(ollama.ResponseError) as error:
        client.generate(MODEL, "x y " * 5000)
    assert error.value.status_code == 400 and "maximum context length is 4096 tokens" in error.value.error


def test_an_error_within_a_stream_is_its_last_line(start_server):
    server = start_server("--request-time-limit", "1", program=str(scripted.PROGRAM),
                          environment={"OSPREY_FAKE_STEP_MS": "100"})
    client = ollama.Client(server.url, timeout=60)
    with pytest.raises(ollama.ResponseError) as error:
        for part in client.generate(MODEL, "Hello", raw=True, stream=True):
            assert not part.done
    assert "--request-time-limit" in error.value.error


def test_keys(start_server):
    server = start_server("--api-key", "secret")
    assert ollama.Client(server.url, headers={"Authorization": "Bearer secret"}).list().models
    with pytest.raises(ollama.ResponseError) as error:
        ollama.Client(server.url).list()
    assert error.value.status_code == 401 and "API key" in error.value.error


def test_errors_before_the_handler_have_the_same_form(start_server):
    server = start_server("--max-body", "2K")
    for body, headers, status, words in [
        ("{" * 3000, {}, 413, "--max-body"),
        ("{}", {"Origin": "https://evil.example"}, 403, "evil.example"),
        ("{}", {"Host": "evil.example"}, 403, "evil.example"),
        ("{}", {"Sec-Fetch-Site": "same-origin", "Content-Type": "text/plain"}, 415, "Content-Type"),
        ("{}", {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}, 200, "load"),
        ("{}", {"Content-Type": "application/x-www-form-urlencoded"}, 200, "load"),
        ("{}", {}, 200, "load"),
    ]:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("POST", "/api/chat", body, headers)
        answer = connection.getresponse()
        said = json.load(answer)
        assert answer.status == status and words in json.dumps(said), (headers, said)
        assert status == 200 or list(said) == ["error"]


def test_probes(server):
    for path in ("/", "/api/version", "/api/tags"):
        for method in ("HEAD", "GET"):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request(method, path)
            assert connection.getresponse().status == 200


def test_show_checks_its_fields(client):
    for body, field in [({}, "model"), ({"model": 5}, "model"), ({"name": []}, "name"),
                        ({"model": MODEL, "verbose": "x"}, "verbose")]:
        with pytest.raises(ollama.ResponseError) as error:
            client._request_raw("POST", "/api/show", json=body)
        assert error.value.status_code == 400 and error.value.error.startswith(f"{field}: ")
    assert client._request_raw("POST", "/api/show", json={"name": MODEL, "verbose": True}).json()["details"]


def test_generate_has_no_messages_and_no_tools(client):
    plain = client._request_raw("POST", "/api/generate", json={**GENERATE, "stream": False, "options": {"num_predict": 1}})
    more = {"messages": [{"role": "user", "content": "something else that is longer"}], "tools": [{"type": "x"}]}
    other = client._request_raw(
        "POST", "/api/generate", json={**GENERATE, **more, "stream": False, "options": {"num_predict": 1}})
    assert other.json()["prompt_eval_count"] == plain.json()["prompt_eval_count"]
    assert other.headers["x-osprey-warning"] == "ignored unknown fields: messages, tools"


def test_a_silent_stream_gets_lines_without_text(start_server):
    """Before the first token, which takes longer than HTTP_PING_SECONDS; a line of any other form would break clients."""
    server = start_server(program=str(scripted.PROGRAM), environment={"OSPREY_FAKE_STEP_MS": "17000"})
    answers = []
    for path, body in (("/api/chat", CHAT), ("/api/generate", GENERATE)):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("POST", path, json.dumps(body))
        answers.append((connection, connection.getresponse()))
    chat, generate = (json.loads(answer.readline()) for _, answer in answers)
    assert chat == {"message": {"role": "assistant", "content": ""}, "done": False}
    assert generate == {"response": "", "done": False}
    assert ollama.ChatResponse(**chat).message.content == "" and ollama.GenerateResponse(**generate).response == ""


def test_a_conversation_continues_from_the_cache(start_server):
    """Answers that come back, with their thinking and calls, are found in the prefix cache."""
    server = start_server()
    client = ollama.Client(server.url)

    def cached():
        text = client._request_raw("GET", "/metrics").text
        return sum(float(line.split()[-1]) for line in text.splitlines()
                   if line.startswith("vllm:prefix_cache_hits_total"))

    forced = {"tools": [{"type": "function", "function": {
        "name": "get_weather", "description": "Gets the weather.",
        "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris"]}}, "required": ["city"]}}}]}
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    before = 0
    for turn in range(4):
        hits = cached()
        answer = client._request_raw("POST", "/api/chat", json={
            "messages": messages, **forced, "tool_choice": "required" if turn % 2 == 0 else "none", "stream": False,
            "options": {"num_predict": 200}}).json()
        # The reasoning before a call is left out of the prompt when the turn is over.
        assert cached() - hits >= (0.9 if turn % 2 == 1 else 0.5) * before, turn
        before = answer["prompt_eval_count"]
        messages.append(answer["message"])
        if turn % 2 == 0:
            assert [c["function"]["arguments"] for c in answer["message"]["tool_calls"]] == [{"city": "Paris"}]
            messages.append({"role": "tool", "tool_name": "get_weather", "content": "11 degrees"})
        else:
            messages.append({"role": "user", "content": "And now?"})

"""What Open WebUI sends, through its connections to Ollama and to the OpenAI API: the requests with all their fields, and
the answers as it reads them."""

import http.client
import json

import pytest

OLLAMA_TYPE = {"Content-Type": "application/json", "X-OpenWebUI-User-Name": "A B", "X-OpenWebUI-User-Id": "1"}
TITLE = "### Task:\nGenerate a concise, 3-5 word title for the conversation.\n### Output:\nJSON: {\"title\": \"...\"}"


class Asker:
    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def __call__(self, method, path, body=None):
        self.connection.request(method, path, json.dumps(body) if body is not None else None, OLLAMA_TYPE)
        answer = self.connection.getresponse()
        self.headers = answer.headers
        text = answer.read().decode()
        return answer.status, json.loads(text) if answer.headers["content-type"] == "application/json" else text


@pytest.fixture
def ask(server):
    return Asker(server)


def test_the_ollama_connection_is_verified_and_lists(ask):
    status, version = ask("GET", "/api/version")
    assert status == 200 and [int(part) for part in version["version"].split(".")] >= [0, 17, 6]
    (model,) = ask("GET", "/api/tags")[1]["models"]
    # It looks names up with a tag, and merges the models of several servers by `model`.
    assert model["model"] == model["name"] == "osprey-nano:latest" and ":" in model["model"]
    (running,) = ask("GET", "/api/ps")[1]["models"]
    assert running["name"] == model["name"] and running["expires_at"]
    for body in ({"name": model["model"]}, {"model": model["model"], "name": model["model"]}):
        assert ask("POST", "/api/show", body)[1]["details"]["family"] == "gptoss"


# As its conversion of a chat makes them: the parameters of a model's settings are in `options`.
OLLAMA_CHATS = [
    {"stream": True, "messages": [{"role": "user", "content": "Hi"}]},
    {"stream": True, "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
     "options": {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.0, "seed": 42, "num_ctx": 2048, "num_batch": 512,
                 "num_keep": 24, "num_predict": 5, "repeat_penalty": 1.1, "stop": ["\n\n", "User:"], "num_gpu": 0,
                 "num_thread": 2, "use_mmap": True, "use_mlock": False, "mirostat": 0, "mirostat_eta": 0.1,
                 "mirostat_tau": 5.0, "presence_penalty": 0.0, "frequency_penalty": 0.0},
     "keep_alive": "5m", "think": False},
    {"stream": True, "think": True, "format": {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"]},
     "messages": [{"role": "user", "content": "Hi"}], "options": {}},
    {"stream": False, "messages": [{"role": "user", "content": TITLE}], "options": {"num_predict": 30}},
    {"stream": True, "tools": [{"type": "function", "function": {
        "name": "get_weather", "description": "Gets the weather.", "parameters": {
            "type": "object", "properties": {"city": {"type": "string", "description": "the city"}}, "required": ["city"]}}}],
     "messages": [
         {"role": "user", "content": "What is the weather in Paris?"},
         {"role": "assistant", "content": "", "tool_calls": [
             {"index": 0, "id": "call_1", "function": {"name": "get_weather", "arguments": {"city": "Paris"}}}]},
         {"role": "tool", "content": "11 degrees", "tool_call_id": "call_1"}]},
]  # fmt: skip


@pytest.mark.parametrize("body", OLLAMA_CHATS)
def test_chats_of_the_ollama_connection(ask, body):
    body = {"model": "osprey-nano:latest", **body, "options": {"num_predict": 60, **body.get("options", {})}}
    status, answer = ask("POST", "/api/chat", body)
    assert status == 200 and "x-osprey-warning" not in ask.headers, answer
    if not body["stream"]:
        assert answer["done"] and isinstance(answer["message"]["content"], str)
        return
    assert ask.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.splitlines()]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    # The members that its conversion of a stream reads.
    for line in lines:
        assert line["model"] == "osprey-nano:latest" and isinstance(line["message"]["content"], str)
        for call in line["message"].get("tool_calls", []):
            assert isinstance(call["function"]["arguments"], dict) and call["id"]
    usage = lines[-1]
    assert usage["eval_count"] * 1e9 / (usage["eval_duration"] or 1) > 0 and usage["prompt_eval_count"] > 0
    assert usage["total_duration"] >= usage["eval_duration"] and usage["load_duration"] >= 0


def test_a_generation_of_the_ollama_connection(ask):
    body = {"model": "osprey-nano:latest", "prompt": "Hi", "stream": True, "options": {"num_predict": 4}}
    lines = [json.loads(line) for line in ask("POST", "/api/generate", body)[1].splitlines()]
    assert lines[-1]["done"] and lines[-1]["eval_count"] == 4 and all("response" in line for line in lines)


def test_errors_of_the_ollama_connection_are_texts(ask):
    for method, path, body, status in [
        ("POST", "/api/chat", {"model": "llama3:latest", "messages": [{"role": "user", "content": "x"}]}, 404),
        ("POST", "/api/pull", {"name": "llama3"}, 404), ("DELETE", "/api/delete", {"name": "x"}, 404),
        ("POST", "/api/embed", {"model": "osprey-nano:latest", "input": ["x"]}, 404), ("GET", "/api/nothing", None, 404),
        ("POST", "/api/chat", {"messages": "x"}, 400), ("GET", "/api/chat", None, 405),
    ]:  # fmt: skip
        got, answer = ask(method, path, body)
        assert got == status and set(answer) == {"error"} and isinstance(answer["error"], str), (path, answer)


def test_the_openai_connection(ask):
    for path in ("/v1/models", "/models"):
        status, models = ask("GET", path)
        assert status == 200 and models["object"] == "list" and models["data"][0]["id"] == "osprey-nano"
    chat = {"model": "osprey-nano", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    for more in (
        {}, {"stream_options": {"include_usage": True}}, {"temperature": 0.7, "top_p": 0.9, "min_p": 0.0, "seed": 1},
        {"frequency_penalty": 0.1, "presence_penalty": 0.1, "logit_bias": {"5": -100}, "stop": ["END"]},
        {"reasoning_effort": "low", "max_completion_tokens": 9}, {"max_tokens": 9, "response_format": {"type": "text"}},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
         "tool_choice": "auto"},
    ):  # fmt: skip
        for path in ("/v1/chat/completions", "/chat/completions"):
            status, text = ask("POST", path, {"max_tokens": 20, **chat, **more})
            assert status == 200 and text.endswith("data: [DONE]\n\n") and "x-osprey-warning" not in ask.headers, text
            chunks = [json.loads(e.removeprefix("data: ")) for e in text.split("\n\n")[:-2]]
            assert ("usage" in chunks[-1] and not chunks[-1]["choices"]) == ("stream_options" in more)
    status, answer = ask("POST", "/v1/chat/completions", {**chat, "stream": False, "messages": [
        {"role": "user", "content": TITLE}], "max_completion_tokens": 30})
    assert status == 200 and isinstance(answer["choices"][0]["message"]["content"], str)
    image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]
    status, answer = ask("POST", "/v1/chat/completions", {**chat, "messages": [{"role": "user", "content": image}]})
    assert status == 400 and "text only" in answer["error"]["message"]

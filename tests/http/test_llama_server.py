"""llama-server's own API, and what llama.cpp's web page sends: properties, slots, native completions, templates."""

import http.client
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import scripted

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


class Asker:
    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def __call__(self, method, path, body=None, **headers):
        data = json.dumps(body) if body is not None else None
        self.connection.request(method, path, data, headers)
        answer = self.connection.getresponse()
        self.headers = answer.headers
        text = answer.read().decode()
        return answer.status, json.loads(text) if answer.headers["content-type"] == "application/json" else text

    def complete(self, prompt, path="/completion", **fields):
        status, answer = self("POST", path, {"prompt": prompt, "n_predict": 4, **fields})
        assert status == 200, answer
        return answer


def events(text):
    pieces = text.split("\n\n")
    assert pieces.pop() == "" and all(piece.startswith("data: ") for piece in pieces)
    return [json.loads(piece.removeprefix("data: ")) for piece in pieces]


@pytest.fixture
def ask(server):
    return Asker(server)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    running = scripted.ScriptedServer(tmp_path_factory.mktemp("llama"))
    yield running
    assert running.stop() == 0, running.log


def test_props(ask):
    for path in ("/props", "/props?autoload=false", "/props?model=osprey-nano&autoload=false"):
        status, props = ask("GET", path)
        assert status == 200
    settings = props["default_generation_settings"]
    assert settings["n_ctx"] == 4096 and props["total_slots"] == 8 and props["role"] == "model"
    assert props["model_path"] == props["model_alias"] == "osprey-nano" and "/" not in props["model_path"]
    assert props["modalities"] == {"vision": False, "audio": False, "video": False}
    assert props["build_info"].startswith("osprey ") and props["chat_template"] == ""
    # What it reports can be sent back, as the web page does.
    sent = {k: v for k, v in settings["params"].items() if k not in ("stream", "n_predict", "max_tokens")}
    assert ask.complete("Hello", **sent)["tokens_predicted"] == 4
    assert "x-osprey-warning" not in ask.headers
    assert ask("POST", "/props", {})[0] == 405


def test_the_defaults_of_the_server_are_in_the_props(start_server):
    ask = Asker(start_server("--temp", "0.25", "--top-k", "7", "--max-num-seqs", "3"))
    props = ask("GET", "/props")[1]
    assert props["default_generation_settings"]["params"]["temperature"] == 0.25
    assert props["default_generation_settings"]["params"]["top_k"] == 7 and props["total_slots"] == 3
    assert ask.complete("Hello")["generation_settings"]["top_k"] == 7


def test_slots(start_server):
    """A slot for each request that runs; the others are free."""
    server = start_server("--max-num-seqs", "2", program=str(scripted.PROGRAM),
                          environment={"OSPREY_FAKE_STEP_MS": "50"})
    ask = Asker(server)
    idle = ask("GET", "/slots")[1]
    assert [slot["id"] for slot in idle] == [0, 1] and not any(slot["is_processing"] for slot in idle)
    streams = []
    for n in (1, 2):
        status = ask("GET", "/slots?fail_on_no_slot=1")[0]
        assert status == 200
        streams.append(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60))
        streams[-1].request("POST", "/completion", json.dumps(
            {"prompt": "Hello", "n_predict": 3000, "stream": True, "ignore_eos": True}))
        answer = streams[-1].getresponse()
        assert json.loads(answer.readline().decode().removeprefix("data: "))["stop"] is False
        slots = ask("GET", "/slots")[1]
        busy = [slot for slot in slots if slot["is_processing"]]
        assert len(busy) == n and len(slots) == 2
        for slot in busy:
            left = slot["next_token"]
            assert slot["n_prompt_tokens"] == 1 or slot["n_prompt_tokens"] > 0
            assert left["n_decoded"] >= 1 and left["n_remain"] + left["n_decoded"] == 3000
    status, answer = ask("GET", "/slots?fail_on_no_slot=1")
    assert status == 503 and "all 2 slots" in answer["error"]["message"]
    for stream in streams:
        stream.close()
    server.wait_idle()
    assert not any(slot["is_processing"] for slot in ask("GET", "/slots")[1])


def test_a_completion(ask):
    answer = ask.complete("Once upon a time", temperature=0)
    assert answer["stop"] is True and answer["stop_type"] == "limit" and answer["stopping_word"] == ""
    assert answer["tokens_predicted"] == 4 and answer["prompt"] == "Once upon a time" and answer["tokens"] == []
    assert answer["model"] == "osprey-nano" and answer["index"] == 0 and answer["truncated"] is False
    assert answer["timings"]["predicted_n"] == 4 and answer["tokens_evaluated"] == answer["timings"]["prompt_n"] + \
        answer["tokens_cached"]
    settings = answer["generation_settings"]
    assert (settings["temperature"], settings["n_predict"], settings["stream"]) == (0, 4, False)
    openai = ask("POST", "/v1/completions", {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0},
                 **{"Content-Type": "application/json"})[1]
    assert openai["choices"][0]["text"] == answer["content"]
    tokens = ask.complete("Once upon a time", temperature=0, return_tokens=True)["tokens"]
    assert len(tokens) == 4
    assert ask("POST", "/detokenize", {"tokens": tokens}, **{"Content-Type": "application/json"})[1]["content"] == \
        answer["content"]


def test_a_stream(ask):
    whole = ask.complete("Once upon a time", temperature=0, return_tokens=True)
    text = ask.complete("Once upon a time", temperature=0, stream=True, return_progress=True, timings_per_token=True)
    assert ask.headers["content-type"].startswith("text/event-stream")
    *parts, last = events(text)
    assert "".join(p["content"] for p in parts) + last["content"] == whole["content"]
    assert [t for p in [*parts, last] for t in p["tokens"]] == whole["tokens"]
    assert not any(p["stop"] for p in parts) and last["stop"] and last["stop_type"] == "limit"
    progress = parts[0]["prompt_progress"]
    assert progress["total"] == progress["processed"] == whole["tokens_evaluated"] and progress["cache"] >= 0
    assert not any("prompt_progress" in p for p in parts[1:]) and all("timings" in p for p in [*parts, last])
    bare = events(ask.complete("Once upon a time", stream=True))
    assert not any("timings" in p or "prompt_progress" in p for p in bare[:-1]) and "timings" in bare[-1]
    assert all(p["tokens_predicted"] <= 4 for p in bare)


def test_why_it_stopped(written):
    ask = Asker(written)
    for text, fields, wanted in [
        ("It is Paris.<|return|>", {}, ("eos", "", "It is Paris.")),
        ("It is Paris.<|return|>", {"stop": ["Par", "x"]}, ("word", "Par", "It is ")),
        ("It\nis", {"n_predict": 2}, ("limit", "", None)),
    ]:
        for stream in (False, True):
            written.write(written.ids_of(text))
            answer = ask.complete("Hello", **{"n_predict": -1, "stream": stream, **fields})
            parts = events(answer) if stream else [answer]
            assert (parts[-1]["stop_type"], parts[-1]["stopping_word"]) == wanted[:2]
            content = "".join(p["content"] for p in parts)
            assert wanted[2] is None or content == wanted[2]
            assert parts[-1]["has_new_line"] == ("\n" in content)


def test_prompts(ask):
    json_type = {"Content-Type": "application/json"}
    ids = ask("POST", "/tokenize", {"prompt": "Once upon a time"}, **json_type)[1]["tokens"]
    half = ask("POST", "/detokenize", {"tokens": ids[2:]}, **json_type)[1]["content"]
    same = ["Once upon a time", ids, [*ids[:2], half], {"prompt_string": "Once upon a time"},
            {"prompt_string": "Once upon a time", "multimodal_data": []}]
    wanted = ask.complete(same[0], temperature=0)["content"]
    for prompt in same[1:]:
        assert ask.complete(prompt, temperature=0)["content"] == wanted, prompt
    answers = ask.complete(same, temperature=0)
    assert [a["content"] for a in answers] == [wanted] * len(same)
    assert [a["index"] for a in answers] == list(range(len(same)))
    assert ask.complete(["Once upon a time"], temperature=0)["content"] == wanted  # one: no list
    special = ask.complete("<|start|>", n_predict=0)
    assert special["tokens_evaluated"] == 1 and special["tokens_predicted"] == 0 and special["content"] == ""
    parts = events(ask.complete(["a", "b"], stream=True, n_cmpl=2))
    assert sorted(p["index"] for p in parts if p["stop"]) == [0, 1, 2, 3]


def test_probabilities(ask):
    answer = ask.complete("Hello", n_probs=3)
    assert len(answer["completion_probabilities"]) == 4
    for entry in answer["completion_probabilities"]:
        assert entry["logprob"] <= 0 and len(entry["top_logprobs"]) == 3
        assert bytes(entry["bytes"]).decode(errors="replace") == entry["token"] and entry["id"] >= 0
        assert entry["top_logprobs"][0]["logprob"] >= entry["top_logprobs"][2]["logprob"]
    parts = events(ask.complete("Hello", n_probs=1, stream=True))
    assert sum(len(p["completion_probabilities"]) for p in parts) == 4
    assert "completion_probabilities" not in ask.complete("Hello", n_probs=0)


def test_biases(ask):
    (wanted,) = ask("POST", "/tokenize", {"prompt": "7"}, **{"Content-Type": "application/json"})[1]["tokens"]
    for biases in ([[wanted, 100]], {str(wanted): 100}, [[wanted, 100], [wanted + 1, False]]):
        assert ask.complete("Hello", logit_bias=biases)["content"] == "7777", biases
    assert "7" not in ask.complete("7 7 7 7 7", logit_bias=[[wanted, False]])["content"]


def test_formats(ask):
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    for fields in ({"json_schema": schema}, {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}):
        assert json.loads(ask.complete("Some JSON:", n_predict=200, **fields)["content"])["n"] in (1, 2)


REFUSED = [
    ({"grammar": 'root ::= "x"'}, "grammar"), ({"prompt": []}, "prompt"), ({"prompt": ""}, "prompt"),
    ({"prompt": {"prompt_string": "x", "multimodal_data": ["aGk="]}}, "prompt.multimodal_data"),
    ({"prompt": ["x", {"text": "x"}]}, "prompt[1].prompt_string"), ({"prompt": [1, None]}, "prompt"),
    ({"prompt": [[1], [99999999]]}, "prompt[1]"), ({"prompt": [-1]}, "prompt"), ({"prompt": ["x"] * 65}, "prompt"),
    ({"prompt": 5}, "prompt"), ({"prompt": None}, "prompt"), ({"n_predict": -2}, "n_predict"), ({"n_probs": 21}, "n_probs"),
    ({"mirostat": 2}, "mirostat"), ({"typical_p": 0.9}, "typical_p"), ({"dynatemp_range": 0.5}, "dynatemp_range"),
    ({"xtc_probability": 0.1}, "xtc_probability"), ({"dry_multiplier": 0.8}, "dry_multiplier"),
    ({"top_n_sigma": 1}, "top_n_sigma"), ({"min_keep": 2}, "min_keep"), ({"n_indent": 4}, "n_indent"),
    ({"t_max_predict_ms": 500}, "t_max_predict_ms"), ({"samplers": ["top_k"]}, "samplers"),
    ({"samplers": ["top_k", "temperature", "penalties", "top_p", "min_p"]}, "samplers"),
    ({"repeat_penalty": 1.1, "repeat_last_n": 64}, "repeat_last_n"), ({"lora": [{"id": 0, "scale": 1}]}, "lora"),
    ({"response_fields": ["content"]}, "response_fields"), ({"post_sampling_probs": True}, "post_sampling_probs"),
    ({"logit_bias": [["Hello", 1]]}, "logit_bias"), ({"logit_bias": [[5]]}, "logit_bias"),
    ({"logit_bias": [[5, 101]]}, "logit_bias"), ({"n_cmpl": 17}, "n_cmpl"),
    ({"prompt": ["x"] * 64, "n_cmpl": 3}, "n_cmpl"), ({"model": "gpt-9"}, "model"),
]  # fmt: skip


@pytest.mark.parametrize("fields, name", REFUSED, ids=[name for _, name in REFUSED])
def test_what_cannot_be_honoured_is_refused_by_name(ask, fields, name):
    for path in ("/completion", "/completions"):
        status, answer = ask("POST", path, {"prompt": "x", "n_predict": 1, **fields})
        assert status == (404 if name == "model" else 400) and answer["error"]["param"] == name, answer


def test_completions_without_the_prefix_are_native_or_openai_by_their_body(ask):
    json_type = {"Content-Type": "application/json"}
    for body, is_native in [
        ({"prompt": "x", "n_predict": 1}, True), ({"prompt": "x", "max_tokens": 1}, True),
        ({"model": "osprey-nano", "prompt": "x", "n_predict": 1}, True),
        ({"model": "osprey-nano", "prompt": "x", "max_tokens": 1}, False), ({"model": "osprey-nano", "prompt": "x"}, False),
    ]:  # fmt: skip
        answer = ask("POST", "/completions", body, **json_type)[1]
        assert ("content" in answer) == is_native and ("choices" in answer) != is_native, body
    streamed = ask("POST", "/completions", {"model": "osprey-nano", "prompt": "x", "stream": True}, **json_type)[1]
    assert streamed.endswith("data: [DONE]\n\n")
    assert ask("POST", "/completions", [], **json_type)[0] == 400


def test_a_template_is_what_a_chat_computes(ask):
    json_type = {"Content-Type": "application/json"}
    chat = {"messages": QUESTION, "reasoning_effort": "low",
            "tools": [{"type": "function", "function": {"name": "f", "description": "d"}}]}
    prompt = ask("POST", "/apply-template", chat)[1]["prompt"]
    assert prompt.endswith("<|start|>assistant") and "Reasoning: low" in prompt and "type f = " in prompt
    wanted = ask("POST", "/tokenize", chat, **json_type)[1]["tokens"]
    assert ask("POST", "/tokenize", {"prompt": prompt, "parse_special": True}, **json_type)[1]["tokens"] == wanted
    assert ask.complete(prompt, n_predict=0)["tokens_evaluated"] == len(wanted)
    status, answer = ask("POST", "/apply-template", {"messages": [{"role": "user"}]})
    assert status == 400 and answer["error"]["param"] == "messages[0].content"


# ---- llama.cpp's web page: the fields that its services send ----

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "stream": True, "return_progress": True,
        "reasoning_format": "auto", "chat_template_kwargs": {}, "reasoning_control": True}
SAMPLING = {
    "temperature": 0.8, "max_tokens": -1, "dynatemp_range": 0, "dynatemp_exponent": 1, "top_k": 40, "top_p": 0.95,
    "min_p": 0.05, "xtc_probability": 0, "xtc_threshold": 0.1, "typ_p": 1, "repeat_last_n": 64, "repeat_penalty": 1,
    "presence_penalty": 0, "frequency_penalty": 0, "dry_multiplier": 0, "dry_base": 1.75, "dry_allowed_length": 2,
    "dry_penalty_last_n": -1, "backend_sampling": False, "timings_per_token": True,
}  # fmt: skip
PAGE_TYPE = {"Content-Type": "application/json"}


def chunks(text):
    *events, done = text.strip().split("\n\n")
    assert done == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


def test_the_page_chats(ask):
    for more in ({}, {"model": "osprey-nano"}, {**SAMPLING, "max_tokens": 5}, {**SAMPLING, "samplers": [
            "penalties", "temperature", "top_k", "top_p", "min_p"]},
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]},
            {"chat_template_kwargs": {"enable_thinking": False}}):
        body = {**CHAT, "max_tokens": 40, **more}
        status, text = ask("POST", "/v1/chat/completions", body, **PAGE_TYPE)
        assert status == 200 and "x-osprey-warning" not in ask.headers, (more, text, ask.headers)
        first, *rest = chunks(text)
        assert first["prompt_progress"]["total"] > 50 and first["prompt_progress"]["processed"] > 50
        assert not any("prompt_progress" in chunk for chunk in rest)
        assert rest[-1]["timings"]["predicted_n"] <= 4096


def test_the_page_sets_the_effort(ask):
    for budget, effort in [(None, "medium"), (-1, "medium"), (0, "low"), (512, "low"), (2048, "medium"), (8192, "high")]:
        body = {**CHAT, "max_tokens": 1, "thinking_budget_tokens": budget,
                "chat_template_kwargs": {"enable_thinking": True}}
        assert ask("POST", "/v1/chat/completions", body, **PAGE_TYPE)[0] == 200
        assert ask.headers["x-osprey-reasoning-effort"] == effort, budget
    for more in ({"reasoning_effort": "high"}, {"reasoning": {"effort": "high"}},
                 {"chat_template_kwargs": {"reasoning_effort": "high"}}):
        body = {**CHAT, "max_tokens": 1, "thinking_budget_tokens": 10, **more}
        assert ask("POST", "/v1/chat/completions", body, **PAGE_TYPE)[0] == 200
        assert ask.headers["x-osprey-reasoning-effort"] == "high", more


def test_the_page_computes_a_prompt_ahead(ask):
    text = "A conversation that is computed before it is continued."
    ahead = {"messages": [{"role": "user", "content": text}], "stream": False, "n_predict": 0}
    status, answer = ask("POST", "/v1/chat/completions", ahead, **PAGE_TYPE)
    assert status == 200 and answer["usage"]["completion_tokens"] == 0
    status, answer = ask("POST", "/v1/chat/completions", {**ahead, "n_predict": 1}, **PAGE_TYPE)
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] >= answer["usage"]["prompt_tokens"] - 1


def test_the_page_continues_text(ask):
    body = {"prompt": "Once upon", "stream": True, "cache_prompt": True, "return_progress": True, **SAMPLING,
            "max_tokens": 3, "typical_p": 1}
    body.pop("typ_p")
    status, text = ask("POST", "/completion", body, **PAGE_TYPE)
    parts = events(text)
    assert status == 200 and parts[-1]["stop"] and parts[0]["prompt_progress"] and parts[-1]["timings"]["predicted_n"] == 3


def test_the_page_is_refused_by_name(ask):
    for more, name in [
        ({"continue_final_message": True, "add_generation_prompt": False}, "continue_final_message"),
        ({"add_generation_prompt": False}, "add_generation_prompt"), ({"reasoning_format": "none"}, "reasoning_format"),
        ({"xtc_probability": 0.5}, "xtc_probability"), ({"samplers": ["temperature"]}, "samplers"),
        ({"typ_p": 0.5}, "typ_p"), ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": -2}, "max_tokens"),
    ]:  # fmt: skip
        status, answer = ask("POST", "/v1/chat/completions", {**CHAT, **more}, **PAGE_TYPE)
        assert status == 400 and answer["error"]["param"] == name, answer


def test_other_calls_of_the_page(ask):
    assert ask("GET", "/v1/models")[0] == 200 and ask("GET", "/slots?model=osprey-nano")[0] == 200
    for method, path in [("POST", "/v1/chat/completions/control"), ("DELETE", "/v1/stream/x"), ("GET", "/tools"),
                         ("GET", "/v1/streams/lookup"), ("POST", "/models/load"), ("POST", "/models/unload")]:
        status, answer = ask(method, path, {} if method == "POST" else None)
        assert status == 404 and answer["error"]["code"] == "not_supported", path


def test_keys(start_server):
    server = start_server("--api-key", "secret")
    ask = Asker(server)
    for method, path in [("GET", "/props"), ("GET", "/slots"), ("POST", "/completion"), ("POST", "/apply-template")]:
        assert ask(method, path, {} if method == "POST" else None)[0] == 401, path
        ask = Asker(server)
    for path in ("/health", "/v1/health", "/ping"):
        assert ask("GET", path)[0] == 200

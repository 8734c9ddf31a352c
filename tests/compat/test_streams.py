"""The openai client's accumulators of streams against whole answers: random requests with tools, bounded schemas,
log-probabilities, several choices, stop strings, limits and efforts, at temperature 1 with a seed, asked both ways.
What the client has put together from the chunks must be the whole answer. COMPAT_STREAMS (400) sets how many."""

import collections
import json
import os
import random

import openai
import pytest

N_REQUESTS = int(os.environ.get("COMPAT_STREAMS", 400))
SEED = 27
WEATHER = "What is the weather in Oslo?"
PROMPTS = ["What is the capital of France?", "What is 17 + 25?", WEATHER, "Copy this exactly: a b c d",
           "Say something in Japanese: 日本 😀", "Describe a person."]
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Gets the weather of a city.",
                                         "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                                                        "required": ["city"]}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": {
    "type": "object", "required": ["name", "age"], "additionalProperties": False,
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 130}}}}}


def random_request(r):
    out = {"model": "osprey-nano", "messages": [{"role": "user", "content": r.choice(PROMPTS)}], "temperature": 1,
           "seed": r.randrange(1 << 31), "max_tokens": r.choice([1, 5, 20, 200, 200, 200])}
    if r.random() < 0.4:
        out["tools"] = [TOOL]
        out["messages"][0]["content"] = r.choice([WEATHER, WEATHER, *PROMPTS])
    elif r.random() < 0.3:
        out["response_format"] = SCHEMA
    if r.random() < 0.4:
        out |= {"logprobs": True, "top_logprobs": r.choice([0, 3])}
    if r.random() < 0.4:
        out["n"] = r.choice([2, 3])
    if r.random() < 0.3:
        out["stop"] = r.choice([["is"], ["a", "Par"], ["\n", "42"], [" "]])
    if r.random() < 0.3:
        out["reasoning_effort"] = r.choice(["low", "high"])
    return out


def told(completion):
    """All of an answer but its id, its time and how much of the prompt was found in the cache."""
    out = completion.to_dict()
    choices = []
    for choice in sorted(out["choices"], key=lambda c: c["index"]):
        message = choice["message"]
        calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []]
        scores = (choice.get("logprobs") or {}).get("content") or None
        choices.append({"content": message.get("content") or None, "calls": calls, "finish": choice["finish_reason"],
                        "reasoning": message.get("reasoning") or None, "logprobs": scores,
                        "reasoning_content": message.get("reasoning_content") or None})
    usage = {k: out["usage"][k] for k in ("prompt_tokens", "completion_tokens", "total_tokens", "completion_tokens_details")}
    return choices, usage


def streamed(client, request):
    """As the client's own helper puts it together."""
    state = openai.lib.streaming.chat.ChatCompletionStreamState()
    stream = client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True})
    for chunk in stream:
        state.handle_chunk(chunk)
    return state.current_completion_snapshot


@pytest.fixture(scope="module")
def client(start_server):
    return start_server().client()


def test_streams(client, record):
    r, finishes, different = random.Random(SEED), collections.Counter(), []
    for _ in range(N_REQUESTS):
        request = random_request(r)
        whole = client.chat.completions.create(**request)
        want, got = told(whole), told(streamed(client, request))
        finishes.update(choice["finish"] for choice in want[0])
        if got != want:
            different.append(f"{json.dumps(request)}\n  streamed {got}\n  whole    {want}")
    record("streams are the whole answers", requests=N_REQUESTS, choices=sum(finishes.values()), finish_reasons=dict(finishes),
           differences=len(different))
    assert not different, "\n".join(different[:5])
    assert min(finishes[kind] for kind in ("stop", "length", "tool_calls")) >= N_REQUESTS // 40

"""/v1/completions, with the official client and as raw HTTP."""

import json
import urllib.error
import urllib.request

import openai
import pytest

HARMONY = "<|start|>user<|message|>What is the capital of France?<|end|><|start|>assistant"
THOUGHT = "<|channel|>analysis<|message|>"


def request_of(server, body, path):
    return urllib.request.Request(
        f"{server.url}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )


def chunks_of(server, body, path="/v1/completions"):
    """The answer as a stream, piece by piece as it was sent."""
    with urllib.request.urlopen(request_of(server, {**body, "stream": True}, path), timeout=60) as answer:
        return [json.loads(p[6:]) for p in answer.read().decode().split("\n\n") if p.startswith("data: {")]


def post(server, body, path="/v1/completions"):
    try:
        with urllib.request.urlopen(request_of(server, body, path), timeout=60) as answer:
            return answer.status, json.load(answer), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, json.load(error), error.headers


def create(client, **arguments):
    return client.completions.create(**{"model": "osprey-nano", "temperature": 0, **arguments})


def ids_of(server, text):
    return post(server, {"prompt": text, "parse_special": True}, "/tokenize")[1]["tokens"]


def test_a_text(client):
    answer = create(client, prompt="The capital of France is")
    assert answer.object == "text_completion" and answer.id.startswith("cmpl-")
    assert answer.model == "osprey-nano" and answer.system_fingerprint.startswith("osprey-")
    choice = answer.choices[0]
    assert choice.index == 0 and choice.logprobs is None
    assert "Paris" in choice.text
    assert choice.finish_reason == "length"
    assert answer.usage.completion_tokens == 16  # as OpenAI, when nobody says
    assert answer.usage.prompt_tokens == 7
    assert answer.usage.total_tokens == 23
    assert answer.usage.prompt_tokens_details.cached_tokens is not None
    assert answer.usage.completion_tokens_details.reasoning_tokens == 0


def test_the_four_kinds_of_prompt(server, client):
    texts = [HARMONY, "The capital of France is"]
    alone = [create(client, prompt=text, max_tokens=12).choices[0].text for text in texts]
    ids = [ids_of(server, text) for text in texts]
    assert create(client, prompt=ids[0], max_tokens=12).choices[0].text == alone[0]
    for many in (texts, ids, [texts[0], ids[1]]):
        answer = create(client, prompt=many, max_tokens=12)
        assert [c.text for c in answer.choices] == alone
        assert [c.index for c in answer.choices] == [0, 1]
        assert answer.usage.prompt_tokens == len(ids[0]) + len(ids[1])
        assert answer.usage.completion_tokens == 24


def test_control_tokens_are_hidden_or_shown(client):
    shown = create(client, prompt=HARMONY, max_tokens=80, extra_body={"skip_special_tokens": False})
    assert shown.choices[0].text.startswith(THOUGHT)
    assert shown.choices[0].text.endswith("Paris")  # what ended it is not part of it
    assert shown.choices[0].finish_reason == "stop"
    hidden = create(client, prompt=HARMONY, max_tokens=80).choices[0].text
    plain = shown.choices[0].text
    for name in ("<|channel|>", "<|message|>", "<|end|>", "<|start|>"):
        plain = plain.replace(name, "")
    assert hidden == plain
    kept = create(
        client,
        prompt=HARMONY,
        max_tokens=80,
        extra_body={"skip_special_tokens": False, "include_stop_str_in_output": True},
    )
    assert kept.choices[0].text == shown.choices[0].text + "<|return|>"


def test_a_prompt_as_ordinary_text(server, client):
    plain = create(client, prompt=HARMONY, max_tokens=1, extra_body={"parse_special": False})
    assert plain.usage.prompt_tokens == post(server, {"prompt": HARMONY}, "/tokenize")[1]["count"]
    assert plain.usage.prompt_tokens > len(ids_of(server, HARMONY))


def test_echo(server, client):
    whole = create(client, prompt=HARMONY, max_tokens=5)
    echoed = create(client, prompt=HARMONY, max_tokens=5, echo=True)
    assert echoed.choices[0].text == HARMONY + whole.choices[0].text
    from_ids = create(client, prompt=ids_of(server, "Hé ☃"), max_tokens=5, echo=True)
    assert from_ids.choices[0].text.startswith("Hé ☃")
    pieces = [c.choices[0].text for c in create(client, prompt=HARMONY, max_tokens=5, echo=True, stream=True)]
    assert "".join(pieces) == echoed.choices[0].text and len(pieces) > 2


@pytest.mark.parametrize("text", [HARMONY, "Copy this: é ☃ 日本 🎉 é ☃ 日本 🎉\nCopy: é ☃"])
def test_logprobs_are_lists_side_by_side(client, text):
    answer = create(client, prompt=text, max_tokens=12, logprobs=3, extra_body={"skip_special_tokens": False})
    choice = answer.choices[0]
    scores = choice.logprobs
    n = len(scores.tokens)
    assert n == len(scores.token_logprobs) == len(scores.top_logprobs) == len(scores.text_offset)
    assert n == 12
    for token, score, tops, offset in zip(
        scores.tokens, scores.token_logprobs, scores.top_logprobs, scores.text_offset
    ):
        assert score <= 0 and 3 <= len(tops) <= 4
        assert tops[token] == score == max(tops.values())  # greedy
        if not token.startswith("bytes:"):
            assert choice.text[offset : offset + len(token)] == token


def test_logprobs_zero_tells_the_drawn_token(client):
    scores = create(client, prompt="Hello", max_tokens=4, logprobs=0).choices[0].logprobs
    assert [list(t) for t in scores.top_logprobs] == [[t] for t in scores.tokens]


# ---- log-probabilities of prompts ----

ODD = "Copy: é ☃ 日本 🎉\n<|start|>user<|message|>Hi there, hi there."


def scores_of(answer, index=0):
    """The lists side by side as one."""
    lp = answer.choices[index].logprobs
    assert len(lp.tokens) == len(lp.token_logprobs) == len(lp.top_logprobs) == len(lp.text_offset)
    return list(zip(lp.tokens, lp.token_logprobs, lp.top_logprobs, lp.text_offset))


@pytest.mark.parametrize("max_tokens", [0, 1, 5])
@pytest.mark.parametrize("text", [HARMONY, ODD, "Hello"])
def test_echo_with_logprobs(server, client, text, max_tokens):
    ids = ids_of(server, text)
    answer = create(
        client, prompt=text, max_tokens=max_tokens, logprobs=2, echo=True, extra_body={"skip_special_tokens": False}
    )
    choice, scores = answer.choices[0], scores_of(answer)
    assert choice.text.startswith(text) and choice.finish_reason == "length"
    assert len(scores) == len(ids) + max_tokens
    assert answer.usage.prompt_tokens == len(ids) and answer.usage.completion_tokens == max_tokens
    assert scores[0][1] is None and scores[0][2] is None and scores[0][3] == 0
    offsets = [s[3] for s in scores]
    assert offsets == sorted(offsets)
    for token, score, tops, offset in scores[1:]:
        assert score <= 0 and 2 <= len(tops) <= 3 and tops[token] == score
    for token, _, _, offset in scores:
        if not token.startswith("bytes:"):
            assert choice.text[offset : offset + len(token)] == token
    plain = "".join(s[0] for s in scores[: len(ids)] if not s[0].startswith("bytes:"))
    assert text == plain if "bytes:" not in str(scores) else len(plain) < len(text)


@pytest.mark.parametrize("stream", [False, True])
def test_every_token_has_an_entry(server, client, stream):
    """Also one that ends the answer, and one whose text is left out, whether text follows or not."""
    said = HARMONY + THOUGHT
    shown = create(client, prompt=HARMONY, max_tokens=80, extra_body={"skip_special_tokens": False})
    ended = HARMONY + shown.choices[0].text  # its end comes next
    for prompt, max_tokens in ((HARMONY, 1), (HARMONY, 3), (HARMONY, 80), (said, 2), (ended, 1), (ended, 9)):
        n_prompt = len(ids_of(server, prompt))
        arguments = {"prompt": prompt, "max_tokens": max_tokens, "logprobs": 1, "echo": True}
        whole = create(client, **arguments)
        n = whole.usage.completion_tokens
        assert len(scores_of(whole)) == n_prompt + n, (prompt, max_tokens)
        assert scores_of(whole)[-1][1] is not None
        if prompt == ended:
            assert n == 1 and whole.choices[0].finish_reason == "stop"
            assert scores_of(whole)[-1][0] == "<|return|>" and whole.choices[0].text == ended
        if stream:
            joined = join(create(client, **arguments, stream=True))[0]
            assert joined["tokens"] == [s[0] for s in scores_of(whole)]
            assert joined["offsets"] == [s[3] for s in scores_of(whole)]


def test_as_an_evaluation_harness_asks(server, client):
    """lm-eval's way: contexts and continuations as ids, one token more, of which the last entry is."""
    pairs = [("The capital of France is", " Paris"), ("The capital of France is", " blue"),
             (HARMONY + "<|channel|>final<|message|>", "Paris"), ("a", "b c d e")]
    ids = [(ids_of(server, c), ids_of(server, t)) for c, t in pairs]
    answer = create(client, prompt=[c + t for c, t in ids], max_tokens=1, logprobs=1, echo=True, seed=1234)
    sums = []
    for (context, text), choice in zip(ids, answer.choices):
        told = choice.logprobs.token_logprobs[len(context) : -1]
        assert len(told) == len(text)
        sums.append(sum(told))
        greedy = all(max(t, key=t.get) == k for k, t in zip(choice.logprobs.tokens[len(context) : -1],
                                                           choice.logprobs.top_logprobs[len(context) : -1]))
        drawn = create(client, prompt=context, max_tokens=len(text), extra_body={"return_token_ids": True, "ignore_eos": True})
        assert greedy == (drawn.choices[0].model_dump()["token_ids"] == text)
    assert sums[0] > sums[1] and sums[2] > -1


def test_a_prompts_scores_are_what_was_told_when_it_was_drawn(server, client):
    """The same tokens, sampled one by one at temperature 0: their logprobs agree with those of the
    prompt except for the last bits, in which prefill rows and decode rows differ."""
    drawn = create(client, prompt="The capital of France is", max_tokens=24, logprobs=5, extra_body={"return_token_ids": True})
    choice = drawn.choices[0].model_dump()
    again = create(
        client, prompt=choice["prompt_token_ids"] + choice["token_ids"], max_tokens=0, logprobs=5, echo=True
    )
    scores = scores_of(again)[len(choice["prompt_token_ids"]) :]
    assert [s[0] for s in scores] == drawn.choices[0].logprobs.tokens
    for (token, score, tops, _), told in zip(scores, drawn.choices[0].logprobs.token_logprobs):
        assert score == pytest.approx(told, abs=0.05)
        assert max(tops, key=tops.get) == token  # greedy


def test_each_token_of_a_prompt_alone(server, client):
    """What the likeliest next token of a prompt's beginning gets is what the whole prompt tells at that place."""
    ids = ids_of(server, HARMONY)
    whole = scores_of(create(client, prompt=ids, max_tokens=0, logprobs=5, echo=True))
    for n in range(1, len(ids)):
        drawn = create(client, prompt=ids[:n], max_tokens=1, logprobs=5, extra_body={"ignore_eos": True, "skip_special_tokens": False})
        tops = scores_of(drawn)[0][2]
        for token, score in whole[n][2].items():
            assert token not in tops or tops[token] == score
        assert max(tops, key=tops.get) in whole[n][2]


def test_the_same_scores_whoever_else_is_there(server, client):
    ids = ids_of(server, "The quick brown fox jumps over the lazy dog. " * 30)
    alone = scores_of(create(client, prompt=ids, max_tokens=0, logprobs=3, echo=True))
    create(client, prompt=ids, max_tokens=4)  # all of it is in the cache now
    arguments = {"max_tokens": 3, "logprobs": 3, "echo": True, "n": 2, "temperature": 1, "seed": 3}
    many = create(client, prompt=[ids, ids[:70], ids[:1], ids_of(server, HARMONY)], **arguments)
    for i in range(2):
        assert scores_of(many, i)[: len(ids)] == alone
        assert scores_of(many, 2 + i)[:70] == alone[:70]
        assert scores_of(many, 4 + i)[:1] == alone[:1]
    assert many.usage.prompt_tokens_details.cached_tokens == 0
    plain = create(client, prompt=ids, max_tokens=1)
    assert plain.usage.prompt_tokens_details.cached_tokens > 0


@pytest.mark.parametrize("max_tokens", [0, 6])
def test_echo_with_logprobs_as_a_stream(client, max_tokens):
    arguments = {"prompt": [ODD, "Hello"], "max_tokens": max_tokens, "logprobs": 1, "echo": True, "n": 2, "seed": 4}
    whole = create(client, **arguments)
    joined = join(create(client, **arguments, stream=True))
    assert joined == choices_of(whole)


def test_a_prompt_that_is_no_text(server, client):
    """Half a character, from ids: it is echoed as a replacement character, which counts as one."""
    ids = ids_of(server, "a🎉b")
    half = ids[: len(ids) - 2] + ids[-1:]
    answer = create(client, prompt=half, max_tokens=2, logprobs=0, echo=True)
    choice, scores = answer.choices[0], scores_of(answer)
    assert "\ufffd" in choice.text
    for token, _, _, offset in scores:
        if not token.startswith("bytes:"):
            assert choice.text[offset : offset + len(token)] == token


def test_prompt_logprobs(server, client):
    ids = ids_of(server, HARMONY)
    told = scores_of(create(client, prompt=ids, max_tokens=0, logprobs=5, echo=True))
    for path, body in (
        ("completions", {"prompt": HARMONY, "max_tokens": 0}),
        ("completions", {"prompt": ids, "max_tokens": 2, "n": 2, "logprobs": 1, "echo": True}),
    ):
        _, answer, _ = post(server, {**body, "temperature": 0, "prompt_logprobs": 3}, f"/v1/{path}")
        for choice in answer["choices"]:
            places = choice["prompt_logprobs"]
            assert len(places) == len(ids) and places[0] is None
            for i, place in enumerate(places[1:], 1):
                own = place[str(ids[i])]
                assert own["logprob"] == told[i][1] and 3 <= len(place) <= 4
                ranks = {p["rank"]: p["logprob"] for p in place.values() if p["rank"]}
                assert sorted(ranks)[:3] == [1, 2, 3]
                assert sorted(ranks.values(), reverse=True) == [ranks[r] for r in sorted(ranks)]
        if body.get("logprobs"):  # each as many as it asked for
            assert all(1 <= len(t) <= 2 for t in answer["choices"][0]["logprobs"]["top_logprobs"][1:])
    chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3, "n": 2, "return_token_ids": True}
    _, answer, _ = post(server, {**chat, "prompt_logprobs": 0}, "/v1/chat/completions")
    places = answer["prompt_logprobs"]
    assert places[0] is None and len(places) == len(answer["prompt_token_ids"])
    for token, place in zip(answer["prompt_token_ids"][1:], places[1:]):
        assert list(place) == [str(token)] and place[str(token)]["rank"] is None
    status, answer, _ = post(server, {**chat, "prompt_logprobs": 1, "stream": True}, "/v1/chat/completions")
    assert status == 400 and answer["error"]["param"] == "prompt_logprobs"


def test_scores_of_prompts_with_a_worker(start_server, server, client):
    other = start_server("--worker", "on")
    arguments = {"prompt": HARMONY, "max_tokens": 4, "logprobs": 3, "echo": True}
    here, there = (scores_of(create(c, **arguments)) for c in (client, other.client()))
    assert here == there
    assert scores_of(create(other.client(), prompt="Hello", max_tokens=0, logprobs=1, echo=True))[0][1] is None


# ---- ends of prompts and answers ----


def test_truncated_prompts(server, client):
    ids = ids_of(server, HARMONY)
    cut = create(client, prompt=HARMONY, max_tokens=3, echo=True, extra_body={"truncate_prompt_tokens": 5})
    same = create(client, prompt=ids[-5:], max_tokens=3, echo=True)
    assert cut.choices[0].text == same.choices[0].text and cut.usage.prompt_tokens == 5
    whole = create(client, prompt=ids, max_tokens=1, extra_body={"truncate_prompt_tokens": 500})
    assert whole.usage.prompt_tokens == len(ids)
    most = create(client, prompt="word " * 6000, max_tokens=10, extra_body={"truncate_prompt_tokens": -1})
    assert most.usage.prompt_tokens == 4096 - 10


def test_stop_reason(server, client):
    prompt = "The capital of France is"
    free = create(client, prompt=prompt, max_tokens=12)
    assert free.choices[0].model_dump()["stop_reason"] is None
    paris = ids_of(server, " Paris")[0]
    body = {"prompt": prompt, "temperature": 0, "max_tokens": 30}
    for more, reason in (
        ({"stop": ["never", "aris"]}, "aris"),
        ({"stop_token_ids": [paris]}, paris),
        ({"prompt": HARMONY, "max_tokens": 80}, None),
    ):
        _, answer, _ = post(server, {**body, **more})
        assert answer["choices"][0]["finish_reason"] == "stop"
        assert answer["choices"][0]["stop_reason"] == reason
        assert chunks_of(server, {**body, **more})[-1]["choices"][0]["stop_reason"] == reason


def test_stop_reason_of_chats(server):
    body = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}
    paris = ids_of(server, "Paris")[0]
    for more, reason in (({}, None), ({"stop": "ris"}, "ris"), ({"stop_token_ids": [paris]}, paris)):
        _, answer, _ = post(server, {**body, **more}, "/v1/chat/completions")
        assert answer["choices"][0]["stop_reason"] == reason, more
        assert answer["choices"][0]["finish_reason"] == "stop"
        chunks = chunks_of(server, {**body, **more}, "/v1/chat/completions")
        assert chunks[-1]["choices"][0]["stop_reason"] == reason


def choices_of(answer):
    return {
        c.index: {
            "text": c.text,
            "tokens": c.logprobs.tokens,
            "offsets": c.logprobs.text_offset,
            "finish": c.finish_reason,
        }
        for c in answer.choices
    }


def join(chunks):
    """A stream as the whole answer's choices."""
    choices = {}
    for chunk in chunks:
        for c in chunk.choices:
            into = choices.setdefault(c.index, {"text": "", "tokens": [], "offsets": [], "finish": None})
            into["text"] += c.text
            into["finish"] = c.finish_reason or into["finish"]
            if c.logprobs:
                into["tokens"] += c.logprobs.tokens
                into["offsets"] += c.logprobs.text_offset
    return choices


def test_a_stream_is_the_whole_in_pieces(client):
    arguments = {"prompt": [HARMONY, "Hello"], "max_tokens": 12, "n": 2, "seed": 5, "logprobs": 1}
    whole = create(client, **arguments, echo=False, extra_body={"temperature": 1.5})
    chunks = list(
        create(
            client,
            **arguments,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"temperature": 1.5},
        )
    )
    assert len({c.id for c in chunks}) == 1
    assert {c.object for c in chunks} == {"text_completion"}
    joined = join(chunks)
    assert sorted(joined) == [0, 1, 2, 3] and joined == choices_of(whole)
    assert chunks[-1].choices == [] and all(c.usage is None for c in chunks[:-1])
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens


def test_seeds_go_with_the_prompt(client):
    """A prompt's answers in a list are those that it gets alone."""
    arguments = {"temperature": 2, "max_tokens": 10, "n": 2, "seed": 9}
    alone = create(client, prompt="Tell me", **arguments)
    listed = create(client, prompt=["Hello", "Tell me"], **arguments)
    assert [c.text for c in listed.choices[2:]] == [c.text for c in alone.choices]
    assert alone.choices[0].text != alone.choices[1].text


def test_stop_strings_across_tokens(client):
    free = create(client, prompt="The capital of France is", max_tokens=30).choices[0].text
    for begin in range(1, len(free) - 4, 19):
        stop = free[begin : begin + 4]
        cut = create(client, prompt="The capital of France is", max_tokens=30, stop=[stop, "never"])
        assert cut.choices[0].text == free[: free.index(stop)]
        assert cut.choices[0].finish_reason == "stop"
    kept = create(
        client,
        prompt="The capital of France is",
        max_tokens=30,
        stop=stop,
        extra_body={"include_stop_str_in_output": True},
    )
    assert kept.choices[0].text == free[: free.index(stop)] + stop


def test_stop_token_ids(server, client):
    paris = ids_of(server, " Paris")
    cut = create(
        client, prompt="The capital of France is", extra_body={"stop_token_ids": paris[:1]}
    )
    assert cut.choices[0].finish_reason == "stop" and cut.choices[0].text == ""
    kept = create(
        client,
        prompt="The capital of France is",
        extra_body={"stop_token_ids": paris[:1], "include_stop_str_in_output": True},
    )
    assert " Paris".startswith(kept.choices[0].text) and kept.choices[0].text


def test_forms(client):
    assert create(client, prompt="Yes or no?", extra_body={"choice": ["yes", "no"]}).choices[0].text in ("yes", "no")
    digits = create(client, prompt="A number:", extra_body={"regex": "[0-9]{3}-[0-9]{2}"})
    assert len(digits.choices[0].text) == 6 and digits.choices[0].text[3] == "-"
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    answer = create(
        client,
        prompt="JSON:",
        max_tokens=40,
        extra_body={"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}},
    )
    assert json.loads(answer.choices[0].text)["n"] in (1, 2)


def test_ids_come_back(server):
    body = {"prompt": ["Hello", HARMONY], "max_tokens": 4, "temperature": 0, "return_token_ids": True}
    _, whole, _ = post(server, body)
    assert [c["prompt_token_ids"] for c in whole["choices"]] == [ids_of(server, p) for p in body["prompt"]]
    assert [len(c["token_ids"]) for c in whole["choices"]] == [4, 4]
    ids, prompts = {0: [], 1: []}, {0: [], 1: []}
    for chunk in chunks_of(server, body):
        for c in chunk["choices"]:
            ids[c["index"]] += c["token_ids"]
            prompts[c["index"]] += c.get("prompt_token_ids", [])
    for c in whole["choices"]:
        assert ids[c["index"]] == c["token_ids"]
        assert prompts[c["index"]] == c["prompt_token_ids"]


def test_timings_and_usage_so_far(server, client):
    _, whole, _ = post(server, {"prompt": "Hello", "max_tokens": 6, "cache_prompt": False})
    t = whole["timings"]
    assert (t["cache_n"], t["prompt_n"], t["predicted_n"]) == (0, 1, 6)
    assert t["prompt_ms"] > 0 and t["predicted_ms"] > 0
    assert t["predicted_per_second"] == pytest.approx(6e3 / t["predicted_ms"], rel=0.01)
    for path, body in (
        ("completions", {"prompt": HARMONY}),
        ("chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
    ):
        asked = {
            **body,
            "max_tokens": 9,
            "timings_per_token": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        chunks = chunks_of(server, asked, f"/v1/{path}")
        counts = [c["usage"]["completion_tokens"] for c in chunks]
        assert counts == sorted(counts) and counts[0] < counts[-1] == 9
        assert all("timings" in c for c in chunks)
        assert len({c["usage"]["prompt_tokens"] for c in chunks}) == 1
        assert chunks[-1]["choices"] == [] and chunks[-2]["usage"] == chunks[-1]["usage"]


@pytest.mark.parametrize(
    "body, param, words",
    [
        ({}, "prompt", "missing"),
        ({"prompt": None}, "prompt", "missing"),
        ({"prompt": ""}, "prompt", "empty"),
        ({"prompt": []}, "prompt", "empty"),
        ({"prompt": {}}, "prompt", "must be"),
        ({"prompt": 5}, "prompt", "must be"),
        ({"prompt": ["a", ""]}, "prompt[1]", "empty"),
        ({"prompt": [[1], []]}, "prompt[1]", "empty"),
        ({"prompt": ["a", 1]}, "prompt[1]", "must be a string or a list of token ids"),
        ({"prompt": [1, "a"]}, "prompt", "integer"),
        ({"prompt": [1, -1]}, "prompt", "integer from 0 to 2047"),
        ({"prompt": [[2048]]}, "prompt[0]", "integer from 0 to 2047"),
        ({"prompt": [1.5]}, "prompt", "integer"),
        ({"prompt": ["a"] * 65}, "prompt", "65 prompts, at most 64"),
        ({"prompt": ["a"] * 64, "n": 3}, "n", "the limit of 128 choices in a request (16 for each prompt)"),
        ({"prompt": "a", "n": 17}, "n", "from 1 to 16"),
        ({"prompt": "a", "best_of": 2}, "best_of", "must be equal to n"),
        ({"prompt": "a", "best_of": 2, "n": 3}, "best_of", "must be equal to n, which is 3"),
        ({"prompt": "a", "suffix": "b"}, "suffix", "middle"),
        ({"prompt": "a", "logprobs": 6}, "logprobs", "from 0 to 5"),
        ({"prompt": "a", "logprobs": True}, "logprobs", "integer"),
        ({"prompt": "a", "echo": 1}, "echo", "true or false"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens", "from 1"),
        ({"prompt": "a", "max_tokens": 0, "logprobs": 1}, "max_tokens", "0 together with echo"),
        ({"prompt": "a", "max_tokens": -1, "echo": True}, "max_tokens", "from 0"),
        ({"prompt": "a", "max_tokens": 0, "min_tokens": 1, "echo": True}, "min_tokens", "at most max_tokens, which is 0"),
        ({"prompt": "a", "prompt_logprobs": 21}, "prompt_logprobs", "from 0 to 20"),
        ({"prompt": "a", "prompt_logprobs": 1, "stream": True}, "prompt_logprobs", "cannot be combined with"),
        ({"prompt": "a", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens", "1 or more"),
        ({"prompt": "a", "truncate_prompt_tokens": -2}, "truncate_prompt_tokens", "from -1"),
        ({"prompt": "a", "min_tokens": 9, "max_tokens": 5}, "min_tokens", "at most max_tokens, which is 5"),
        ({"prompt": "a", "stop": ["x"] * 17}, "stop", "at most 16"),
        ({"prompt": "a", "stop_token_ids": [2048]}, "stop_token_ids", "vocabulary"),
    ],
)
def test_what_is_refused(server, body, param, words):
    status, answer, _ = post(server, body)
    error = answer["error"]
    assert status == 400, answer
    assert error["param"] == param and words in error["message"], error
    assert error["type"] == "invalid_request_error"


def test_context_length(client):
    with pytest.raises(openai.BadRequestError) as caught:
        create(client, prompt="word " * 6000)
    assert caught.value.code == "context_length_exceeded"
    assert "4096" in caught.value.message and caught.value.message.count("0") > 1


def test_fields_of_chats_are_unknown_here(server):
    status, _, headers = post(server, {"prompt": "a", "max_tokens": 1, "messages": [], "n": 1, "best_of": 1, "suffix": ""})
    assert status == 200
    assert headers["x-osprey-warning"] == "ignored unknown fields: messages"


def test_a_wrong_model(server):
    status, answer, _ = post(server, {"prompt": "a", "model": "gpt-9"})
    assert status == 404 and answer["error"]["code"] == "model_not_found"


def test_what_cannot_fit_is_refused_at_once(server):
    """128 choices with 20 log-probabilities of each token of a prompt: more than an answer may have."""
    body = {"prompt": [[1000] * 3000] * 8, "n": 16, "max_tokens": 1, "prompt_logprobs": 20}
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request_of(server, body, "/v1/completions"), timeout=120)
    error = json.load(caught.value)["error"]
    assert (caught.value.code, error["param"], error["code"]) == (400, "prompt_logprobs", "invalid_value")
    assert "larger than 64 MiB" in error["message"]
    server.wait_idle()

"""Speculative decoding through the server: prompt lookup, the draft head of osprey-nano, predicted outputs, metrics.
Answers are the same with drafts and without."""

import json
import re
import shutil

import openai
import pytest

from conftest import ROOT, Server, run

CONFIG = '{"method": "ngram", "num_speculative_tokens": 6, "prompt_lookup_min": 2, "always": true}'
EAGLE3 = {"method": "eagle3", "num_speculative_tokens": 3, "always": True}
HEAD = ROOT / "models" / "osprey-nano-eagle3"
TEXT = "one two three one two three one two three one two three"


@pytest.fixture(scope="module")
def drafting():
    server = Server("--speculative-config", CONFIG)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def guessing():
    server = Server("--speculative-config", json.dumps({**EAGLE3, "model": str(HEAD)}))
    yield server
    server.stop()


def client_of(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none")


def ask(server, **more):
    body = {"messages": [{"role": "user", "content": f"Repeat: {TEXT}"}], "max_tokens": 60, "seed": 7, **more}
    return client_of(server).chat.completions.create(model="osprey-nano", **body)


def counter(server, name):
    text = client_of(server)._client.get(server.url + "/metrics").text
    return float(re.search(rf"^{re.escape(name)}{{[^}}]*}} (\S+)$", text, re.M)[1])


KINDS = [
    {},
    {"temperature": 1},
    {"temperature": 1.2, "top_p": 0.9, "frequency_penalty": 0.5, "presence_penalty": 0.3},
    {"temperature": 1, "n": 3},
    {"logprobs": True, "top_logprobs": 3},
    {"stop": ["three"]},
    {"logit_bias": {"1000": 5, "1001": -100}, "temperature": 0.7},
    {"response_format": {"type": "json_object"}, "temperature": 0.8},
]


@pytest.mark.parametrize("kind", KINDS)
def test_same_answers(server, drafting, kind):
    want, have = ask(server, **kind), ask(drafting, **kind)
    assert [c.model_dump() for c in want.choices] == [c.model_dump() for c in have.choices]
    assert want.usage.completion_tokens == have.usage.completion_tokens


@pytest.mark.parametrize("kind", KINDS)
def test_same_answers_with_a_draft_head(server, guessing, kind):
    want, have = ask(server, **kind), ask(guessing, **kind)
    assert [c.model_dump() for c in want.choices] == [c.model_dump() for c in have.choices]
    assert want.usage.completion_tokens == have.usage.completion_tokens


def test_draft_head_is_right(guessing):
    """What the model was trained for, asked again, so that the second prompt is found in the prefix cache; and a long
    answer over several pages of the cache."""
    names = ["vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_accepted_tokens_total"]
    before = [counter(guessing, name) for name in names]
    questions = ["What is the capital of France?", "What is 345 + 271?"] * 2
    answers = [ask(guessing, messages=[{"role": "user", "content": q}], temperature=0, max_tokens=150,
                   reasoning_effort="high").choices[0].message.content for q in questions]
    assert answers[0] == answers[2] and "Paris" in answers[0] and "616" in answers[1]
    drafts, accepted = (counter(guessing, name) - n for name, n in zip(names, before))
    assert accepted / drafts > 1.5


def test_model_draft_option(server):
    """llama-server's -md: what pays is verified, and the answer is the same."""
    other = Server("-md", str(HEAD), "--draft-max", "4")
    try:
        kinds = [{}, {"temperature": 1}]
        assert [ask(other, **k).choices[0] for k in kinds] == [ask(server, **k).choices[0] for k in kinds]
    finally:
        other.stop()


def tree_config(paths, **more):
    return json.dumps({"method": "eagle3", "always": True, "speculative_token_tree": str(paths), **more})


@pytest.fixture(scope="module")
def branching():
    paths = [(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 0, 0, 0)]
    server = Server("--speculative-config", tree_config(paths))
    yield server
    server.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_same_answers_with_trees(server, branching, kind):
    want, have = ask(server, **kind), ask(branching, **kind)
    assert [c.model_dump() for c in want.choices] == [c.model_dump() for c in have.choices]


def test_trees_are_verified(branching):
    """Ten drafts a step, of which one path of up to four is accepted."""
    names = [f"vllm:spec_decode_num_{n}_total" for n in ("drafts", "draft_tokens", "accepted_tokens")]
    before = [counter(branching, name) for name in names]
    ask(branching, messages=[{"role": "user", "content": "What is the capital of France?"}], temperature=0)
    drafts, tokens, accepted = (counter(branching, name) - n for name, n in zip(names, before))
    assert drafts > 0 and tokens / drafts > 5 and 1.5 < accepted / drafts <= 4


def copy_of_head(folder, **changes):
    shutil.copytree(HEAD, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return folder


BAD_HEADS = [
    (["--speculative-config", '{"method": "eagle3", "model": "/nowhere"}'], ["/nowhere/config.json"]),
    (["-md", "{folder}"], ["config.json", "hidden_size 352", "320"]),
    (["-md", "x", "--speculative-config", '{"method": "ngram"}'], ["--model-draft x", "method ngram"]),
    (["--speculative-config", '{"method": "ngram", "model": "x"}'], ["ngram has no model"]),
    (["--speculative-config", '{"method": "eagle3", "prompt_lookup_min": 2}'], ["prompt_lookup_min", "ngram"]),
    (["--speculative-config", '{"method": "ngram", "speculative_token_tree": "[(0,)]"}'], ["method eagle3"]),
    (["--speculative-config", '{"method": "eagle3", "speculative_token_tree": "(0"}'], ["must be a list of paths"]),
    (["--speculative-config", '{"method": "eagle3", "speculative_token_tree": "[]"}'], ["must be a list of paths"]),
    (["--speculative-config", tree_config([(0,), (1, 0)])], ["level 2 has no parent"]),
    (["--speculative-config", tree_config([(0,), (2,)])], ["rank 2", "better ranks"]),
    (["--speculative-config", tree_config([(0,), (0,)])], ["comes twice"]),
    (["--speculative-config", tree_config([(0,), (0, -1)])], ["node 1", "integer from 0 to 15"]),
    (["--speculative-config", tree_config([(i,) for i in range(17)])], ["17 nodes", "limit is 16"]),
    (["--speculative-config", tree_config([(0,), (1,)], num_speculative_tokens=3)], ["3", "2 nodes"]),
    (["--speculative-config", '{"method": "eagle3", "model": 7}'], ["model must be the folder"]),
    (["--speculative-config", '{"method": "eagle3", "quantization": "int8"}'], ["mxfp4", "none"]),
    (["--speculative-config", '{"method": "ngram", "quantization": "mxfp4"}'], ["draft head"]),
    (["--speculative-config", '{"method": "medusa"}'], ["medusa is not supported", "eagle3"]),
    (["--load-format", "dummy", "--shape", "osprey-nano", "-md", str(HEAD)], ["generated weights"]),
]


@pytest.mark.parametrize("options, words", BAD_HEADS, ids=range(len(BAD_HEADS)))
def test_bad_heads(options, words, tmp_path):
    if "{folder}" in options:
        options = ["-md", str(copy_of_head(tmp_path / "head", hidden_size=352))]
    done = run("serve", "--port", "0", *options, timeout_s=60)
    message = done.stderr
    assert done.returncode != 0 and all(word in message for word in words), message


def test_metrics(drafting):
    before = counter(drafting, "vllm:spec_decode_num_draft_tokens_total")
    ask(drafting)
    drafts = counter(drafting, "vllm:spec_decode_num_draft_tokens_total")
    accepted = counter(drafting, "vllm:spec_decode_num_accepted_tokens_total")
    assert drafts > before and 0 < accepted <= drafts
    assert counter(drafting, "vllm:spec_decode_num_drafts_total") <= drafts


@pytest.mark.parametrize("parts", [False, True])
def test_prediction(drafting, parts):
    """A prediction that is the answer, or something else; neither changes the answer."""
    want = ask(drafting)
    text = want.choices[0].message.content
    right = [{"type": "text", "text": text[:5]}, {"type": "text", "text": text[5:]}] if parts else text
    have = ask(drafting, prediction={"type": "content", "content": right})
    assert have.choices[0].model_dump() == want.choices[0].model_dump()
    wrong = ask(drafting, prediction={"type": "content", "content": "Nothing of this is said."})
    assert wrong.choices[0].model_dump() == want.choices[0].model_dump()
    details = have.usage.completion_tokens_details
    assert details.accepted_prediction_tokens > 0
    assert details.accepted_prediction_tokens <= have.usage.completion_tokens
    assert want.usage.completion_tokens_details.accepted_prediction_tokens == 0


def test_prediction_without_the_option(server):
    """Drafts are off by default, but a prediction is used if that pays; the answer is the same."""
    want = ask(server, temperature=0.5)
    have = ask(server, temperature=0.5, prediction={"type": "content", "content": want.choices[0].message.content})
    assert have.choices[0].model_dump() == want.choices[0].model_dump()


BAD = [
    ("text", "prediction: must be {"),
    ({"type": "content"}, "prediction.content: must be a string or a list of text parts"),
    ({"type": "text", "content": "x"}, "prediction: must be {"),
    ({"type": "content", "content": [{"type": "image"}]}, "prediction.content[0]: must be {"),
]


@pytest.mark.parametrize("value, message", BAD)
def test_bad_predictions(server, value, message):
    with pytest.raises(openai.BadRequestError) as error:
        ask(server, prediction=value)
    assert message in str(error.value)

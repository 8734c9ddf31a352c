"""Same seed, same tokens, whoever else is there: one request again and again among others, with and without the
prefix cache, with room for one and for many. SAME names how often (40); docs/reliability.md has a long run."""

import concurrent.futures
import os
import random
import re
import threading
import urllib.request

import pytest
from conftest import run

N_TIMES = int(os.environ.get("SAME", "40"))
TOGETHER = 8
WORDS = "the capital of France is one two three copy this exactly what river a b c".split()
ASKED = {
    "model": "osprey-nano",
    "messages": [{"role": "user", "content": "Copy this exactly: one two three four five six seven " * 6}],
    "seed": 1234,
    "temperature": 1,
    "max_tokens": 200,
    "logprobs": True,
}


def ask(client, cache=True):
    """All that the answer tells of its tokens, to the last bit."""
    answer = client.chat.completions.create(
        **ASKED, extra_body={"cache_prompt": cache, "ignore_eos": True, "return_token_ids": True}
    )
    choice = answer.choices[0]
    scores = tuple((t.token, t.logprob) for t in choice.logprobs.content) if choice.logprobs else ()
    return (tuple(choice.token_ids), choice.message.content, choice.message.reasoning, scores), answer.usage


def disturb(server, over, seed, ended):
    """Requests of many lengths, some of which are left in the middle."""
    choice = random.Random(seed)
    client = patient(server)
    while not over.is_set():
        text = " ".join(choice.choices(WORDS, k=choice.randint(1, 200)))
        stream = client.chat.completions.create(
            model="osprey-nano",
            messages=[{"role": "user", "content": text}],
            temperature=choice.choice([0, 1]),
            max_tokens=choice.randint(1, 300),
            stream=True,
        )
        n_read = choice.choice([2, 1000])
        for i, _ in enumerate(stream):
            if i >= n_read:
                break
        stream.close()
        ended.append(1)


def preemptions(server):
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as answer:
        found = re.findall(r"^vllm:num_preemptions_total(?:{.*})? (\S+)$", answer.read().decode(), re.M)
    return sum(map(float, found))


def patient(server):
    """A client that waits as long as the test does: the machine may be busy with more than this."""
    return server.client().with_options(timeout=900)


@pytest.mark.timeout(900)
def test_one_answer_of_many(start_server):
    alone = start_server("-np", "1", "--no-prefix-cache", "--no-async-scheduling")
    expected, usage = ask(alone.client())
    assert len(expected[0]) == ASKED["max_tokens"] and usage.prompt_tokens_details.cached_tokens == 0
    assert alone.stop() == 0

    # A step of few rows, so that prompts are chunked, and few pages, so that requests are preempted.
    narrow = ("-np", "10", "-b", "64", "--max-model-len", "1024")
    refused = run("serve", "--port", "0", *narrow, "--kv-cache-memory", "1M").stderr
    least = float(re.search(r"needs ([\d.]+) MB of KV cache", refused)[1])
    server = start_server(*narrow, "--kv-cache-memory", str(int((least + 0.1) * 1e6)))
    over, ended = threading.Event(), []
    with concurrent.futures.ThreadPoolExecutor(2 * TOGETHER) as pool:
        others = [pool.submit(disturb, server, over, seed, ended) for seed in range(TOGETHER)]
        try:
            found = list(
                pool.map(lambda i: ask(patient(server), cache=i % 3 != 0), range(N_TIMES))
            )
        finally:
            over.set()
        for other in others:
            other.result()
    assert {tokens for tokens, _ in found} == {expected}
    cached = [usage.prompt_tokens_details.cached_tokens for _, usage in found]
    assert all(n == 0 for n in cached[::3])
    assert max(cached) > 0
    assert len(ended) > 0
    assert preemptions(server) > 0
    server.wait_idle()
    assert server.stop() == 0
    print(f"{N_TIMES} times the same among {len(ended)} others; {sum(n > 0 for n in cached)} from the cache")


def test_salts_and_the_cache(start_server):
    client = start_server().client()

    def cached(**more):
        answer = client.chat.completions.create(**ASKED, extra_body=more)
        return answer.usage.prompt_tokens_details.cached_tokens

    assert cached(cache_prompt=False) == 0
    assert cached() == 0  # the one before left nothing
    whole = cached()
    assert whole > 50
    assert cached(cache_salt="a") == 0
    assert cached(cache_salt="a") == whole
    assert cached(cache_salt="b", priority=-3, user="someone") == 0
    assert cached(cache_prompt=False) == 0

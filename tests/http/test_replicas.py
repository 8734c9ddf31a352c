"""Two replicas behind one server (--data-parallel-size 2), as its clients see them."""

import concurrent.futures
import json
import os
import re
import shutil
import signal
import time
import urllib.request

import pytest

from conftest import run
from test_worker import Stream, children, health, start_streams, wait_until

TWO = ["--device", "cpu", "-t", "1", "--data-parallel-size", "2"]
SYSTEM = "You answer questions about the world, its countries and its cities, in one short sentence. " * 6

needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")


def metric(server, name):
    """Values by replica."""
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(rf'^{re.escape(name)}{{model_name="osprey-nano",engine="(\d+)"}} (\S+)$', text, re.M)
    assert [int(engine) for engine, _ in found] == list(range(len(found)))
    return [float(value) for _, value in found]


def complete(server, prompt, **more):
    body = {"model": "osprey-nano", "prompt": prompt, "temperature": 0, "max_tokens": 12, "logprobs": 1, **more}
    call = urllib.request.Request(
        f"{server.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(call, timeout=60) as response:
        return json.load(response)


def prompts(n):
    return [[(37 * i + 11 * k) % 1900 for k in range(40 + 50 * i)] for i in range(n)]


def answers(server, requests):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda prompt: complete(server, prompt), requests))
    return [(answer["choices"][0]["text"], answer["choices"][0]["logprobs"]) for answer in found]


def test_answers_metrics_and_drain(start_server):
    one, two = start_server("--device", "cpu", "-t", "1"), start_server(*TWO)
    requests = prompts(8)
    assert answers(two, requests) == answers(one, requests)
    done = metric(two, "osprey:requests_done_total")
    assert len(done) == 2 and sum(done) == 8 and min(done) >= 2, done
    assert metric(two, "osprey:engine_up") == [1, 1]
    assert metric(two, "vllm:num_requests_running") == [0, 0]
    assert metric(one, "osprey:engine_up") == [1]
    body = two.health()
    assert body["requests_done"] == 8
    assert [replica["engine"] for replica in body["replicas"]] == [0, 1]
    assert [replica["requests_done"] for replica in body["replicas"]] == done
    assert "replicas" not in one.health()
    # a drain lets the answers of both replicas finish
    streams = start_streams(two, 4, max_tokens=300)
    assert metric(two, "vllm:num_requests_running") == [2, 2]
    assert two.stop() == 0, two.log
    for stream in streams:
        stream.join(30)
        assert stream.error is None and stream.finish == "length"
    assert one.stop() == 0


def test_conversations_stay_with_their_replica(start_server):
    server = start_server(*TWO, "--current-date", "none")
    client = server.client()
    talks = [[{"role": "system", "content": SYSTEM + name}] for name in ("Anna", "Bert")]
    for turn, question in enumerate(["What is the capital of France?", "And of Italy?", "And of Spain?"]):
        for talk in talks:
            talk.append({"role": "user", "content": question})
            before = metric(server, "vllm:prefix_cache_hits_total")
            answer = client.chat.completions.create(model="osprey-nano", messages=talk, temperature=0, max_tokens=60)
            hits = [now - then for now, then in zip(metric(server, "vllm:prefix_cache_hits_total"), before)]
            if turn > 0:
                # all of the conversation so far but what its last page begins with
                assert answer.usage.prompt_tokens_details.cached_tokens >= answer.usage.prompt_tokens - 130
                assert max(hits) == answer.usage.prompt_tokens_details.cached_tokens and min(hits) == 0
            talk.append({"role": "assistant", "content": answer.choices[0].message.content})
    # stored responses and several choices
    first = client.responses.create(model="osprey-nano", instructions=SYSTEM, input="What is the capital of France?",
                                    max_output_tokens=60)
    second = client.responses.create(model="osprey-nano", instructions=SYSTEM, input="And of Italy?",
                                     previous_response_id=first.id, max_output_tokens=60)
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens - 130
    several = client.chat.completions.create(model="osprey-nano", messages=talks[0][:2], n=4, max_tokens=30)
    assert sorted(choice.index for choice in several.choices) == [0, 1, 2, 3]
    client.close()
    assert server.stop() == 0, server.log


def test_a_killed_replica(start_server):
    server = start_server(*TWO, "--worker-restarts", "1000")
    pids = children(server.process.pid)
    assert len(pids) == 2
    streams = start_streams(server, 4)
    began = time.monotonic()
    os.kill(pids[0], signal.SIGKILL)
    seen = set()
    while server.process.poll() is None and health(server)[1]["restarts"] == 0:
        seen.add((health(server)[0], health(server)[1]["status"]))
        assert time.monotonic() - began < 20
    wait_until(lambda: sum(stream.error is not None for stream in streams) == 2, "two streams have failed", 20)
    wait_until(lambda: health(server)[1]["status"] == "ok", "ok again", 30)
    assert all(code == 200 for code, _ in seen), seen
    alive = [stream for stream in streams if stream.error is None]
    assert len(alive) == 2 and all(stream.is_alive() for stream in alive)
    assert all("send it again" in str(stream.error) for stream in streams if stream.error is not None)
    assert health(server)[1]["restarts"] == 1
    assert sorted(replica["restarts"] for replica in health(server)[1]["replicas"]) == [0, 1]
    done = metric(server, "osprey:requests_done_total")
    answers(server, prompts(6))
    assert all(now > then for now, then in zip(metric(server, "osprey:requests_done_total"), done))
    server.stop(signal.SIGKILL)


def test_degraded(start_server):
    """One replica is down for good: the other one serves."""
    server = start_server(*TWO, "--worker-restarts", "1")
    pids = children(server.process.pid)
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: health(server)[1]["restarts"] == 1 and health(server)[1]["status"] == "ok", "ok again", 30)
    [again] = [pid for pid in children(server.process.pid) if pid not in pids]
    os.kill(again, signal.SIGKILL)
    wait_until(lambda: any(one["status"] == "dead" for one in health(server)[1]["replicas"]), "dead", 30)
    code, body = health(server)
    assert (code, body["status"]) == (200, "degraded")
    assert re.match(r"replica [01] of 2 is dead: ", body["reason"])
    assert sorted(metric(server, "osprey:engine_up")) == [0, 1]
    assert len(answers(server, prompts(4))) == 4
    assert server.stop() == 0, server.log


@needs_mpirun
def test_replicas_of_two_ranks(start_server):
    one, four = start_server("--device", "cpu", "-t", "1"), start_server(*TWO, "--tensor-parallel-size", "2")
    requests = prompts(3)
    want = answers(one, requests)
    assert answers(four, requests) == want
    assert min(metric(four, "osprey:requests_done_total")) >= 1
    with urllib.request.urlopen(f"{four.url}/metrics", timeout=10) as answer:
        steps = re.findall(r'^osprey:rank_steps_total{.*engine="(\d)",rank="(\d)"', answer.read().decode(), re.M)
    assert steps == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]
    streams = [Stream(four) for _ in range(2)]
    assert all(stream.began.wait(30) for stream in streams)
    os.kill(children(four.process.pid)[1], signal.SIGKILL)
    wait_until(lambda: sum(stream.error is not None for stream in streams) == 1, "a stream has failed", 20)
    wait_until(lambda: health(four)[1]["restarts"] == 1 and health(four)[1]["status"] == "ok", "ok again", 30)
    assert answers(four, requests) == want
    assert four.stop(timeout_s=60) == 0, four.log


def test_validate_and_refusals():
    text = run("validate", "--data-parallel-size", "2", "-c", "4096", "-np", "4").stdout
    assert re.search(r"^replicas +2, each with [\d.]+ MB; together [\d.]+ MB$", text, re.M), text
    report = json.loads(run("validate", "--data-parallel-size", "2", "--json").stdout)
    assert report["n_replicas"] == 2
    refused = run("serve", "--data-parallel-size", "2", "--tensor-parallel-size", "2", "--hosts", "a,b", "--device", "cpu")
    assert refused.returncode == 1
    assert 'data parallel size 2 and hosts "a,b" cannot be combined' in refused.stderr
    assert run("serve", "--data-parallel-size", "0").returncode == 2

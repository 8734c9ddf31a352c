"""Routers of the vLLM project in front of two osprey servers on this machine: vllm-router of PyPI, which reads KV
events, and the router of the vLLM production stack.

PRODUCTION_STACK        a checkout of https://github.com/vllm-project/production-stack; without it, its test is
                        skipped. It is not on PyPI.
PRODUCTION_STACK_PYTHON a Python with the packages of its pyproject.toml (this one)
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from conftest import ROOT
from machine import wait_until
from test_two_replicas import free_port

SYSTEM = "You answer questions about the world, its countries and its cities, in one short sentence. " * 8
BLOCK = 64


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.read().decode()


def ask(port, question, system=SYSTEM, **more):
    body = {"model": "osprey-nano", "temperature": 0, "max_tokens": 40,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}], **more}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "x-session-id": system[:8]})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode() if more.get("stream") else json.load(answer)


class Replica:
    def __init__(self):
        self.events, self.replay = free_port(), free_port()
        config = {"enable_kv_cache_events": True, "endpoint": f"tcp://*:{self.events}",
                  "replay_endpoint": f"tcp://*:{self.replay}"}
        self.process = subprocess.Popen(
            [ROOT / "build/osprey", "serve", "--port", "0", "--max-model-len", "4096", "--device", "cpu", "-t", "1", "-q",
             "--kv-events-config", json.dumps(config)], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().strip().rsplit(":", 1)[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def done(self):
        return json.loads(get(self.port, "/health"))["requests_done"]


@pytest.fixture
def replicas():
    both = [Replica(), Replica()]
    yield both
    for one in both:
        one.process.kill()
        one.process.wait()


@pytest.fixture
def start_router(tmp_path):
    """Gives a function that starts a router and waits until it answers."""
    running = []

    def start(command, port, cwd=None):
        log = open(tmp_path / "router.log", "w+")
        running.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=cwd))

        def is_up():
            assert running[-1].poll() is None, (tmp_path / "router.log").read_text()
            try:
                return bool(get(port, "/v1/models"))
            except (urllib.error.URLError, ConnectionError):
                return False

        wait_until(is_up, "the router answers", 60)
        return tmp_path / "router.log"

    yield start
    for one in running:
        one.send_signal(signal.SIGKILL)
        one.wait()


def vllm_router():
    beside = pathlib.Path(sys.executable).parent / "vllm-router"
    found = os.environ.get("VLLM_ROUTER") or (str(beside) if beside.exists() else shutil.which("vllm-router"))
    if not found:
        pytest.skip("needs vllm-router (PyPI)")
    return found


def test_kv_aware_router(replicas, start_router):
    """It learns from KV events which server has a prompt's blocks, and asks osprey's /tokenize for the prompt's ids."""
    port = free_port()
    command = [vllm_router(), "--host", "127.0.0.1", "--port", str(port), "--policy", "kv_aware", "--log-level", "debug",
               "--kv-event-block-size", str(BLOCK), "--kv-event-model", "osprey-nano", "--prometheus-port",
               str(free_port()), "--worker-urls", *[one.url for one in replicas]]
    for one in replicas:
        command += ["--kv-event-source", f"{one.url}=tcp://127.0.0.1:{one.events}",
                    "--kv-event-replay-source", f"{one.url}=tcp://127.0.0.1:{one.replay}"]
    log = start_router(command, port)
    wait_until(lambda: f"kv_index subscriber for {replicas[0].url}" in log.read_text(), "a subscription", 20)
    ask(port, "What is the capital of Italy?")
    wait_until(lambda: "live sequence advanced" in log.read_text(), "an event of its blocks", 20)
    before = [one.done() for one in replicas]
    for question in ["Of Germany?", "Of Norway?", "Of Poland?", "Of Greece?"]:
        assert ask(port, question)["usage"]["prompt_tokens_details"]["cached_tokens"] >= BLOCK
    after = [one.done() for one in replicas]
    assert sorted(now - then for now, then in zip(after, before)) == [0, 4], (before, after)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text())
    credited = [int(n) for n in re.findall(r"credited_prefix_tokens=(\d+)", plain)]
    assert credited and max(credited) >= BLOCK and all(n % BLOCK == 0 for n in credited), credited
    # a lost server: the other one answers
    replicas[after.index(max(after))].process.kill()
    wait_until(lambda: answers(port), "the other server answers", 60)


def answers(port):
    try:
        return "choices" in ask(port, "What is the capital of France?")
    except (urllib.error.HTTPError, urllib.error.URLError, ConnectionError):
        return False


@pytest.mark.parametrize("logic", ["roundrobin", "session", "prefixaware"])
def test_production_stack(replicas, start_router, logic):
    if "PRODUCTION_STACK" not in os.environ:
        pytest.skip("needs a checkout of vllm-project/production-stack (PRODUCTION_STACK)")
    port = free_port()
    python = os.environ.get("PRODUCTION_STACK_PYTHON", sys.executable)
    start_router([python, "-m", "vllm_router.app", "--host", "127.0.0.1", "--port", str(port), "--service-discovery", "static",
                  "--static-backends", ",".join(one.url for one in replicas), "--static-models", "osprey-nano,osprey-nano",
                  "--engine-stats-interval", "1", "--routing-logic", logic, "--session-key", "x-session-id"], port,
                 cwd=pathlib.Path(os.environ["PRODUCTION_STACK"]) / "src")
    assert [one["id"] for one in json.loads(get(port, "/v1/models"))["data"]] == ["osprey-nano"]
    before = [one.done() for one in replicas]
    for _ in range(6):
        assert ask(port, "What is the capital of France?")["choices"][0]["finish_reason"] in ("stop", "length")
    assert "data: [DONE]" in ask(port, "What is the capital of France?", stream=True)
    done = [one.done() - then for one, then in zip(replicas, before)]
    assert sum(done) == 7
    assert (min(done) >= 2) if logic == "roundrobin" else (min(done) == 0), done

    # what it has read of osprey's /metrics
    def read_by_router(name):
        found = re.findall(rf'^{name}\{{server="([^"]+)"\}} (\S+)$', get(port, "/metrics"), re.M)
        return {server: float(value) for server, value in found}

    for name in ["vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total"]:
        there = {one.url: float(re.search(rf"^{name}\{{.*\}} (\S+)$", get(one.port, "/metrics"), re.M)[1])
                 for one in replicas}
        assert sum(there.values()) > 0
        wait_until(lambda: read_by_router(name) == there, f"the router knows {name}", 20)
    assert set(read_by_router("vllm:num_requests_running").values()) == {0}

"""A model that is divided among processes on CPUs (tensor parallelism), as clients of the server see it.

RANK_REQUESTS, RANK_ROUNDS: how many requests are compared, and how often a rank of 2, and then of 4, is killed or
stopped (8 and 2; `make ranks` takes 200 and 100). TOLD_S: how long clients may wait for what they are promised within
a second: here much else may run on the machine, `make ranks` holds it.

On GPUs (tests/run_gpu ranks): RANK_DEVICE=cuda. Prompts are then fed as decode rows, whose bits do not depend on the
number of ranks. RANK_FAULT_S ends the rounds after so many seconds and prints how many there were.
"""

import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import pytest

from conftest import PROGRAM, run
from test_worker import TASK, children, health, is_gone, wait_until

REQUESTS = int(os.environ.get("RANK_REQUESTS", "8"))
ROUNDS = int(os.environ.get("RANK_ROUNDS", "2"))
TOLD_S = float(os.environ.get("TOLD_S", "8"))
FAULT_S = float(os.environ.get("RANK_FAULT_S", "inf"))
DEVICE = os.environ.get("RANK_DEVICE", "cpu")
NANO = ["--device", DEVICE, "-t", "1", "--served-model-name", "osprey-nano"]
if DEVICE != "cpu":  # little memory: ranks start again in less time
    NANO += ["--kv-cache-memory", "512M", "--max-num-batched-tokens", "512"]
    os.environ["OSPREY_PROMPT_ROWS"] = "decode"
EIGHT_HEADS = [*NANO, "--load-format", "dummy", "--shape", "osprey-nano-8kv"]  # for up to eight ranks

NANO_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "models" / "osprey-nano"

needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")


def ranks(n):
    return ["--tensor-parallel-size", str(n)]


# ---- the same bits ----


def mixed_requests(n):
    """Prompts of any length, greedy and sampled, with and without log-probabilities."""
    rng = random.Random(7)
    for i in range(n):
        yield {
            "model": "osprey-nano",
            "prompt": [rng.randrange(1900) for _ in range(rng.choice([1, 5, 40, 130, 300]))],
            "max_tokens": rng.choice([1, 8, 24, 60]),
            "temperature": rng.choice([0, 0, 0.7, 1.5]),
            "seed": i,
            "logprobs": rng.choice([0, 1, 5]),
            "ignore_eos": True,
            **({"top_p": 0.8} if i % 5 == 0 else {}),
            **({"presence_penalty": 0.5} if i % 7 == 0 else {}),
        }


def answer(server, request):
    call = urllib.request.Request(
        f"{server.url}/v1/completions", json.dumps(request).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(call, timeout=120) as response:
        choice = json.load(response)["choices"][0]
    return choice["text"], choice["logprobs"], choice["finish_reason"]


def answers(start_server, *options, requests=None):
    server = start_server(*options)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda request: answer(server, request), requests or mixed_requests(REQUESTS)))
    metrics = urllib.request.urlopen(f"{server.url}/metrics", timeout=10).read().decode()
    assert server.stop() == 0, server.log
    return found, metrics


@needs_mpirun
@pytest.mark.parametrize(
    "options, sizes",
    [(NANO, [2]), (EIGHT_HEADS, [2, 4])],
    ids=["nano", "8 heads"],
)
def test_answers_are_those_of_one_rank(start_server, options, sizes):
    want, _ = answers(start_server, *options)
    assert len({text for text, _, _ in want}) > REQUESTS // 2
    for n in sizes:
        found, metrics = answers(start_server, *options, *ranks(n))
        assert found == want
        steps = re.findall(r'^osprey:rank_steps_total\{.*rank="(\d+)".*\} (\d+)$', metrics, re.M)
        assert [int(rank) for rank, _ in steps] == list(range(n))
        assert all(int(count) > 0 for _, count in steps)


@needs_mpirun
def test_preempted_requests(start_server):
    """What one rank computes again, all do."""
    small = [*NANO, "--max-model-len", "384", "--max-num-seqs", "6", "--kv-cache-memory"]
    long = [
        {**request, "prompt": request["prompt"][:40], "max_tokens": 180} for request in mixed_requests(5)
    ]
    want, _ = answers(start_server, *NANO, requests=long)
    found, metrics = answers(start_server, *small, "4500K", *ranks(2), requests=long)
    assert int(re.search(r"^vllm:num_preemptions_total\{.*\} (\d+)$", metrics, re.M)[1]) > 0
    assert found == want


# ---- ranks that fail ----


def rank_processes(server):
    """Process ids by rank, from the server's log of the last start and from /proc."""
    worker = children(server.process.pid)[0]
    found = {0: worker}
    for mpirun in children(worker):
        for pid in children(mpirun):
            variables = open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
            for variable in variables:
                if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                    found[int(variable.split(b"=")[1]) + 1] = pid
    return found


class Stream(threading.Thread):
    """An answer that goes on until something ends it; without a client library, which GPU machines may lack."""

    def __init__(self, server, max_tokens=3000):
        super().__init__(daemon=True)
        self.began, self.error, self.ended_s = threading.Event(), None, None
        request = {"model": "osprey-nano", "messages": TASK, "stream": True, "temperature": 1.5, "ignore_eos": True,
                   "max_tokens": max_tokens}
        self.call = urllib.request.Request(
            f"{server.url}/v1/chat/completions", json.dumps(request).encode(), {"Content-Type": "application/json"}
        )
        self.start()

    def run(self):
        try:
            with urllib.request.urlopen(self.call, timeout=60) as events:
                for line in events:
                    if line.startswith(b"data: {"):
                        event = json.loads(line[6:])
                        self.error = self.error or event.get("error")
                        self.began.set()
        except OSError as error:
            self.error = error
        self.ended_s = time.monotonic()
        self.began.set()


def whole_tree(pid):
    found = [pid]
    for child in children(pid):
        found += whole_tree(child)
    return found


QUESTION = {"model": "osprey-nano", "prompt": list(range(5, 60)), "max_tokens": 20, "temperature": 0, "logprobs": 2}


def fail_once(server, rng, count, n_ranks):
    """One round: streams run, a rank is killed or stopped at a random moment."""
    streams = [Stream(server) for _ in range(3)]
    for stream in streams:
        assert stream.began.wait(30)
    time.sleep(rng.uniform(0, 0.05))
    pids = rank_processes(server)
    assert len(pids) == n_ranks, pids
    tree = whole_tree(pids[0])
    victim = rng.randrange(n_ranks)
    began = time.monotonic()
    os.kill(pids[victim], rng.choice([signal.SIGKILL, signal.SIGSTOP]))
    code, body = health(server)
    while code == 200 and body["restarts"] < count:
        assert time.monotonic() - began < TOLD_S, (victim, "health is still 200")
        time.sleep(0.005)
        code, body = health(server)
    if code != 200:
        assert code == 503 and f"rank {victim}" in body["reason"], (victim, body)
    for stream in streams:
        stream.join(60)
        assert stream.ended_s - began < TOLD_S, (victim, stream.ended_s - began)
        assert f"rank {victim}" in str(stream.error), (victim, stream.error)
    wait_until(lambda: health(server)[0] == 200, "200 again")
    wait_until(lambda: all(is_gone(pid) for pid in tree), f"the old ranks are gone: {tree}", 10)


@needs_mpirun
@pytest.mark.parametrize("n_ranks", [2, 4])
def test_a_rank_fails_in_mid_stream(start_server, n_ranks, tmp_path):
    shape = NANO if n_ranks == 2 else EIGHT_HEADS
    temporary = {"TMPDIR": str(tmp_path)}
    server = start_server(*shape, *ranks(n_ranks), "--worker-restarts", "1000000", environment=temporary)
    rng = random.Random(n_ranks)
    want = answer(server, QUESTION)
    files, count, began = None, 0, time.monotonic()
    while count < ROUNDS and time.monotonic() - began < FAULT_S:
        count += 1
        fail_once(server, rng, count, n_ranks)
        assert answer(server, QUESTION) == want
        now = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        files = files or now
        assert now <= files + 2
    print(f"{count} ranks of {n_ranks} were killed or stopped in {time.monotonic() - began:.0f} s")
    tree = whole_tree(server.process.pid)
    assert server.stop() == 0, server.log
    wait_until(lambda: all(is_gone(pid) for pid in tree), "all processes are gone", 10)
    assert os.listdir(tmp_path) == []


@needs_mpirun
def test_an_idle_rank_fails(start_server):
    server = start_server(*NANO, *ranks(2))
    os.kill(rank_processes(server)[1], signal.SIGKILL)
    began = time.monotonic()
    wait_until(lambda: health(server)[1]["restarts"] == 1, "a restart", TOLD_S)
    assert time.monotonic() - began < TOLD_S
    wait_until(lambda: health(server)[0] == 200, "200 again")
    answer(server, QUESTION)


class Slowed(threading.Thread):
    """A process that runs half of the time."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.is_over = pid, threading.Event()
        self.start()

    def run(self):
        while not self.is_over.wait(0.02):
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(0.08)
            os.kill(self.pid, signal.SIGCONT)


def late_seconds(server, rank):
    metrics = urllib.request.urlopen(f"{server.url}/metrics", timeout=10).read().decode()
    found = re.search(rf'^osprey:rank_late_seconds\{{.*rank="{rank}".*\}} (\S+)$', metrics, re.M)
    return float(found[1])


@needs_mpirun
def test_a_slow_rank_is_named(start_server):
    server = start_server(*NANO, *ranks(2), "--max-num-seqs", "8")
    slowed = Slowed(rank_processes(server)[1])
    streams = [Stream(server, max_tokens=2000) for _ in range(8)]
    try:
        wait_until(lambda: any(re.search(r"rank 1 \(.*is slow: .* ms", line) for line in server.log), "a warning", 60)
        wait_until(lambda: late_seconds(server, 1) > 0.01, "a metric", 60)
    finally:
        slowed.is_over.set()
        slowed.join()
    assert late_seconds(server, 0) < 0.01
    assert streams[0].error is None


# ---- starts ----


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torchrun(rank, n_ranks, port):
    """What torchrun sets."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(n_ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def start_rank(variables, *options, program=PROGRAM):
    return subprocess.Popen(
        [program, "serve", *options],
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ranks_that_something_else_starts(start_server):
    port = free_port()
    other = start_rank(torchrun(1, 2, port), *NANO, *ranks(2))
    server = start_server(*NANO, *ranks(2), environment=torchrun(0, 2, port))
    want = answer(server, QUESTION)
    os.kill(children(other.pid)[0], signal.SIGKILL)
    wait_until(lambda: health(server)[1]["restarts"] == 1, "a restart", TOLD_S)
    wait_until(lambda: health(server)[0] == 200, "200 again")
    assert answer(server, QUESTION) == want
    assert server.stop() == 0, server.log
    assert other.wait(20) == 0
    assert "started again" in other.stderr.read()


def test_memory_by_rank():
    whole = json.loads(run("validate", "--json").stdout)
    parts = json.loads(run("validate", "--json", *ranks(2)).stdout)["ranks"]
    assert [part["n_kv_heads"] for part in parts] == [1, 1]
    assert sum(part["expert_width"] for part in parts) == whole["expert_width"]
    assert sum(part["vocab_size"] for part in parts) == whole["vocab_size"]
    everywhere = whole["router_bytes"] + whole["norm_bytes"]
    names = ["embed_bytes", "attn_bytes", "router_bytes", "experts_bytes", "norm_bytes", "head_bytes"]
    assert sum(part["weight_bytes"] for part in parts) == sum(whole[name] for name in names) + everywhere
    refused = run("validate", *ranks(16))
    assert refused.returncode == 1 and "sizes that fit: 1, 2" in refused.stderr
    assert "rank 1 " in run("validate", *ranks(2)).stdout


def test_a_rank_that_ends_while_others_are_missing(start_server):
    """Rank 2 is late; meanwhile the process of rank 1 is killed, and joins again."""
    port = free_port()
    first = start_rank(torchrun(1, 4, port), *EIGHT_HEADS, *ranks(4))
    begun = []
    thread = threading.Thread(
        target=lambda: begun.append(start_server(*EIGHT_HEADS, *ranks(4), environment=torchrun(0, 4, port)))
    )
    thread.start()
    wait_until(lambda: connections(port) >= 2, "rank 1 has joined", 30)
    killed = children(first.pid)[0]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: children(first.pid) not in ([], [killed]) and connections(port) >= 2, "it has joined again", 30)
    others = [start_rank(torchrun(rank, 4, port), *EIGHT_HEADS, *ranks(4)) for rank in (2, 3)]
    thread.join(60)
    answer(begun[0], QUESTION)
    assert begun[0].stop() == 0, begun[0].log
    for one in [first, *others]:
        assert one.wait(20) == 0
        one.communicate()


def connections(port):
    """Established connections to the port, from the side that listens."""
    fields = [line.split() for line in open("/proc/net/tcp").readlines()[1:]]
    return sum(f[1].endswith(f":{port:04X}") and f[3] == "01" for f in fields)


def test_another_build_is_refused(tmp_path):
    changed = tmp_path / "osprey"
    shutil.copy(PROGRAM, changed)
    with open(changed, "ab") as file:
        file.write(b"\0")
    port = free_port()
    other = start_rank(torchrun(1, 2, port), *NANO, *ranks(2), program=str(changed))
    result = run("serve", "--port", "0", *NANO, *ranks(2), environment=torchrun(0, 2, port))
    other.kill()
    assert result.returncode == 1
    assert re.search(r"rank 1 \(.*\) runs another build of osprey than rank 0", result.stderr), result.stderr
    other.communicate()


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs a mount namespace")
def test_other_files_are_refused(tmp_path):
    """The same path on another host, with other weights: here a namespace in which it is another folder."""
    other, model = tmp_path / "other", tmp_path / "model"
    shutil.copytree(NANO_FOLDER, model)
    made = run("quantize", str(model), "--mxfp4-layers", "qkv", str(other))
    assert made.returncode == 0, made.stderr
    port = free_port()
    inside = f'mount --bind {other} {model} && exec "$0" "$@"'
    rank = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", inside, PROGRAM, "serve", *NANO, *ranks(2)],
        env={**os.environ, **torchrun(1, 2, port)},
        stderr=subprocess.DEVNULL,
    )
    result = run("serve", str(model), "--port", "0", *NANO, *ranks(2), environment=torchrun(0, 2, port))
    rank.kill()
    rank.wait()
    assert result.returncode == 1
    assert re.search(r"rank 1 \(.*\): .*model has other weights than the model of rank 0", result.stderr), result.stderr


@pytest.mark.parametrize(
    "options, variables, message",
    [
        (ranks(3), {}, "tensor parallel size 3 does not fit .* sizes that fit: 1, 2"),
        ([*ranks(2), "--hosts", "a,b,c"], {}, "2 ranks cannot be divided among 3 hosts"),
        ([*ranks(2), "--hosts", "a,,b"], {}, "a name is empty"),
        (ranks(2), {"RANK": "2", "WORLD_SIZE": "2"}, 'RANK is "2", expected a number from 0 to 1'),
        (ranks(2), {"RANK": "1", "WORLD_SIZE": "4"}, "is 2, but torchrun has started 4 processes"),
        (ranks(2), {"RANK": "0", "WORLD_SIZE": "2"}, "set MASTER_ADDR"),
        (ranks(2), {"PATH": "/nowhere"}, "mpirun is not installed"),
        ([*ranks(2), "-md", "models/osprey-nano-eagle3"], {}, "cannot be combined yet"),
        ([*ranks(2), "--load-format", "dummy", "-md", "dummy"], {}, "cannot be combined yet"),
    ],
)
def test_wrong_starts(options, variables, message):
    result = run("serve", "--port", "0", *NANO, *options, environment=variables)
    assert result.returncode != 0
    assert re.search(message, result.stderr), result.stderr

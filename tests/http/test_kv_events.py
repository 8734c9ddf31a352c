"""KV events over ZeroMQ (--kv-events-config), read as routers read vLLM's: with pyzmq and msgpack."""

import json
import os
import signal
import socket
import struct
import time
import urllib.request

import msgpack
import pytest
import zmq

from conftest import run
from test_worker import children, health, wait_until

NANO = ["--device", "cpu", "-t", "1"]
BLOCK = 64
END = b"\xff" * 8
WAIT_MS = 20000


def free_ports(n):
    """Neighbouring ports that nothing has."""
    for _ in range(100):
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            base = first.getsockname()[1]
        taken = []
        try:
            for port in range(base, base + n):
                taken.append(socket.socket())
                taken[-1].bind(("0.0.0.0", port))
            return base
        except (OSError, OverflowError):
            continue
        finally:
            for one in taken:
                one.close()
    raise AssertionError("no free ports")


def config(port, replay=None, **more):
    body = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://*:{port}", **more}
    if replay:
        body["replay_endpoint"] = f"tcp://*:{replay}"
    return ["--kv-events-config", json.dumps(body)]


class Mirror:
    """What a router knows of one engine: its blocks, from the events alone."""

    def __init__(self, port, topic="", rank=0):
        self.context = zmq.Context.instance()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.setsockopt_string(zmq.SUBSCRIBE, topic)
        self.socket.connect(f"tcp://127.0.0.1:{port}")
        self.topic, self.rank = topic.encode(), rank
        self.blocks, self.sequences, self.payloads = {}, [], {}
        self.n_stored = self.n_removed = self.n_cleared = 0

    def close(self):
        self.socket.close(linger=0)

    def apply(self, payload):
        ts, events, rank = msgpack.unpackb(payload, strict_map_key=False)
        assert abs(time.time() - ts) < 120 and rank == self.rank
        for event in events:
            kind = event["type"]
            if kind == "AllBlocksCleared":
                assert set(event) == {"type"}
                self.blocks.clear()
                self.n_cleared += 1
                continue
            assert event["medium"] == "GPU" and event["group_idx"] == 0
            if kind == "BlockRemoved":
                assert set(event) == {"type", "block_hashes", "medium", "group_idx"}
                for one in event["block_hashes"]:
                    del self.blocks[one]
                self.n_removed += len(event["block_hashes"])
                continue
            assert kind == "BlockStored"
            assert list(event) == [
                "type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium",
                "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind",
            ]
            assert event["block_size"] == BLOCK and event["kv_cache_spec_kind"] == "full_attention"
            assert event["lora_id"] is None and event["lora_name"] is None
            assert len(event["extra_keys"]) == len(event["block_hashes"])
            assert len(event["token_ids"]) == BLOCK * len(event["block_hashes"])
            parent = event["parent_block_hash"]
            for i, one in enumerate(event["block_hashes"]):
                assert parent is None or parent in self.blocks
                assert one not in self.blocks and 0 <= one < 2**64
                before = self.blocks[parent][0] if parent is not None else ()
                tokens = tuple(event["token_ids"][i * BLOCK : (i + 1) * BLOCK])
                self.blocks[one] = (before + tokens, event["extra_keys"][i])
                parent = one
            self.n_stored += len(event["block_hashes"])

    def read(self, missed=None):
        """One message; False: none came in time. missed: what was published before the first one."""
        if not self.socket.poll(WAIT_MS):
            return False
        topic, sequence, payload = self.socket.recv_multipart()
        assert topic == self.topic
        self.sequences.append(struct.unpack(">q", sequence)[0])
        for number in range(self.sequences[0] if missed else 0):
            self.apply(missed[number])
        self.payloads[self.sequences[-1]] = payload
        self.apply(payload)
        return True

    def read_until(self, condition, what):
        while not condition():
            assert self.read(), what

    def knows(self, tokens):
        return any(known == tuple(tokens) for known, _ in self.blocks.values())


def replayed(port, first):
    with zmq.Context.instance().socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(f"tcp://127.0.0.1:{port}")
        socket.send_multipart([b"", struct.pack(">q", first)])
        found = {}
        while True:
            assert socket.poll(WAIT_MS), "no replay"
            empty, sequence, payload = socket.recv_multipart()
            assert empty == b""
            if sequence == END:
                assert payload == b""
                return found
            found[struct.unpack(">q", sequence)[0]] = payload


def complete(server, prompt, **more):
    body = {"model": "osprey-nano", "prompt": prompt, "temperature": 0, "max_tokens": 4, **more}
    call = urllib.request.Request(
        f"{server.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(call, timeout=60) as response:
        return json.load(response)["usage"]


def prompt(seed, n=200):
    return [(seed * 37 + i * 11) % 1900 for i in range(n)]


def metric(server, name):
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as answer:
        return sum(float(line.split()[-1]) for line in answer.read().decode().splitlines() if line.startswith(name + "{"))


@pytest.fixture
def mirror():
    """Gives a function that subscribes; its sockets are closed afterwards."""
    opened = []

    def subscribe(*arguments, **more):
        opened.append(Mirror(*arguments, **more))
        return opened[-1]

    yield subscribe
    for one in opened:
        one.close()


def test_stored_removed_and_replayed(start_server, mirror):
    port = free_ports(2)
    known = mirror(port, "kv@pod@osprey-nano")
    # a request of 1,024 tokens fills the cache
    server = start_server(*NANO, "--max-model-len", "1024", "-np", "1", "--kv-cache-memory", "6M",
                          *config(port, port + 1, topic="kv@pod@osprey-nano", buffer_steps=1000))
    # a subscriber that comes late asks for what it has missed, as vLLM's clients do
    complete(server, prompt(1))
    seed = 100
    while not known.socket.poll(500):
        complete(server, prompt(seed))
        seed += 1
    missed = replayed(port + 1, 0)
    assert known.read(missed)
    first = known.sequences[0]
    assert sorted(missed) == list(range(len(missed))) and len(missed) >= first
    assert msgpack.unpackb(missed[0])[1] == [{"type": "AllBlocksCleared"}]
    late = Mirror.__new__(Mirror)
    late.rank, late.blocks, late.n_stored, late.n_removed, late.n_cleared = 0, {}, 0, 0, 0
    for sequence in sorted(missed):
        late.apply(missed[sequence])
    assert late.knows(prompt(1)[:128]) and late.n_cleared == 1
    # the blocks are those that the engine finds
    assert complete(server, prompt(1))["prompt_tokens_details"]["cached_tokens"] >= 192
    # a salt changes hashes, and says so
    complete(server, prompt(1), cache_salt="alone")
    complete(server, prompt(2, 300))
    known.read_until(lambda: known.knows(prompt(2, 300)[:256]), "another prompt's blocks")
    salted = [keys for tokens, keys in known.blocks.values() if keys is not None]
    assert len(salted) == 1 and len(salted[0]) == 1 and len(salted[0][0]) == 16, salted
    # more than the cache holds: the oldest blocks leave
    for seed in range(3, 12):
        complete(server, prompt(seed, 300))
    known.read_until(lambda: known.knows(prompt(11, 300)[:256]), "the last prompt's blocks")
    assert known.n_removed > 10
    assert not known.knows(prompt(3, 300)[:256])
    assert complete(server, prompt(11, 300))["prompt_tokens_details"]["cached_tokens"] >= 256
    server.wait_idle()
    # never more blocks than the cache has pages; sequence numbers have no gap
    assert len(known.blocks) <= metric(server, "osprey:kv_pages")
    assert known.sequences == list(range(first, first + len(known.sequences)))
    assert metric(server, "osprey:kv_event_batches_total") >= len(known.sequences)
    assert metric(server, "osprey:kv_events_dropped_total") == 0
    again = replayed(port + 1, known.sequences[-3])
    assert all(again[sequence] == known.payloads[sequence] for sequence in known.sequences[-3:])
    assert replayed(port + 1, 10**9) == {}
    assert server.stop() == 0, server.log


def test_bad_replay_requests(start_server):
    port = free_ports(2)
    server = start_server(*NANO, *config(port, port + 1))
    for frames in [[b""], [b"", b"1234567"], [b"", b"12345678", b"more"], [b"x", b"12345678"], [b"", b"1" * 100]]:
        with zmq.Context.instance().socket(zmq.DEALER) as one:
            one.setsockopt(zmq.LINGER, 0)
            one.connect(f"tcp://127.0.0.1:{port + 1}")
            one.send_multipart(frames)
            assert not one.poll(50), frames
    with socket.create_connection(("127.0.0.1", port + 1)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(os.urandom(1000))
    assert 0 in replayed(port + 1, 0)
    complete(server, prompt(1))
    assert server.stop() == 0, server.log


def peak_mb(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM:")).split()[1]) / 1024


def test_many_different_subscriptions(start_server, mirror):
    """libzmq would keep 700 MB of these: everyone is disconnected, and connects again."""
    port = free_ports(1)
    server = start_server(*NANO, "--worker", "off", *config(port))
    known = mirror(port)
    complete(server, prompt(1))
    known.read_until(lambda: known.knows(prompt(1)[:192]), "blocks before")
    before_mb = peak_mb(server.process.pid)
    with zmq.Context.instance().socket(zmq.SUB) as many:
        many.setsockopt(zmq.LINGER, 0)
        many.setsockopt(zmq.SNDHWM, 0)  # else it sends 1,000 of them
        many.connect(f"tcp://127.0.0.1:{port}")
        for i in range(20000):
            many.setsockopt(zmq.SUBSCRIBE, b"%d" % i + os.urandom(900))
        wait_until(lambda: "of different topics" in "\n".join(server.log), "all are disconnected", 20)
    assert peak_mb(server.process.pid) < before_mb + 200
    deadline, seed, n_sequences = time.monotonic() + 20, 2, len(known.sequences)
    while len(known.sequences) == n_sequences:  # until the mirror has connected again
        assert time.monotonic() < deadline
        complete(server, prompt(seed))
        if known.socket.poll(100):
            known.read()
        seed += 1
    assert server.stop() == 0, server.log


def test_a_restarted_engine_says_that_nothing_is_known(start_server, mirror):
    port = free_ports(2)
    server = start_server(*NANO, "--worker", "on", *config(port, port + 1))
    known = mirror(port)
    complete(server, prompt(1))
    assert len(replayed(port + 1, 0)) >= 2
    os.kill(children(server.process.pid)[0], signal.SIGKILL)
    wait_until(lambda: health(server)[1]["restarts"] == 1 and health(server)[0] == 200, "200 again", 30)
    again = replayed(port + 1, 0)
    assert list(again) == [0]
    assert msgpack.unpackb(again[0])[1] == [{"type": "AllBlocksCleared"}]
    complete(server, prompt(2))
    wait_until(lambda: len(replayed(port + 1, 0)) >= 2, "the new engine's blocks", 20)
    known.close()
    assert server.stop() == 0, server.log


def test_each_replica_has_a_port(start_server, mirror):
    port = free_ports(4)
    server = start_server(*NANO, "--data-parallel-size", "2", *config(port, port + 2))
    both = [mirror(port, rank=0), mirror(port + 1, rank=1)]
    deadline, seed = time.monotonic() + 20, 0
    while not all(known.n_stored for known in both):  # prompts go to both by turns
        assert time.monotonic() < deadline
        complete(server, prompt(seed))
        seed += 1
        for known in both:
            while known.socket.poll(20):
                known.read()
    assert not set(both[0].blocks) & set(both[1].blocks)
    assert server.stop() == 0, server.log


def test_options(start_server):
    port = free_ports(1)
    off = start_server(*NANO, "--kv-events-config", json.dumps({"enable_kv_cache_events": False, "endpoint": "nonsense"}))
    assert metric(off, "osprey:kv_event_batches_total") == 0
    assert off.stop() == 0
    assert not any("kv-events-config" in line for line in off.log)
    silent = start_server(*NANO, "--kv-events-config", json.dumps({"endpoint": f"tcp://*:{port}"}))
    assert silent.stop() == 0
    assert 'nothing is published without "enable_kv_cache_events": true' in "\n".join(silent.log)
    uncached = start_server(*NANO, "--no-prefix-cache", *config(port))
    assert uncached.stop() == 0
    assert "with --no-prefix-cache, only requests that ask for the prefix cache" in "\n".join(uncached.log)
    for bad, why in [
        ("{", "must be a JSON object"),
        ('{"enable_kv_cache_events": 1}', "enable_kv_cache_events must be true or false"),
        ('{"publisher": "kafka"}', 'publisher "kafka" is not supported; osprey has zmq'),
        ('{"port": 1}', "unknown member port; there are enable_kv_cache_events"),
        ('{"buffer_steps": 0}', "buffer_steps must be an integer from 1"),
        ('{"endpoint": 5557}', "endpoint must be a string"),
        ('{"enable_kv_cache_events": true, "endpoint": "nonsense://*"}', "cannot bind nonsense://*"),
        ('{"enable_kv_cache_events": true, "endpoint": "tcp://*:1", "replay_endpoint": "x"}', "kv events: cannot "),
        ('{"enable_kv_cache_events": true, "topic": "%s"}' % ("x" * 2000), "topic has 2000 bytes, at most 1024"),
    ]:
        found = run("serve", "--port", "0", *NANO, "--kv-events-config", bad)
        assert found.returncode == 1 and why in found.stderr, (bad, found.stderr)
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", port))
        taken.listen()
        found = run("serve", "--port", "0", *NANO, *config(port))
        assert found.returncode == 1 and "Address already in use" in found.stderr, found.stderr

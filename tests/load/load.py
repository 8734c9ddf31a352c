#!/usr/bin/env python3
"""Loads the server and checks the guarantees of docs/reliability.md.

    tests/load/load.py [--short] [--only NAME[,NAME]] [--minutes M] [--out FILE.json]

The server is the whole program with a device that computes nothing (build/tests/osprey-fake). Its
clients are build/tests/burden, on the same machine. `--short` is the form of `make test`: fewer
clients, and time limits for a machine with other work. Exit status 1 when a guarantee fails.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
PROGRAM, BURDEN = BUILD / "tests" / "osprey-fake", BUILD / "tests" / "burden"
MIB = 1 << 20


def resident_of(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return 0
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    return int(found[1]) * 1024 if found else 0


class Server:
    """A server with a step time, and its state as clients see it."""

    def __init__(self, step_ms, *options, control=None, program=PROGRAM):
        environment = {**os.environ, "OSPREY_FAKE_STEP_MS": str(step_ms)}
        if control:
            environment["OSPREY_FAKE_CONTROL"] = str(control)
        self.process = subprocess.Popen(
            [str(program), "serve", "--port", "0", *(() if "--log-level" in options else ("--log-level", "warn")), *map(str, options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.log = []
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            self.process.wait()
            raise RuntimeError("the server did not start: " + "".join(self.log))
        self.port = int(self.url.rsplit(":", 1)[1])

    def get(self, path):
        """Status and text."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read().decode()

    def health(self):
        return json.loads(self.get("/health")[1])

    def metric(self, name):
        """The sum of a metric over its labels."""
        lines = self.get("/metrics")[1].splitlines()
        found = [float(l.rsplit(" ", 1)[1]) for l in lines if re.match(re.escape(name) + r"[ {]", l)]
        assert found, f"no metric {name}"
        return sum(found)

    def resident(self):
        """Of the server and of its worker process, if it has one."""
        pid = self.process.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        threads = [t for t in pathlib.Path(f"/proc/{pid}/task").iterdir() if t.name != str(pid)]
        for thread in threads:  # a child belongs to the thread that made it
            with contextlib.suppress(FileNotFoundError):
                children += (thread / "children").read_text().split()
        return sum(resident_of(process) for process in [str(pid), *children])

    def files_at_rest(self):
        """Open descriptors once the last connections, which linger for a moment, have ended."""
        counts = []
        for _ in range(100):
            counts.append(len(os.listdir(f"/proc/{self.process.pid}/fd")))
            time.sleep(0.05)
        return min(counts[-20:])

    def ask(self, tokens=4):
        """One request, so that what is made once is made."""
        body = {"messages": [{"role": "user", "content": "Say the letters."}], "max_tokens": tokens}
        request = urllib.request.Request(
            self.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def wait_idle(self, limit_s=20):
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            health = self.health()
            if health["running"] + health["waiting"] == 0:
                return health
            time.sleep(0.02)
        raise AssertionError(f"not idle after {limit_s} s: {health}")

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def stop(self):
        if self.process.poll() is None:
            self.signal()
        return self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def burden(server, scenario, *words):
    return subprocess.Popen(
        [str(BURDEN), scenario, str(server.port), *map(str, words)], stdout=subprocess.PIPE, text=True
    )


def last_line(process):
    """What it printed last, and its end."""
    lines = process.stdout.read().splitlines()
    assert process.wait() == 0 and lines, "the clients failed"
    return json.loads(lines[-1])


class Watch(threading.Thread):
    """Samples a function of the server until it is told to stop."""

    def __init__(self, function, every_s):
        super().__init__(daemon=True)
        self.function, self.every_s, self.values, self.ended = function, every_s, [], threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(self.every_s):
            self.values.append(self.function())

    def stop(self):
        self.ended.set()
        self.join()
        return self.values


class Promises(list):
    """What is held, each with its value and limit."""

    def most(self, what, value, limit):
        self.append({"what": what, "value": value, "at_most": limit, "kept": value <= limit})

    def least(self, what, value, limit):
        self.append({"what": what, "value": value, "at_least": limit, "kept": value >= limit})

    def equal(self, what, value, wanted):
        self.append({"what": what, "value": value, "is": wanted, "kept": value == wanted})


# ---- scenarios: each gives what was seen and what was held ----


def streams(n, seconds, step_ms=500, open_per_s=1000):
    """n streams, all open at the same time for so many seconds."""
    begin_s = n / open_per_s + n * 100 / 8000 * step_ms / 1000 + 5  # to open, and for the prompts
    tokens = int((seconds + begin_s) * 1000 / step_ms)
    promises = Promises()
    with Server(
        step_ms, "--max-num-seqs", n, "--max-num-batched-tokens", 16384, "--max-queue", 16384,
        "--max-model-len", tokens + 128, "--shutdown-timeout", 60,
    ) as server:  # fmt: skip
        server.ask()
        before = server.resident()
        clients = burden(server, "streams", n, tokens, open_per_s)
        resident = Watch(server.resident, 0.5)
        running = Watch(lambda: server.health()["running"], 1)
        seen = last_line(clients)
        seen["all_running_s"] = sum(r == n for r in running.stop())
        seen["resident_before"], seen["resident_peak"] = before, max(resident.stop())
        seen["kib_a_stream"] = round((seen["resident_peak"] - before) / n / 1024, 2)
        seen["cpu_seconds"] = server.metric("process_cpu_seconds_total")
        promises.equal("streams that were whole", seen["whole"], n)
        promises.equal("errors", seen["error_events"] + seen["refused"], 0)
        promises.least("seconds with all of them open", seen["all_running_s"], seconds)
        promises.most("KiB of resident memory a stream", seen["kib_a_stream"], 32)
        promises.equal("exit status", server.stop(), 0)
    return seen, promises


def overload(seconds, slack=1, n_seqs=512, step_ms=500, tokens=8):
    """Ten times as many requests as can be answered."""
    capacity = n_seqs * 1000 / step_ms
    promises = Promises()
    with Server(
        step_ms, "--max-num-seqs", n_seqs, "--max-num-batched-tokens", 16384, "--max-queue", n_seqs,
        "--max-model-len", 2048,
    ) as server:  # fmt: skip
        server.ask(2)
        clients = burden(server, "overload", seconds, int(10 * capacity / tokens), tokens)
        time.sleep(seconds * 0.3)
        tokens_before, time_before = server.metric("vllm:generation_tokens_total"), time.monotonic()
        time.sleep(seconds * 0.6)
        tokens_after, time_after = server.metric("vllm:generation_tokens_total"), time.monotonic()
        seen = last_line(clients)
        seen["capacity_tok_s"] = capacity
        seen["useful_tok_s"] = round((tokens_after - tokens_before) / (time_after - time_before), 1)
        seen["useful_share"] = round(seen["useful_tok_s"] / capacity, 4)
        promises.equal("answers cut or of another kind", seen["cut"] + seen["other"], 0)
        promises.equal("requests that are accounted for", seen["whole"] + seen["refused"], seen["sent"])
        promises.equal("refusals without Retry-After", seen["without_retry_after"], 0)
        promises.least("share of the capacity that stays useful", seen["useful_share"], 0.95 if slack == 1 else 0.6)
        promises.most("ms to the slowest 429", seen["refusal_ms_max"], 50 * slack)
        promises.equal("exit status", server.stop(), 0)
    return seen, promises


def slow(n, seconds, slack=1):
    """Slow heads, slow bodies and slow readers, n of each."""
    promises = Promises()
    with Server(
        50, "--max-num-seqs", 4096, "--max-num-batched-tokens", 16384, "--max-queue", 4096,
        "--max-model-len", 8192, "--shutdown-timeout", 0,
    ) as server:  # fmt: skip
        server.ask()
        before, clients = server.resident(), burden(server, "slow", n, seconds)
        resident = Watch(server.resident, 0.5)
        seen = last_line(clients)
        seen["resident_before"], seen["resident_peak"] = before, max(resident.stop())
        promises.equal("bad answers of /health", seen["asked_bad"], 0)
        promises.most("p99 of a good client's /health, ms", seen["health_ms_p99"], 50 * slack)
        seen["readers_cut_off"] = server.metric("osprey:http_slow_readers_total")
        room = n * (256 + 3 * 32) / 1024  # a reader's queue, and what a connection takes
        promises.most("MiB of resident memory for all", (seen["resident_peak"] - before) / MIB, room)
        if seconds > 15:
            promises.least("slow heads and bodies that were ended", seen["ended_heads"] + seen["ended_bodies"], 2 * n)
        if seconds > 60:
            promises.least("slow readers that were cut off", seen["readers_cut_off"], n)
        promises.equal("exit status", server.stop(), 0)
    return seen, promises


def disconnects(n, at_once=200):
    """Clients that leave at random points."""
    promises = Promises()
    with Server(
        10, "--max-num-seqs", 64, "--max-num-batched-tokens", 4096, "--max-queue", 1024, "--max-model-len", 2048,
    ) as server:  # fmt: skip
        last_line(burden(server, "disconnects", 1000, at_once, 300))  # what is made once is made
        server.wait_idle()
        pages = server.health()["pages_used"]
        files = server.files_at_rest()
        clients = burden(server, "disconnects", n, at_once, 300)
        resident = Watch(server.resident, 0.25)
        seen = last_line(clients)
        samples = resident.stop()
        health = server.wait_idle()
        half = samples[len(samples) // 2 :]
        quarter = max(len(half) // 2, 1)
        early, late = sum(half[:quarter]) / quarter, sum(half[-quarter:]) / quarter
        seen["resident_third_quarter"], seen["resident_last_quarter"] = int(early), int(late)
        seen["pages_after"], seen["pages_before"] = health["pages_used"], pages
        seen["disconnects_counted"] = server.metric("osprey:http_disconnects_total")
        seen["files_after"], seen["files_before"] = server.files_at_rest(), files
        promises.equal("clients", seen["clients"], n)
        promises.equal("pages in use afterwards", health["pages_used"], pages)
        promises.equal("descriptors afterwards", seen["files_after"], files)
        promises.most("MiB that memory grew by from the third quarter to the last", (late - early) / MIB, 0.5)
        promises.equal("exit status", server.stop(), 0)
    return seen, promises


# Of docs/limits.md, in MiB, what these clients can make the server hold: request bodies, unread answers, one
# tokenization and its answer, grammars and their texts, and 1 for each connection. Answers being made, stored
# responses and the KV cache have limits of their own and are not attacked here.
HOSTILE_MIB = {"bodies": 256, "unread answers": 512, "tokenization": 128, "grammars": 128}


def hostile(n, seconds, base_s, slack=1, program=PROGRAM, step_ms=10):
    """Hostile clients of all kinds at once (tests/load/hostile.c), and a good one beside them."""
    promises = Promises()
    with Server(
        step_ms, "--api-key", "good,hostile", "--max-model-len", 4096, "--worker", "on", program=program
    ) as server:  # fmt: skip
        alone = last_line(burden(server, "good", base_s, "good"))
        before = server.resident()
        clients = burden(server, "hostile", seconds + 2, n, "hostile")
        resident = Watch(server.resident, 0.5)
        beside = last_line(burden(server, "good", seconds, "good"))
        seen = {"alone": alone, "beside": beside, "hostile": last_line(clients)}
        seen["resident_before"], seen["resident_peak"] = before, max(resident.stop())
        seen["restarts"] = server.health()["restarts"]
        limit = sum(HOSTILE_MIB.values()) + n
        promises.equal("bad answers to the good client", beside["health"]["bad"] + beside["chat"]["bad"], 0)
        promises.most("p99 of the good client's /health, ms", beside["health"]["ms_p99"], 50 * slack)
        promises.most(
            "p99 of the good client's chat, beside and alone",
            beside["chat"]["ms_p99"] / max(alone["chat"]["ms_p99"], step_ms), 2 * slack,
        )  # fmt: skip
        promises.most("MiB of resident memory for all", (seen["resident_peak"] - before) / MIB, limit)
        promises.equal("restarts of the engine", seen["restarts"], 0)
        promises.equal("exit status", server.stop(), 0)
    return seen, promises


def drain(n, step_ms=100, tokens=60, slack=1):
    """SIGTERM while n streams run; then twice."""
    promises = Promises()
    options = ["--max-num-seqs", n, "--max-num-batched-tokens", 16384, "--max-queue", n, "--max-model-len", 512]
    with Server(step_ms, *options) as server:
        clients = burden(server, "streams", n, tokens, 10000)
        assert json.loads(clients.stdout.readline())["event"] == "all_begun"
        running = server.health()["running"]
        server.signal()
        seen = last_line(clients)
        seen["running_at_the_signal"] = running
        promises.equal("streams that ran at the signal", running, n)
        promises.equal("streams that were whole", seen["whole"], n)
        promises.equal("exit status", server.process.wait(10), 0)
    with Server(step_ms, *options) as server:
        clients = burden(server, "streams", n, 300, 10000)
        assert json.loads(clients.stdout.readline())["event"] == "all_begun"
        server.signal()
        begin = time.monotonic()
        server.signal(signal.SIGINT)
        promises.equal("exit status after the second signal", server.process.wait(60), 0)
        seen["second_signal_s"] = round(time.monotonic() - begin, 3)
        promises.most("seconds to the end after the second signal", seen["second_signal_s"], slack)
        clients.wait()
    return seen, promises


SCENARIOS = {
    "streams": lambda minutes: streams(10000, int(minutes * 60)),
    "overload": lambda minutes: overload(60),
    "slow": lambda minutes: slow(1000, 75),
    "disconnects": lambda minutes: disconnects(100000),
    "hostile": lambda minutes: hostile(500, int(minutes * 60), 60),
    "hostile-nano": lambda minutes: hostile(500, int(minutes * 60), 60, program=BUILD / "osprey"),
    "drain": lambda minutes: drain(256),
}
SHORT = {
    "streams": lambda minutes: streams(400, 2, step_ms=100),
    "overload": lambda minutes: overload(5, slack=10, n_seqs=64, step_ms=100),
    "slow": lambda minutes: slow(100, 4, slack=10),
    "disconnects": lambda minutes: disconnects(3000),
    "hostile": lambda minutes: hostile(130, 8, 4, slack=10),
    "drain": lambda minutes: drain(256, tokens=30, slack=8),
}


def machine():
    names = re.findall(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"cpu": names[0] if names else platform.machine(), "cpus": os.cpu_count(), "kernel": platform.release()}


def commit():
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


def run(name, scenario, minutes):
    begin = time.monotonic()
    seen, promises = scenario(minutes)
    print(f"{name}: {time.monotonic() - begin:.0f} s")
    for p in promises:
        limit = next(f"{k.replace('_', ' ')} {p[k]}" for k in ("at_most", "at_least", "is") if k in p)
        value = round(p["value"], 3) if isinstance(p["value"], float) else p["value"]
        print(f"  {'kept  ' if p['kept'] else 'BROKEN'} {p['what']}: {value} ({limit})")
    sys.stdout.flush()
    return {"seen": seen, "promises": promises, "kept": all(p["kept"] for p in promises)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default=",".join(SCENARIOS))
    parser.add_argument("--minutes", type=float, default=10, help="of the streams (10)")
    parser.add_argument("--out")
    options = parser.parse_args()
    table = SHORT if options.short else SCENARIOS
    results = {name: run(name, table[name], options.minutes) for name in options.only.split(",")}
    kept = all(r["kept"] for r in results.values())
    whole = {"date": time.strftime("%Y-%m-%d"), "commit": commit(), "machine": machine(), "kept": kept, **results}
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(whole, indent=1) + "\n")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Kills and stops the worker process of `osprey serve` in mid-stream, and tells what its clients see and when.

    bench/worker_faults.py build/osprey cuda gpt-oss-20b
    ROUNDS=3 bench/worker_faults.py build/osprey cpu osprey-nano --worker on

All times are seconds from the signal. The weights are generated, so that no checkpoint is needed.
"""
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time

N_STREAMS = 8
N_BEGUN = 5  # tokens of a stream before anything happens to it
AGAIN_S = 60


def start(program, device, shape, options):
    began = time.monotonic()
    server = subprocess.Popen(
        [program, "serve", "--port", "0", "--device", device, "--load-format", "dummy", "--shape", shape,
         "--max-model-len", "8192", "--log-level", "error", *options],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    port = int(server.stdout.readline().strip().rsplit(":", 1)[1])
    print(f"ready after {time.monotonic() - began:.2f} s")
    return server, port


def worker_of(server):
    for name in os.listdir("/proc"):
        try:
            fields = open(f"/proc/{name}/stat").read().rsplit(")", 1)[1].split() if name.isdigit() else None
        except OSError:
            continue
        if fields and int(fields[1]) == server.pid and fields[0] not in "ZX":
            return int(name)
    return None


class Stream(threading.Thread):
    def __init__(self, port, seed):
        super().__init__(daemon=True)
        self.port, self.seed = port, seed
        self.begun, self.n_tokens, self.end_s, self.error = threading.Event(), 0, None, None
        self.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=AGAIN_S)
        wish = {"messages": [{"role": "user", "content": f"Tell a story {self.seed}"}], "stream": True,
                "max_tokens": 8000, "temperature": 1, "seed": self.seed}  # fmt: skip
        connection.request("POST", "/v1/chat/completions", json.dumps(wish), {"Content-Type": "application/json"})
        for line in connection.getresponse():
            if b'"error"' in line:
                self.error = line.decode().strip()
                break
            self.n_tokens += line.startswith(b"data: {")
            if self.n_tokens > N_BEGUN:
                self.begun.set()
        self.end_s = time.monotonic()
        self.begun.set()


class Health:
    """Asks on one connection; keeps every change of the answer."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=AGAIN_S)

    def ask(self):
        self.connection.request("GET", "/health")
        answer = self.connection.getresponse()
        return answer.status, json.load(answer)

    def watch(self, began, n_restarts):
        changes, last = [], None
        while time.monotonic() - began < AGAIN_S:
            code, body = self.ask()
            if (code, body["status"]) != last:
                last = (code, body["status"])
                reason = f" ({body['reason']})" if body["reason"] else ""
                changes.append(f"{time.monotonic() - began:.3f} {code} {body['status']}{reason}")
            if code == 200 and body["restarts"] == n_restarts:
                break
            time.sleep(0.001)
        return changes


def one_round(server, port, health, name, number, n_restarts):
    streams = [Stream(port, seed) for seed in range(N_STREAMS)]
    for stream in streams:
        stream.begun.wait(AGAIN_S)
    n_running = sum(stream.end_s is None for stream in streams)
    began = time.monotonic()
    os.kill(worker_of(server), number)
    changes = health.watch(began, n_restarts)
    for stream in streams:
        stream.join(AGAIN_S)
    told = [stream.end_s - began for stream in streams if stream.error]
    after = Stream(port, N_STREAMS)
    after.begun.wait(AGAIN_S)
    print(f"{name}: {n_running} streams ran, {len(told)} error events", end="")
    print(f" after {min(told):.3f} to {max(told):.3f} s" if told else "")
    print("    /health:", "; ".join(changes))
    print(f"    first tokens of a new stream after {time.monotonic() - began:.3f} s")


def main():
    program, device, shape, *options = sys.argv[1:]
    server, port = start(program, device, shape, options)
    health = Health(port)
    n_kills = int(os.environ.get("ROUNDS", "2"))
    for n_restarts in range(1, n_kills + 1):
        one_round(server, port, health, "kill -9", signal.SIGKILL, n_restarts)
    one_round(server, port, health, "kill -STOP", signal.SIGSTOP, n_kills + 1)
    server.kill()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Faults of `osprey serve`'s worker process in mid-stream: what clients see, and when.

    bench/worker_faults.py build/osprey cuda gpt-oss-20b
    FAULTS=trap,address,busy bench/worker_faults.py build/osprey cuda gpt-oss-20b
    FAULTS=kill,kill bench/worker_faults.py build/osprey cpu osprey-nano --worker on

FAULTS, one after the other (kill,kill,stop):
  kill, stop        the worker gets SIGKILL, SIGSTOP
  trap, address     on a card: a kernel that traps, or writes where no memory is, fails the context that the
                    worker's work is in, as a bug or a broken card would (tests/fault/gpu_fault.c)
  idle              on a card: trap, while no request is there
  busy              on a card: a kernel holds all of it for 5 s, as one that hangs
SHIM is what makes cards fail (tests/gpu_fault.so beside the program).

Held, with exit status 1 when it is not: running streams have their error event, and /health says 503, within TOLD_S
(1 s) of the fault (of stop within 5 s, the time of silence); then the server is well again by itself, and answers a
question to the letter as before. When the card is busy /health says `wedged` within 3.5 s, and nothing is lost. Times are seconds
from the fault. The weights are generated, so that no checkpoint is needed.
"""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

N_STREAMS = 8
N_BEGUN = 5  # tokens of a stream before anything happens to it
AGAIN_S = 60
TOLD_S = float(os.environ.get("TOLD_S", "1"))
SILENCE_S = 5
WEDGED_S = 3.5
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
CARD_FAULTS = {"trap": "trap", "address": "address", "idle": "trap", "busy": "busy"}  # kernels of the shim


class Server:
    def __init__(self, program, device, shape, options, faults):
        self.folder = tempfile.TemporaryDirectory()
        environment = dict(os.environ, CARD_FAULT_DIR=self.folder.name)
        if any(fault in CARD_FAULTS for fault in faults):
            shim = pathlib.Path(os.environ.get("SHIM", pathlib.Path(program).parent / "tests" / "gpu_fault.so"))
            environment["LD_PRELOAD"] = str(shim.resolve(strict=True))
        began = time.monotonic()
        self.process = subprocess.Popen(
            [program, "serve", "--port", "0", "--device", device, "--load-format", "dummy", "--shape", shape,
             "--max-model-len", "8192", "--log-level", "error", *options],
            stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        self.port = int(self.process.stdout.readline().strip().rsplit(":", 1)[1])
        print(f"ready after {time.monotonic() - began:.2f} s")
        self.n_restarts = 0

    def worker(self):
        for name in os.listdir("/proc"):
            try:
                fields = open(f"/proc/{name}/stat").read().rsplit(")", 1)[1].split() if name.isdigit() else None
            except OSError:
                continue
            if fields and int(fields[1]) == self.process.pid and fields[0] not in "ZX":
                return int(name)
        raise RuntimeError("the server has no worker process")

    def fault(self, name):
        """Returns when it began."""
        pid = self.worker()
        began = time.monotonic()
        if name in SIGNALS:
            os.kill(pid, SIGNALS[name])
        else:
            wish = pathlib.Path(self.folder.name, "wish")
            wish.write_text(CARD_FAULTS[name])
            wish.rename(wish.with_name(str(pid)))
        return began

    def watch(self, began):
        """Every change of /health, from something that is not 200 to the next 200."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=AGAIN_S)
        changes, was_ill = [], False
        while time.monotonic() - began < AGAIN_S:
            connection.request("GET", "/health")
            answer = connection.getresponse()
            code, body = answer.status, json.load(answer)
            state = (code, body["status"])
            if not changes or state != changes[-1][1:3]:
                changes.append((time.monotonic() - began, *state, body["reason"]))
            was_ill = was_ill or code != 200 or body["restarts"] > self.n_restarts
            if was_ill and code == 200:
                self.n_restarts = body["restarts"]
                return changes
            time.sleep(0.001)
        return changes

    def letters(self):
        """A question whose answer is always the same."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=AGAIN_S)
        wish = {"prompt": "One two three", "max_tokens": 64, "temperature": 0, "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(wish), {"Content-Type": "application/json"})
        return json.load(connection.getresponse())["choices"][0]["text"]


class Stream(threading.Thread):
    def __init__(self, port, seed):
        super().__init__(daemon=True)
        self.port, self.seed, self.is_wanted = port, seed, True
        self.begun, self.n_tokens, self.end_s, self.error = threading.Event(), 0, None, None
        self.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=AGAIN_S)
        wish = {"messages": [{"role": "user", "content": f"Tell a story {self.seed}"}], "stream": True,
                "max_tokens": 8000, "temperature": 1, "seed": self.seed, "ignore_eos": True}  # fmt: skip
        connection.request("POST", "/v1/chat/completions", json.dumps(wish), {"Content-Type": "application/json"})
        for line in connection.getresponse():
            if b'"error"' in line:
                self.error = line.decode().strip()
                break
            self.n_tokens += line.startswith(b"data: {")
            if self.n_tokens > N_BEGUN:
                self.begun.set()
            if not self.is_wanted:
                break
        connection.close()
        self.end_s = time.monotonic()
        self.begun.set()

    def leave(self):
        """As a client that goes in mid-stream."""
        self.is_wanted = False
        self.join(AGAIN_S)


class Promises:
    def __init__(self):
        self.broken = []

    def hold(self, is_constrained, what):
        if not is_constrained:
            self.broken.append(what)
            print("    BROKEN:", what)


def end_streams(streams, began, limit_s, promises):
    for stream in streams:
        stream.join(AGAIN_S)
    told = [stream.end_s - began for stream in streams if stream.error]
    promises.hold(len(told) == len(streams), f"{len(streams)} streams ran, {len(told)} heard an error")
    if told:
        print(f"    {len(told)} of {len(streams)} streams: error events after {min(told):.3f} to {max(told):.3f} s")
        print("   ", next(stream.error for stream in streams if stream.error))
        promises.hold(max(told) <= limit_s, f"an error event after {max(told):.3f} s, limit {limit_s} s")


def one_round(server, fault, expected, promises):
    streams = [Stream(server.port, seed) for seed in range(0 if fault == "idle" else N_STREAMS)]
    for stream in streams:
        promises.hold(stream.begun.wait(AGAIN_S), "a stream begins")
    streams = [stream for stream in streams if stream.end_s is None]
    n_restarts = server.n_restarts
    print(f"{fault}:")
    promises.hold(len(streams) > 0 or fault == "idle", "a stream runs when the fault comes")
    began = server.fault(fault)
    changes = server.watch(began)
    print("    /health:", "; ".join(f"{at:.3f} {code} {state} {why}".strip() for at, code, state, why in changes))
    ill_s = next((at for at, code, _, _ in changes if code != 200), None)
    promises.hold(changes[-1][1] == 200, f"well again within {AGAIN_S} s")
    if fault == "busy":
        promises.hold(ill_s is not None and ill_s <= WEDGED_S, f"/health says 503 within {WEDGED_S} s, not {ill_s}")
        promises.hold(any(state == "wedged" for _, _, state, _ in changes), "/health says wedged")
        promises.hold(server.n_restarts == n_restarts, "no restart for a card that was only busy")
        promises.hold(not any(stream.error for stream in streams), "no stream has failed")
    else:
        limit_s = SILENCE_S if fault == "stop" else TOLD_S
        promises.hold(server.n_restarts == n_restarts + 1, f"{server.n_restarts - n_restarts} restarts, expected one")
        noticed_s = ill_s if ill_s is not None else changes[-1][0]  # a restart may be over between two questions
        promises.hold(noticed_s <= limit_s, f"/health says 503 after {noticed_s} s, limit {limit_s} s")
        end_streams(streams, began, limit_s, promises)
        after = Stream(server.port, N_STREAMS)
        after.begun.wait(AGAIN_S)
        print(f"    first tokens of a new stream after {time.monotonic() - began:.3f} s")
        streams.append(after)
    for stream in streams:
        stream.leave()
    promises.hold(server.letters() == expected, "the same answer as before the fault")


def main():
    program, device, shape, *options = sys.argv[1:]
    faults = os.environ.get("FAULTS", "kill,kill,stop").split(",")
    unknown = [fault for fault in faults if fault not in (*SIGNALS, *CARD_FAULTS)]
    if unknown:
        sys.exit(f"FAULTS: {unknown[0]} is none of {', '.join((*SIGNALS, *CARD_FAULTS))}")
    promises = Promises()
    server = Server(program, device, shape, options, faults)
    try:
        expected = server.letters()
        for fault in faults:
            one_round(server, fault, expected, promises)
    finally:
        server.process.kill()
    print(f"{len(faults)} faults, {len(promises.broken)} promises broken")
    sys.exit(1 if promises.broken else 0)


if __name__ == "__main__":
    main()

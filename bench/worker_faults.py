#!/usr/bin/env python3
"""Injects faults into the worker process of `osprey serve` and times what clients see.

    bench/worker_faults.py build/osprey cuda gpt-oss-20b
    FAULTS=trap,address,busy bench/worker_faults.py build/osprey cuda gpt-oss-20b
    FAULTS=kill,kill bench/worker_faults.py build/osprey cpu osprey-nano --worker on

FAULTS is a list of faults, injected in this order (default: kill,kill,stop):
  kill, stop        the worker gets SIGKILL or SIGSTOP
  trap, address     on a GPU: a kernel that traps or writes to an invalid address makes the worker's
                    CUDA context fail, as a bug or a broken GPU would (tests/fault/gpu_fault.c)
  idle              on a GPU: trap while no request runs
  busy              on a GPU: a kernel occupies the whole GPU for 5 s, as a hanging kernel does
SHIM is the library that makes GPUs fail (tests/gpu_fault.so beside the program).

Exit status 1 unless all of this holds: Within TOLD_S (1 s) of the fault every running stream gets
an error event and /health answers 503; after stop, within 5 s, the limit of silence. Then the
server recovers by itself and gives the same answer to the same question. On a busy GPU /health answers
`wedged` within 3.5 s, and no stream fails. Times are seconds from the fault. The weights are
generated, so no checkpoint is needed.
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
N_BEGUN = 5  # tokens of a stream before the fault
AGAIN_S = 60
TOLD_S = float(os.environ.get("TOLD_S", "1"))
SILENCE_S = 5
WEDGED_S = 3.5
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
# fault -> kernel of the shim
GPU_FAULTS = {"trap": "trap", "address": "address", "idle": "trap", "busy": "busy"}


class Server:
    def __init__(self, program, device, shape, options, faults):
        self.folder = tempfile.TemporaryDirectory()
        environment = dict(os.environ, CARD_FAULT_DIR=self.folder.name)
        if any(fault in GPU_FAULTS for fault in faults):
            beside = pathlib.Path(program).parent / "tests" / "gpu_fault.so"
            shim = pathlib.Path(os.environ.get("SHIM", beside))
            environment["LD_PRELOAD"] = str(shim.resolve(strict=True))
        began = time.monotonic()
        self.process = subprocess.Popen(
            [program, "serve", "--port", "0", "--device", device, "--load-format", "dummy",
             "--shape", shape, "--max-model-len", "8192", "--log-level", "error", *options],
            stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        self.port = int(self.process.stdout.readline().strip().rsplit(":", 1)[1])
        print(f"ready after {time.monotonic() - began:.2f} s")
        self.n_restarts = 0

    def worker(self):
        for name in os.listdir("/proc"):
            try:
                if not name.isdigit():
                    continue
                fields = pathlib.Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == self.process.pid and fields[0] not in "ZX":
                return int(name)
        raise RuntimeError("the server has no worker process")

    def fault(self, name):
        """Injects the fault; returns the time of its begin."""
        pid = self.worker()
        began = time.monotonic()
        if name in SIGNALS:
            os.kill(pid, SIGNALS[name])
        else:
            order = pathlib.Path(self.folder.name, "order")
            order.write_text(GPU_FAULTS[name])
            order.rename(order.with_name(str(pid)))
        return began

    def watch(self, began):
        """Every change of /health until it is 200 again."""
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
        """The answer to a question; it is always the same."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=AGAIN_S)
        body = {"prompt": "One two three", "max_tokens": 64, "temperature": 0, "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
        return json.load(connection.getresponse())["choices"][0]["text"]


class Stream(threading.Thread):
    def __init__(self, port, seed):
        super().__init__(daemon=True)
        self.port, self.seed, self.is_wanted = port, seed, True
        self.begun, self.n_tokens, self.end_s, self.error = threading.Event(), 0, None, None
        self.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=AGAIN_S)
        body = {"messages": [{"role": "user", "content": f"Tell a story {self.seed}"}],
                "stream": True, "max_tokens": 8000, "temperature": 1, "seed": self.seed,
                "ignore_eos": True}  # fmt: skip
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
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
        """Disconnects during the stream."""
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
    errors = [stream.end_s - began for stream in streams if stream.error]
    promises.hold(len(errors) == len(streams),
                  f"{len(streams)} streams ran, {len(errors)} got an error event")
    if errors:
        print(f"    {len(errors)} of {len(streams)} streams: error events "
              f"after {min(errors):.3f} to {max(errors):.3f} s")
        print("   ", next(stream.error for stream in streams if stream.error))
        promises.hold(max(errors) <= limit_s,
                      f"an error event after {max(errors):.3f} s, limit {limit_s} s")


def one_round(server, fault, expected, promises):
    streams = [Stream(server.port, seed) for seed in range(0 if fault == "idle" else N_STREAMS)]
    for stream in streams:
        promises.hold(stream.begun.wait(AGAIN_S), "a stream begins")
    streams = [stream for stream in streams if stream.end_s is None]
    n_restarts = server.n_restarts
    print(f"{fault}:")
    promises.hold(len(streams) > 0 or fault == "idle", "a stream runs at the time of the fault")
    began = server.fault(fault)
    changes = server.watch(began)
    shown = [f"{at:.3f} {code} {state} {why}".strip() for at, code, state, why in changes]
    print("    /health:", "; ".join(shown))
    ill_s = next((at for at, code, _, _ in changes if code != 200), None)
    promises.hold(changes[-1][1] == 200, f"/health is 200 within {AGAIN_S} s")
    if fault == "busy":
        promises.hold(ill_s is not None and ill_s <= WEDGED_S,
                      f"/health is 503 within {WEDGED_S} s, found {ill_s}")
        promises.hold(any(state == "wedged" for _, _, state, _ in changes), "/health says wedged")
        promises.hold(server.n_restarts == n_restarts, "no restart for a busy GPU")
        promises.hold(not any(stream.error for stream in streams), "no stream failed")
    else:
        limit_s = SILENCE_S if fault == "stop" else TOLD_S
        promises.hold(server.n_restarts == n_restarts + 1,
                      f"{server.n_restarts - n_restarts} restarts, expected one")
        # a restart may be faster than two requests of /health
        noticed_s = ill_s if ill_s is not None else changes[-1][0]
        promises.hold(noticed_s <= limit_s,
                      f"/health is 503 after {noticed_s} s, limit {limit_s} s")
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
    unknown = [fault for fault in faults if fault not in (*SIGNALS, *GPU_FAULTS)]
    if unknown:
        sys.exit(f"FAULTS: {unknown[0]} is not one of {', '.join((*SIGNALS, *GPU_FAULTS))}")
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

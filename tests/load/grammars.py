#!/usr/bin/env python3
"""New grammars by the thousand beside a client that wants none: does its time to first token hold, and the engine?

    tests/load/grammars.py [--requests N] [--tools N] [--seconds S] [--program build/osprey] [-- options of serve]

One client asks for plain text all the time, first alone, then beside --requests requests (10,000), each with a schema
that nobody has sent before and that is as dear to compile as a schema of its size can be, then beside requests with
--tools (1,000) new functions between them: first such as are not strict and need no grammar, which shows what the
prompts alone cost others, then strict ones. The report is JSON: times to first token of each part, median and
90th percentile, the ratios to those alone, how the other requests ended, and restarts of the engine's process. Exit
status 1: a ratio of medians above 1.5, a restart, or a status that is neither 200 nor 429.

The figures want the machine for themselves. The requests are sent by a process of lower priority, as they would come
from another machine.
"""

import argparse
import collections
import http.client
import json
import pathlib
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RATIO_MAX = 1.5
TOOLS_OF_REQUEST = 20  # as many as a prompt of 4,096 tokens and CALLS_WORK_MAX have room for
CONNECTIONS = 256  # more than the grammars of one client that may wait: the rest hears 429
MODEL = "osprey-nano"


def schema(n, letters="abc", length=50):
    """The n-th; three patterns whose automata take nearly as long as compiling may (COMPILE_WORK_MAX)."""
    names = [f"{letter}{n}" for letter in letters]
    return {
        "type": "object",
        "properties": {name: {"type": "string", "pattern": f"^.{{0,{length}}}x$"} for name in names},
        "required": names,
        "additionalProperties": False,
    }


def completion(n):
    form = {"type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": schema(n)}}
    return "/v1/completions", {"model": MODEL, "prompt": "a", "max_tokens": 1, "response_format": form, "user": "load"}


def tools_chat(first, n, strict=True):
    functions = [
        {"type": "function", "function": {"name": f"f{i}", "strict": strict, "parameters": schema(i, "a", 25)}}
        for i in range(first, first + n)
    ]
    ask = [{"role": "user", "content": "Hi"}]
    return "/v1/chat/completions", {"model": MODEL, "messages": ask, "max_tokens": 1, "tools": functions, "user": "load"}


def post(connection, path, body):
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    return connection.getresponse()


def send_all(port, n_connections, requests):
    """Every request once; how often each status came."""
    left, statuses, lock = iter(requests), collections.Counter(), threading.Lock()

    def work():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        while True:
            with lock:
                request = next(left, None)
            if request is None:
                return
            try:
                answer = post(connection, request[0], json.dumps(request[1]))
                answer.read()
                status = answer.status
            except (OSError, http.client.HTTPException) as error:
                status = repr(error)
                connection.close()
            with lock:
                statuses[str(status)] += 1

    threads = [threading.Thread(target=work) for _ in range(min(n_connections, len(requests)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(statuses)


def start_sender(port, requests, n_connections):
    """send_all() in a process of lower priority, which prints what it gives."""
    sender = subprocess.Popen(
        ["nice", "-n", "10", sys.executable, __file__, "--send", str(port), str(n_connections)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    sender.stdin.write(json.dumps(requests))
    sender.stdin.close()
    return sender


class Plain(threading.Thread):
    """The client without grammars: times to first token, one request after the other."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.times, self.statuses = port, [], collections.Counter()
        self.ends = threading.Event()
        self.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        while not self.ends.is_set():
            begin = time.monotonic()
            body = {"model": MODEL, "prompt": f"{begin} once upon a time", "max_tokens": 4, "stream": True, "user": "other"}
            answer = post(connection, "/v1/completions", json.dumps(body))
            if answer.readline().startswith(b"data: "):
                self.times.append(time.monotonic() - begin)
            answer.read()
            self.statuses[str(answer.status)] += 1

    def stop(self):
        self.ends.set()
        self.join()
        return self.report()

    def report(self):
        times = sorted(self.times)
        return {
            "n": len(times),
            "median_ms": round(1e3 * statistics.median(times), 2) if times else None,
            "p90_ms": round(1e3 * times[len(times) * 9 // 10], 2) if times else None,
            "most_ms": round(1e3 * times[-1], 2) if times else None,
            "statuses": dict(self.statuses),
        }


def alone(port, seconds):
    plain = Plain(port)
    plain.ends.wait(seconds)
    return plain.stop()


def beside(port, requests, n_connections=CONNECTIONS):
    """The plain client's report while these requests are sent, and theirs."""
    plain, begin = Plain(port), time.monotonic()
    sender = start_sender(port, requests, n_connections)
    statuses = json.loads(sender.stdout.read())
    sender.wait()
    seconds = time.monotonic() - begin
    return {"others": plain.stop(), "requests": statuses, "seconds": round(seconds, 2)}


def health(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/health")
    return json.load(connection.getresponse())


def measure(port, n_requests, n_tools, seconds):
    report = {"alone": alone(port, seconds)}
    report["schemas"] = beside(port, [completion(n) for n in range(n_requests)])
    for part, strict in (("free_tools", False), ("tools", True)):
        firsts = range(0, n_tools, TOOLS_OF_REQUEST)
        report[part] = beside(port, [tools_chat(n, min(TOOLS_OF_REQUEST, n_tools - n), strict) for n in firsts])
    report["health"] = health(port)
    for part in ("schemas", "free_tools", "tools"):
        for figure in ("median_ms", "p90_ms"):
            ratio = report[part]["others"][figure] / report["alone"][figure] if report[part]["others"]["n"] else None
            report[part][figure.replace("_ms", "_ratio")] = round(ratio, 2) if ratio else None
    return report


def faults(report):
    found = []
    for part in ("schemas", "tools"):
        ratio = report[part]["median_ratio"]
        if ratio is None or ratio > RATIO_MAX:
            found.append(f"{part}: others' median time to first token is {ratio} times that alone, limit {RATIO_MAX}")
        wrong = {status: n for status, n in report[part]["requests"].items() if status not in ("200", "429")}
        if wrong:
            found.append(f"{part}: answered neither 200 nor 429: {wrong}")
    if report["health"]["restarts"]:
        found.append(f"the engine's process was started again {report['health']['restarts']} times")
    return found


def main():
    if sys.argv[1:2] == ["--send"]:
        print(json.dumps(send_all(int(sys.argv[2]), int(sys.argv[3]), json.load(sys.stdin))))
        return 0
    own, _, options = " ".join(sys.argv[1:]).partition("-- ")
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--tools", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10, help="of the plain client alone")
    parser.add_argument("--program", default=str(ROOT / "build" / "osprey"))
    given = parser.parse_args(own.split())
    command = [given.program, "serve", "--port", "0", "--worker", "on", "--log-level", "warn", "--max-model-len", "4096"]
    server = subprocess.Popen([*command, *options.split()], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        port = int(server.stdout.readline().strip().rsplit(":", 1)[1])
        report = measure(port, given.requests, given.tools, given.seconds)
    finally:
        server.terminate()
        server.wait()
    report["faults"] = faults(report)
    print(json.dumps(report, indent=2))
    return 1 if report["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())

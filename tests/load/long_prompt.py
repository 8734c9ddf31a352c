#!/usr/bin/env python3
"""Short requests beside a long prompt: the time to the first token on an idle server, and while a prompt of --tokens
tokens is being computed. All requests are of one client.

    tests/load/long_prompt.py [--tokens 100000] [--every SECONDS] [--output FILE] [-- OPTIONS OF osprey serve]
"""

import argparse
import http.client
import json
import pathlib
import random
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = ROOT / "build" / "osprey"
N_IDLE = 5


def first_token_s(port, prompt):
    """Sends a streamed completion of one token; gives the seconds to its first event."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3600)
    body = json.dumps({"prompt": prompt, "max_tokens": 1, "ignore_eos": True, "stream": True})
    begin = time.monotonic()
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        sys.exit(f"status {answer.status}: {answer.read().decode()}")
    while not answer.readline().startswith(b"data:"):
        pass
    seconds = time.monotonic() - begin
    answer.read()
    connection.close()
    return seconds


def n_running(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60) as answer:
        return json.load(answer)["running"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=100000)
    parser.add_argument("--every", type=float, default=3, help="seconds between short requests (default 3)")
    parser.add_argument("--output")
    parser.add_argument("options", nargs="*", help="of osprey serve")
    args = parser.parse_args()
    words = [str(PROGRAM), "serve", "--port", "0", "-q", *args.options]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline().rsplit(":", 1)[1])
    ids = random.Random(1)
    short = lambda: [ids.randrange(300, 1900) for _ in range(40)]
    long_s, during = [], []
    try:
        idle = [first_token_s(port, short()) for _ in range(1 + N_IDLE)][1:]
        prompt = [ids.randrange(300, 1900) for _ in range(args.tokens)]
        thread = threading.Thread(target=lambda: long_s.append(first_token_s(port, prompt)))
        thread.start()
        while thread.is_alive() and n_running(port) == 0:
            time.sleep(0.01)
        while thread.is_alive():
            seconds = first_token_s(port, short())
            if thread.is_alive():
                during.append(seconds)
            thread.join(args.every)
    finally:
        server.terminate()
        server.wait()
    if not during:
        sys.exit("the long prompt ended before a short request was answered: it needs more --tokens")
    found = {
        "command": " ".join(["tests/load/long_prompt.py", *sys.argv[1:]]),
        "tokens": args.tokens,
        "long_prompt_s": round(long_s[0], 2),
        "idle_s": {"mean": round(sum(idle) / len(idle), 4), "max": round(max(idle), 4)},
        "beside_s": {"n": len(during), "mean": round(sum(during) / len(during), 3), "max": round(max(during), 3)},
    }
    print(json.dumps(found, indent=2))
    if args.output:
        pathlib.Path(args.output).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()

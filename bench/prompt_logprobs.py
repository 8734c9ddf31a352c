#!/usr/bin/env python3
"""Checks and times prompt logprobs (/v1/completions with echo and logprobs).

Usage: bench/prompt_logprobs.py OSPREY DEVICE [SHAPE...]

The logprobs of a prompt must be bit-identical when the request runs alone, from the prefix cache,
beside other requests, and with other chunk sizes. Exit status 1 when they differ. Also prints how
far they are from the CPU's logprobs and from the logprobs that were returned when the tokens were
sampled, and the tokens per second of a prompt of 1,500 tokens for each SHAPE (gpt-oss-20b, ...,
with dummy weights).
"""
import concurrent.futures
import json
import subprocess
import sys
import time
import urllib.request

PROGRAM, DEVICE = sys.argv[1:3]
TEXTS = ["The capital of France is Paris.",
         "<|start|>user<|message|>What is 2 + 2?<|end|><|start|>assistant",
         "Copy: é ☃ 日本 🎉. " * 12, "The quick brown fox jumps over the lazy dog. " * 40, "a",
         "one two three four five six seven. " * 90]
LIMITS = [["--max-num-seqs", "16"], ["--max-num-seqs", "3", "--max-num-batched-tokens", "64"],
          ["--max-num-seqs", "64"]]
SPEED_TOKENS = 1500


class Server:
    def __init__(self, *options):
        command = [PROGRAM, "serve", "--port", "0", "--max-model-len", "4096", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)
        self.url = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)

    def choice(self, prompt, **more):
        body = json.dumps({"prompt": prompt, "temperature": 0, "logprobs": 5, **more}).encode()
        request = urllib.request.Request(self.url + "/v1/completions", body,
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=100) as answer:
            return json.load(answer)["choices"][0]

    def logprobs(self, prompt):
        """(token, its logprob, the top logprobs) of each token of the prompt."""
        found = self.choice(prompt, max_tokens=0, echo=True)["logprobs"]
        top = [t and tuple(t.items()) for t in found["top_logprobs"]]
        return list(zip(found["tokens"], found["token_logprobs"], top))


def under(limits):
    """The logprobs of all texts, each alone, and whether they are the same in other batches."""
    executor = concurrent.futures.ThreadPoolExecutor(40)
    with Server("--device", DEVICE, *limits) as server, executor as pool:
        alone = [server.logprobs(t) for t in TEXTS]
        for text in TEXTS:
            server.choice(text, max_tokens=2)
        cached = [server.logprobs(t) == a for t, a in zip(TEXTS, alone)]
        others = [pool.submit(server.choice, f"Tell me {i}", max_tokens=120, ignore_eos=True,
                              seed=i) for i in range(20)]
        beside = [b == a for b, a in zip(pool.map(server.logprobs, TEXTS * 2), alone * 2)]
        for other in others:
            other.result()
        answer = server.choice(TEXTS[0], max_tokens=40, ignore_eos=True, return_token_ids=True)
        n_prompt = len(answer["prompt_token_ids"])
        again = server.logprobs(answer["prompt_token_ids"] + answer["token_ids"])[n_prompt:]
        far = max(abs(a[1] - b) for a, b in zip(again, answer["logprobs"]["token_logprobs"]))
    print(DEVICE, *limits, f": from the cache {sum(cached)} of {len(cached)} the same, "
          f"beside others {sum(beside)} of {len(beside)}; "
          f"sampled tokens differ by at most {far:.4f}", flush=True)
    return alone, all(cached + beside)


def speed(shape, n_seqs):
    ids = [(i * 37) % 1900 + 10 for i in range(SPEED_TOKENS)]
    with Server("--device", DEVICE, "--load-format", "dummy", "--shape", shape,
                "--max-num-seqs", str(n_seqs)) as server:
        server.logprobs(ids[:64])
        began = time.monotonic()
        server.logprobs(ids)
        seconds = time.monotonic() - began
    print(shape, f"--max-num-seqs {n_seqs}: {len(ids) / seconds:.0f} tokens/s", flush=True)


def main():
    results = [under(limits) for limits in LIMITS]
    same = all(r[1] for r in results) and all(r[0] == results[0][0] for r in results)
    print("the same under all limits" if same else "NOT the same", flush=True)
    with Server("--device", "cpu") as server:
        gaps = [abs(x[1] - y[1]) for text, first in zip(TEXTS, results[0][0])
                for x, y in zip(first[1:], server.logprobs(text)[1:])]
    print(f"difference to the CPU: {len(gaps)} tokens, mean {sum(gaps) / len(gaps):.4f}, "
          f"maximum {max(gaps):.4f}", flush=True)
    for shape in sys.argv[3:]:
        speed(shape, 8)
        speed(shape, 64)
    return not same


if __name__ == "__main__":
    sys.exit(main())

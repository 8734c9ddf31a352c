#!/usr/bin/env python3
"""Log-probabilities of prompts (/v1/completions with echo and logprobs), held against themselves: the same to the bit alone,
with all of it in the prefix cache, beside other requests and in other chunks; near those of the CPU, and near what was told
when the tokens were drawn. Then how fast: tokens a second of a prompt of 1,500.

Usage: bench/prompt_logprobs.py OSPREY DEVICE [SHAPE...]    (SHAPE: gpt-oss-20b and the like, with dummy weights, for the speed)

Prints a line for each; ends with 1 when bits differ.
"""
import concurrent.futures
import json
import subprocess
import sys
import time
import urllib.request

PROGRAM, DEVICE = sys.argv[1:3]
TEXTS = ["The capital of France is Paris.", "<|start|>user<|message|>What is 2 + 2?<|end|><|start|>assistant",
         "Copy: é ☃ 日本 🎉. " * 12, "The quick brown fox jumps over the lazy dog. " * 40, "a",
         "one two three four five six seven. " * 90]
LIMITS = [["--max-num-seqs", "16"], ["--max-num-seqs", "3", "--max-num-batched-tokens", "64"], ["--max-num-seqs", "64"]]
SPEED_TOKENS = 1500


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen([PROGRAM, "serve", "--port", "0", "--max-model-len", "4096", *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)

    def choice(self, prompt, **more):
        body = json.dumps({"prompt": prompt, "temperature": 0, "logprobs": 5, **more}).encode()
        request = urllib.request.Request(self.url + "/v1/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=100) as answer:
            return json.load(answer)["choices"][0]

    def scores(self, prompt):
        told = self.choice(prompt, max_tokens=0, echo=True)["logprobs"]
        return list(zip(told["tokens"], told["token_logprobs"], [t and tuple(t.items()) for t in told["top_logprobs"]]))


def under(limits):
    """Those of all texts, alone; and whether they stay the same."""
    with Server("--device", DEVICE, *limits) as server, concurrent.futures.ThreadPoolExecutor(40) as pool:
        alone = [server.scores(t) for t in TEXTS]
        for text in TEXTS:
            server.choice(text, max_tokens=2)
        cached = [server.scores(t) == a for t, a in zip(TEXTS, alone)]
        others = [pool.submit(server.choice, f"Tell me {i}", max_tokens=120, ignore_eos=True, seed=i) for i in range(20)]
        beside = [b == a for b, a in zip(pool.map(server.scores, TEXTS * 2), alone * 2)]
        for other in others:
            other.result()
        drawn = server.choice(TEXTS[0], max_tokens=40, ignore_eos=True, return_token_ids=True)
        again = server.scores(drawn["prompt_token_ids"] + drawn["token_ids"])[len(drawn["prompt_token_ids"]):]
        far = max(abs(a[1] - b) for a, b in zip(again, drawn["logprobs"]["token_logprobs"]))
    print(DEVICE, *limits, f": in the cache {sum(cached)} of {len(cached)} the same, beside others {sum(beside)} of {len(beside)};"
          f" drawn tokens differ by {far:.4f} at most", flush=True)
    return alone, all(cached + beside)


def speed(shape, n_seqs):
    ids = [(i * 37) % 1900 + 10 for i in range(SPEED_TOKENS)]
    with Server("--device", DEVICE, "--load-format", "dummy", "--shape", shape, "--max-num-seqs", str(n_seqs)) as server:
        server.scores(ids[:64])
        began = time.monotonic()
        server.scores(ids)
        seconds = time.monotonic() - began
    print(shape, f"--max-num-seqs {n_seqs}: {len(ids) / seconds:.0f} tokens/s", flush=True)


def main():
    told = [under(limits) for limits in LIMITS]
    same = all(t[1] for t in told) and all(t[0] == told[0][0] for t in told)
    print("the same under all limits" if same else "NOT the same", flush=True)
    with Server("--device", "cpu") as server:
        gaps = [abs(x[1] - y[1]) for text, there in zip(TEXTS, told[0][0]) for x, y in zip(there[1:], server.scores(text)[1:])]
    print(f"from the CPU's: {len(gaps)} tokens, {sum(gaps) / len(gaps):.4f} in the mean, {max(gaps):.4f} at most", flush=True)
    for shape in sys.argv[3:]:
        speed(shape, 8)
        speed(shape, 64)
    return not same


if __name__ == "__main__":
    sys.exit(main())

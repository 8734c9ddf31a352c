#!/usr/bin/env python3
"""Measures the tokenizer and tiktoken on the same text and one core: `make bench-text`.

Needs build/tests/check_tokenizer and build/venv. The text has 8 MB in a fixed order: lines of the
documentation (40 %), of the sources (30 %), of JSON (15 %), and sentences in 14 other languages and
scripts with shuffled words (15 %). Prints the best of five runs of each.
"""

import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "text"))
import tiktoken  # noqa: E402
from strings import SENTENCES  # noqa: E402
from test_tiktoken import PATTERN, read_ranks, tokenizer_json  # noqa: E402

PROGRAM = ROOT / "build" / "tests" / "check_tokenizer"
SIZE = 8_000_000
RUNS = 5


def lines_of(*patterns):
    files = sorted(f for pattern in patterns for f in ROOT.glob(pattern))
    return [line for f in files for line in f.read_text(encoding="utf-8").splitlines(keepends=True)]


def shuffled(r):
    words = r.choice(SENTENCES[1:14]).split(" ")
    r.shuffle(words)
    return " ".join(words) + "\n"


def mixed_text():
    r = random.Random(1)
    parts = [(0.40, lines_of("docs/*.md", "*.md", "models/*/README.md")),
             (0.30, lines_of("src/*/*.[ch]", "tests/*/*.py")),
             (0.15, lines_of("models/osprey-nano/eval.jsonl")),
             (0.15, [shuffled(r) for _ in range(5000)])]
    blocks = []
    for share, lines in parts:
        n_bytes = 0
        while n_bytes < share * SIZE:
            at = r.randrange(len(lines))
            block = "".join(lines[at : at + 20])  # consecutive lines, as in a real text
            blocks.append(block)
            n_bytes += len(block.encode())
    r.shuffle(blocks)
    return "".join(blocks)


def best(work):
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - begin)
    return min(times), result


def main():
    text = mixed_text()
    n_bytes = len(text.encode())
    ranks = read_ranks()
    reference = tiktoken.Encoding("o200k", pat_str=PATTERN, mergeable_ranks=ranks,
                                  special_tokens={})
    with tempfile.TemporaryDirectory() as folder:
        sample, vocabulary = pathlib.Path(folder) / "text", pathlib.Path(folder) / "tokenizer.json"
        sample.write_text(text, encoding="utf-8")
        vocabulary.write_bytes(tokenizer_json(ranks))
        command = [PROGRAM, vocabulary, "time", sample]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        print("osprey  ", done.stdout.strip())
        data = n_bytes.to_bytes(4, "little") + text.encode()
        ids = subprocess.run([PROGRAM, vocabulary, "ids"], input=data, check=True,
                             capture_output=True).stdout[4:]
    encode_s, expected = best(lambda: reference.encode_ordinary(text))
    decode_s, _ = best(lambda: reference.decode_bytes(expected))
    print(f"tiktoken {n_bytes} bytes, {len(expected)} tokens, "
          f"encode {n_bytes / encode_s / 1e6:.1f} MB/s, "
          f"decode {n_bytes / decode_s / 1e6:.1f} MB/s")
    same = ids == b"".join(i.to_bytes(4, "little") for i in expected)
    print("the ids are the same" if same else "THE IDS DIFFER")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())

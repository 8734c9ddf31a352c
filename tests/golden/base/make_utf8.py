#!/usr/bin/env python3
"""Writes utf8.txt: byte strings and what Python's errors="replace" makes of them, in hex.

Every pair and triple of bytes from the edges of UTF-8's ranges, then seeded random mixtures.
    tests/golden/base/make_utf8.py > tests/golden/base/utf8.txt
"""
import itertools
import random

EDGES = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1,
         0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
LEADS = [0xE0, 0xED, 0xEF, 0xF0, 0xF1, 0xF4]
TAILS = [0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC2]


def cases():
    for n in (1, 2):
        yield from (bytes(c) for c in itertools.product(EDGES, repeat=n))
    yield from (bytes(c) for c in itertools.product(LEADS, TAILS, TAILS))
    rng = random.Random(1)
    for _ in range(400):
        yield bytes(rng.choice(EDGES + TAILS * 2) for _ in range(rng.randint(3, 12)))
    for _ in range(200):
        text = "".join(chr(rng.choice([0x41, 0xE9, 0x20AC, 0x1F600, 0x10FFFF])) for _ in range(4))
        cut = bytearray(text.encode())
        del cut[rng.randrange(len(cut))]
        yield bytes(cut)


for raw in cases():
    print(raw.hex(), raw.decode("utf-8", errors="replace").encode().hex())

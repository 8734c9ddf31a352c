#!/usr/bin/env python3
"""Writes long_vectors.json: long words of few letters and their ids, as tiktoken encodes them.

Few letters make many equal pairs side by side, so the order of merges shows. Needs tiktoken."""

import json
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "text"))

import tiktoken  # noqa: E402
from test_tiktoken import PATTERN, SPECIALS, read_ranks  # noqa: E402

ALPHABETS = ["a", "ab", "aab", "eat", "xyz", "=-", "! ?", " \n", "etaoinshrdlu", "аоен", "的一是", "🙂a", "\u0301o"]

r = random.Random(16)
encoding = tiktoken.Encoding("o200k", pat_str=PATTERN, mergeable_ranks=read_ranks(), special_tokens=SPECIALS)
texts = ["".join(r.choices(letters, k=n)) for letters in ALPHABETS for n in (3, 5, 60, 127, 128, 129, 130, 400)]
vectors = {text: encoding.encode_ordinary(text) for text in texts}
(HERE / "long_vectors.json").write_text(json.dumps(vectors, ensure_ascii=False, indent=0) + "\n")

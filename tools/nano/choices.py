"""Templates with choices: "[Take|Put] {b} [off|from] {a}." stands for several wordings."""

import itertools
import random
import re
import zlib


def _drawn(parts, limit, seed):
    """Up to limit of the combinations of parts, evenly spread, the same ones every time."""
    total = 1
    for part in parts:
        total *= len(part)
    if total <= limit:
        return ["".join(choice) for choice in itertools.product(*parts)]
    rng = random.Random(seed)
    return ["".join(rng.choice(part) for part in parts) for _ in range(limit)]


def expanded(text, limit=16):
    """The wordings of all lines of text, at most limit a line, without repeats; \\n is a line break."""
    found = []
    for line in text.strip().split("\n"):
        pieces = re.split(r"\[([^]]*)\]", line.strip())
        parts = [piece.split("|") if n % 2 else [piece] for n, piece in enumerate(pieces)]
        for wording in _drawn(parts, limit, zlib.crc32(line.encode())):
            wording = re.sub(r"\s+([?.!,;:])", r"\1", re.sub(r" +", " ", wording)).strip()
            found.append(wording.replace("\\n", "\n"))
    return list(dict.fromkeys(found))

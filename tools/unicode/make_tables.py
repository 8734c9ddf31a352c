#!/usr/bin/env python3
"""Writes src/text/token/unicode_tables.c: the class of every code point, by the reference.

The reference is tiktoken, whose regular expressions split the text. So the classes are queried from
its regular expression engine: tiktoken accepts any pattern and drops text that the pattern does not
match, and with the 256 bytes as the vocabulary the remaining ids are the matched characters. Every
code point except the surrogates is queried, class by class. The engine's highest Unicode version is
found the same way.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install tiktoken
    /tmp/v/bin/python tools/unicode/make_tables.py            # writes the table
    /tmp/v/bin/python tools/unicode/make_tables.py --check    # exit 1 if it would change
    /tmp/v/bin/python tools/unicode/make_tables.py --version  # tiktoken's and Unicode's
"""

import importlib.metadata
import pathlib
import sys

import tiktoken

OUTPUT = pathlib.Path(__file__).resolve().parents[2] / "src" / "text" / "token" / "unicode_tables.c"
BLOCK = 128  # code points a block: the first block is then exactly ASCII
N_CODE_POINTS = 0x110000

# Class bit -> the expression that matches its members. The classes are disjoint.
CLASSES = {
    1 << 1: r"[\p{Lu}\p{Lt}]",
    1 << 2: r"\p{Ll}",
    1 << 3: r"[\p{Lm}\p{Lo}]",
    1 << 4: r"\p{M}",
    1 << 5: r"\p{N}",
    1 << 6: r"[^\S\r\n]",
    1 << 7: r"[\r\n]",
}
OTHER = 1 << 0
VERSIONS = ["12.1", "13.0", "14.0", "15.0", "15.1", "16.0", "17.0", "18.0", "19.0"]

# Hard-coded in pretokenize.c: other forms of the letters of a contraction, ignoring case.
FOLDS = {"s": "Ss\u017f", "t": "Tt", "r": "Rr", "e": "Ee", "v": "Vv", "m": "Mm", "l": "Ll", "d": "Dd"}


def matches(pattern, text):
    ranks = {bytes([b]): b for b in range(256)}
    encoding = tiktoken.Encoding("probe", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return bytes(encoding.encode_ordinary(text)).decode()


def unicode_version():
    known = []
    for version in VERSIONS:
        try:
            matches(rf"\p{{Age={version}}}", "a")
            known.append(version)
        except ValueError:
            pass
    if not known or known[-1] == VERSIONS[-1]:
        raise SystemExit("the engine's Unicode version is not among those that this script knows")
    return known[-1]


def probe():
    everything = "".join(chr(c) for c in range(N_CODE_POINTS) if not 0xD800 <= c < 0xE000)
    classes = bytearray([OTHER]) * N_CODE_POINTS
    for bit, pattern in CLASSES.items():
        for character in matches(pattern, everything):
            if classes[ord(character)] != OTHER:
                raise SystemExit(f"U+{ord(character):04X} is in two classes")
            classes[ord(character)] = bit
    for letter, forms in FOLDS.items():
        if matches(f"(?i:{letter})", everything) != forms:
            raise SystemExit(f"the forms of {letter!r} are not {forms!r}: teach pretokenize.c")
    return classes


def two_stage(classes):
    """The distinct blocks, and the index of its block for each block of code points. Ends after the
    last block that is not all OTHER."""
    plain = bytes([OTHER]) * BLOCK
    blocks, index = [], []
    for start in range(0, N_CODE_POINTS, BLOCK):
        block = bytes(classes[start : start + BLOCK])
        if block not in blocks:
            blocks.append(block)
        index.append(blocks.index(block))
    while blocks[index[-1]] == plain:
        index.pop()
    if len(blocks) > 256:
        raise SystemExit(f"{len(blocks)} blocks do not fit the 8-bit index")
    return blocks, index


def rows(values, per_row=24):  # with 24 values a row has at most 100 columns
    return "\n".join(
        "    " + ",".join(str(v) for v in values[i : i + per_row]) + ","
        for i in range(0, len(values), per_row)
    )


def source(blocks, index):
    out = [
        "/* The class of every code point. Written by tools/unicode/make_tables.py; do not edit.",
        f" * Unicode {unicode_version()}, as the regular expressions of tiktoken"
        f" {importlib.metadata.version('tiktoken')} see it, asked for all code points. */",
        '#include "text/token/unicode_tables.h"',
        "",
        "/* clang-format off */",
        f"const uint8_t unicode_block_of[UNICODE_N_BLOCKS] = {{\n{rows(index)}\n}};",
        "",
        "const uint8_t unicode_blocks[][UNICODE_BLOCK] = {",
        *("{\n" + rows(block) + "\n}," for block in blocks),
        "};",
        "/* clang-format on */",
        f'\nstatic_assert(UNICODE_N_BLOCKS == {len(index)}, "blocks before the last plain one");',
        f'static_assert(UNICODE_BLOCK == {BLOCK}, "code points a block");',
    ]
    return "\n".join(out) + "\n"


def main():
    if "--version" in sys.argv:
        print(f"tiktoken {importlib.metadata.version('tiktoken')}, Unicode {unicode_version()}")
        return
    text = source(*two_stage(probe()))
    if "--check" in sys.argv:
        if OUTPUT.read_text() != text:
            raise SystemExit(f"{OUTPUT} is not what the engine says")
        print(f"{OUTPUT.name} agrees with the engine on every code point")
        return
    OUTPUT.write_text(text)


if __name__ == "__main__":
    main()

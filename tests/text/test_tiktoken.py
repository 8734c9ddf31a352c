"""The tokenizer against tiktoken, the reference, with no difference allowed.

TOKENIZER_STRINGS sets how many strings are compared (200,000; a full run has 1,000,000 and then
also compares every unassigned code point).
BUILD names the folder with tests/check_tokenizer (build)."""

import base64
import hashlib
import json
import os
import pathlib
import struct
import subprocess

import pytest
import tiktoken

from strings import Strings

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / os.environ.get("BUILD", "build") / "tests" / "check_tokenizer"
GOLDEN = ROOT / "tests" / "golden" / "tokenizer"
VOCABULARY = GOLDEN / "o200k_base.tiktoken"
N_STRINGS = int(os.environ.get("TOKENIZER_STRINGS", 200_000))
BATCH = 25_000
N_FULL = 1_000_000
N_SHOWN = 5

CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTION,
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTION,
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
PUBLISHED_SHA256 = "0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3"  # of tokenizer.json
NAMED = {199998: "startoftext", 199999: "endoftext", 200002: "return", 200003: "constrain", 200005: "channel",
         200006: "start", 200007: "end", 200008: "message", 200012: "call", 200018: "endofprompt"}
SPECIALS = {f"<|{NAMED.get(i, f'reserved_{i}')}|>": i for i in range(199998, 201088)}
SPECIALS["<|reserved_200018|>"] = 200018


def filter_records(vocabulary, mode, strings, unpack):
    data = b"".join(struct.pack("<I", len(s)) + s for s in strings)
    done = subprocess.run([PROGRAM, vocabulary, mode], input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    records, at = [], 0
    for _ in strings:
        n = int.from_bytes(done.stdout[at : at + 4], "little")
        records.append(unpack(done.stdout, at + 4, n))
        at += 4 + n * (4 if mode != "detok" else 1)
    assert at == len(done.stdout)
    return records


def read_ids(data, at, n):
    return list(struct.unpack_from(f"<{n}i", data, at))


def encode(vocabulary, strings, mode="ids"):
    return filter_records(vocabulary, mode, strings, read_ids)


def differences(strings, got, expected):
    different = [(s, g, e) for s, g, e in zip(strings, got, expected, strict=True) if g != e]
    for s, g, e in different[:N_SHOWN]:
        print(f"{s!r}\n  osprey   {g}\n  expected {e}")
    return len(different)


def text_of(string):
    return string.decode("utf-8", "replace")


def read_ranks():
    lines = VOCABULARY.read_bytes().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}


@pytest.fixture(scope="module")
def ranks():
    return read_ranks()


@pytest.fixture(scope="module")
def reference(ranks):
    return tiktoken.Encoding("o200k_harmony", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=SPECIALS)


@pytest.fixture(scope="module")
def strings(ranks):
    return Strings(list(ranks))


def test_generated_strings(reference, strings):
    n_different = n_tokens = 0
    for seed, start in enumerate(range(0, N_STRINGS, BATCH)):
        batch = strings.make(seed, min(BATCH, N_STRINGS - start))
        expected = reference.encode_ordinary_batch([text_of(s) for s in batch], num_threads=2)
        n_different += differences(batch, encode(VOCABULARY, batch), expected)
        n_tokens += sum(map(len, expected))
    print(f"{N_STRINGS} strings, {n_tokens} tokens, {n_different} differences")
    assert n_different == 0


def test_every_code_point(reference):
    """Each next to characters that show its class."""
    everything = N_STRINGS >= N_FULL
    assigned = lambda c: c < 0x40000 or 0xE0000 <= c < 0xE1000  # beyond are only private ones
    codes = [c for c in range(0x110000)
             if not 0xD800 <= c < 0xE000 and (everything or assigned(c) or c % 61 == 0)]
    show = "a{0}A 1{0} {0}'s\n{0}".format
    texts = ["".join(show(chr(c)) for c in codes[i : i + 64]) for i in range(0, len(codes), 64)]
    batch = [t.encode() for t in texts]
    expected = reference.encode_ordinary_batch(texts, num_threads=2)
    assert differences(batch, encode(VOCABULARY, batch), expected) == 0


def test_control_tokens(reference, strings):
    """Recognised by the function for trusted text, and never otherwise."""
    names = list(SPECIALS) + ["<|", "<|start", "start|>", "<|reserved_1|>", "<|reserved_201088|>"]
    strings.tokens = [n.encode() for n in names] + [b" ", b"hi", b"\n\n", b"  ", b"'s"]
    strings.make(7, 1)
    batch = [strings.from_tokens() for _ in range(5_000)]
    ordinary = reference.encode_ordinary_batch([text_of(s) for s in batch])
    controlled = [reference.encode(text_of(s), allowed_special="all") for s in batch]
    assert differences(batch, encode(VOCABULARY, batch), ordinary) == 0
    assert differences(batch, encode(VOCABULARY, batch, "specials"), controlled) == 0
    assert max(max(ids) for ids in ordinary) < 199998 < max(max(ids) for ids in controlled)


def test_streaming_decode(ranks):
    batch = Strings(list(ranks)).make(11, 30_000)
    batch += [bytes(b) for b in zip(*[iter(os.urandom(60_000))] * 6)]
    got = filter_records(VOCABULARY, "detok", batch, lambda data, at, n: data[at : at + n])
    assert differences(batch, got, [text_of(s).encode() for s in batch]) == 0


def test_vectors():
    vectors = json.loads((GOLDEN / "tokenizer_vectors.json").read_text())
    batch = [s.encode() for s in vectors]
    assert len(batch) == 35
    assert differences(batch, encode(VOCABULARY, batch), list(vectors.values())) == 0


# ---- tokenizer.json ----


def byte_letters():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in plain}
    for b in range(256):
        letters.setdefault(b, chr(256 + len(letters) - len(plain)))
    return letters


def all_merges(ranks, spell):
    """Every split of every token into two, in the order of the published file."""
    for token in ranks:
        pairs = [(token[:i], token[i:]) for i in range(1, len(token))]
        pairs = [p for p in pairs if p[0] in ranks and p[1] in ranks]
        for left, right in sorted(pairs, key=lambda p: (ranks[p[0]], ranks[p[1]])):
            yield [spell(left), spell(right)]


def added_tokens():
    names = {i: name for name, i in SPECIALS.items() if i < 200018} | {200018: "<|endofprompt|>"}
    return [{"id": i, "content": names[i], "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True} for i in sorted(names)]


def tokenizer_json(ranks):
    """The tokenizer.json that gpt-oss-20b and -120b are published with, byte for byte."""
    letters = byte_letters()
    spell = lambda token: "".join(letters[b] for b in token)
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens(), "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False},
            {**byte_level, "add_prefix_space": False, "use_regex": False}]},
        "post_processor": {**byte_level, "trim_offsets": False},
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                  "vocab": {spell(token): i for token, i in ranks.items()}, "merges": list(all_merges(ranks, spell))},
    }, ensure_ascii=False, indent=2).encode()


def test_tokenizer_json_of_o200k(ranks, reference, strings, tmp_path):
    data = tokenizer_json(ranks)
    assert hashlib.sha256(data).hexdigest() == PUBLISHED_SHA256
    (tmp_path / "tokenizer.json").write_bytes(data)
    batch = strings.make(23, 5_000) + [n.encode() for n in SPECIALS]
    expected = [reference.encode(text_of(s), allowed_special="all") for s in batch]
    assert differences(batch, encode(tmp_path, batch, "specials"), expected) == 0


def test_tokenizer_json_of_the_bundled_model(strings):
    path = ROOT / "models" / "osprey-nano" / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    bytes_of = {letter: b for b, letter in byte_letters().items()}
    ranks = {bytes(bytes_of[c] for c in text): i for text, i in tokenizer["model"]["vocab"].items()}
    specials = {t["content"]: t["id"] for t in tokenizer["added_tokens"]}
    nano = tiktoken.Encoding("nano", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=specials)
    batch = strings.make(29, 10_000) + [n.encode() for n in specials]
    expected = [nano.encode(text_of(s), allowed_special="all") for s in batch]
    assert differences(batch, encode(path, batch, "specials"), expected) == 0

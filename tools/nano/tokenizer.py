"""The tokenizer of osprey-nano: learns a small byte-level BPE and writes it in the published layout.

    python3 tools/nano/tokenizer.py [--out models/osprey-nano]

The id of a token is its merge rank: the 256 bytes come first, then the merges in the order they were
learnt, then the control tokens. Text with a digit is never merged, so every digit is a token of its own.
"""

import argparse
import collections
import heapq
import json
import pathlib
import random

import regex
from tokenizers import Tokenizer

import harmony

N_ORDINARY = 2048 - len(harmony.SPECIALS)
SPLIT = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


def byte_letters():
    """The usual map of bytes to printable letters: printable bytes stand for themselves."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + n) for n, b in enumerate(others)}


LETTERS = byte_letters()


def learn(texts, n_tokens):
    """Learns merges from texts; returns the tokens as byte strings in rank order."""
    counts = collections.Counter(
        p for t in texts for p in regex.findall(SPLIT, t) if not regex.search(r"\p{N}", p)
    )
    words = [[bytes([b]) for b in p.encode()] for p in counts]
    weights = list(counts.values())
    tokens = [bytes([b]) for b in sorted(range(256), key=lambda b: (ord(LETTERS[b]) > 255, b))]
    pair_counts, where = collections.Counter(), collections.defaultdict(set)
    for w, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pair_counts[pair] += weights[w]
            where[pair].add(w)
    queue = [(-count, pair) for pair, count in pair_counts.items()]
    heapq.heapify(queue)
    known = set(tokens)
    while len(tokens) < n_tokens:
        count, pair = heapq.heappop(queue)
        if -count != pair_counts[pair]:
            continue
        merged = pair[0] + pair[1]
        if merged not in known:
            known.add(merged)
            tokens.append(merged)
        for w in where.pop(pair):
            touched = _merge(words[w], pair, merged)
            for p, change in touched.items():
                pair_counts[p] += change * weights[w]
                if change > 0:
                    where[p].add(w)
                if p != pair and pair_counts[p] > 0:
                    heapq.heappush(queue, (-pair_counts[p], p))
        pair_counts[pair] = 0
    return tokens


def _merge(word, pair, merged):
    """Merges a pair inside a word; returns how the counts of the pairs of the word change."""
    change = collections.Counter()
    change.subtract(zip(word, word[1:]))
    i = 0
    while i + 1 < len(word):
        if (word[i], word[i + 1]) == pair:
            word[i : i + 2] = [merged]
        i += 1
    change.update(zip(word, word[1:]))
    return change


def all_merges(tokens):
    """Every valid split of every token, ordered by the rank of the merged token."""
    rank = {t: i for i, t in enumerate(tokens)}
    return [(t[:k], t[k:]) for t in tokens for k in range(1, len(t)) if t[:k] in rank and t[k:] in rank]


def to_letters(token):
    return "".join(LETTERS[b] for b in token)


def tokenizer_json(tokens):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    added = [
        {
            "id": len(tokens) + n,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for n, text in enumerate(harmony.SPECIALS)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False},
                byte_level,
            ],
        },
        "post_processor": {**byte_level, "trim_offsets": False, "use_regex": True},
        "decoder": {**byte_level, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": {to_letters(t): i for i, t in enumerate(tokens)},
            "merges": [[to_letters(a), to_letters(b)] for a, b in all_merges(tokens)],
        },
    }


def write(tokens, folder):
    def dump(name, data, **style):
        (folder / name).write_text(json.dumps(data, ensure_ascii=False, **style) + "\n", encoding="utf-8")

    folder.mkdir(parents=True, exist_ok=True)
    data = tokenizer_json(tokens)
    dump("tokenizer.json", data, separators=(",", ":"))
    names = {"bos_token": "<|startoftext|>", "eos_token": "<|return|>", "pad_token": "<|endoftext|>"}
    dump("special_tokens_map.json", names, indent=2)
    decoder = {
        str(a["id"]): {
            k: a[k] for k in ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
        }
        for a in data["added_tokens"]
    }
    dump(
        "tokenizer_config.json",
        {
            "added_tokens_decoder": decoder,
            **names,
            "clean_up_tokenization_spaces": False,
            "extra_special_tokens": {},
            "model_input_names": ["input_ids", "attention_mask"],
            "model_max_length": 131072,
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
        indent=2,
    )


def encode_by_rank(text, rank):
    """The encoding that defines the vocabulary: merge the adjacent pair of lowest rank, leftmost first."""
    ids = []
    for piece in regex.findall(SPLIT, text):
        raw = piece.encode()
        parts = [raw] if raw in rank else [bytes([b]) for b in raw]
        while len(parts) > 1:
            best = min((rank.get(parts[i] + parts[i + 1], 1 << 30), i) for i in range(len(parts) - 1))
            if best[0] == 1 << 30:
                break
            parts[best[1] : best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]
        ids += [rank[p] for p in parts]
    return ids


def load(folder):
    """The encoder and the id of each control token, from a folder with tokenizer.json."""
    data = json.loads((pathlib.Path(folder) / "tokenizer.json").read_text(encoding="utf-8"))
    special_ids = {a["content"]: a["id"] for a in data["added_tokens"]}
    plain = Tokenizer.from_str(json.dumps({**data, "added_tokens": []}))
    encode = lambda text: plain.encode(text, add_special_tokens=False).ids
    return harmony.Encoder(encode, special_ids)


def verify(tokens, folder, texts):
    """Compares the written file, as the tokenizers library reads it, with the definition."""
    rank = {t: i for i, t in enumerate(tokens)}
    encoder = load(folder)
    plain = Tokenizer.from_file(str(folder / "tokenizer.json"))
    wrong = 0
    for text in texts:
        ids = encoder.encode(text)
        wrong += ids != encode_by_rank(text, rank) or plain.decode(ids, skip_special_tokens=False) != text
    return wrong


def main():
    import conversations
    import words

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "models/osprey-nano"
    )
    parser.add_argument("--conversations", type=int, default=20000)
    args = parser.parse_args()

    def texts(seed, count):
        maker = conversations.Maker(random.Random(seed))
        for _ in range(count):
            conversation, target = maker.conversation(long=False)
            yield from harmony.prompt_pieces(conversation) + harmony.target_pieces(target)

    specials = harmony.SPECIAL_SET
    corpus = [t for t in texts(1, args.conversations) if t not in specials]
    corpus += [f" {c}" for c in [*words.CAPITALS, *words.CAPITALS.values()] for _ in range(20)]
    tokens = learn(corpus, N_ORDINARY)
    write(tokens, args.out)
    rng = random.Random(3)
    letters = list("aaabcde  '\n\r\t.,!/AB19é日本💖İſ\u0301\u00a0\u3000")
    noise = ["".join(rng.choices(letters, k=rng.randint(1, 30))) for _ in range(20000)]
    sample = [t for t in texts(2, 2000) if t not in specials]
    wrong = verify(tokens, args.out, noise + sample)
    n_ids = sum(len(encode_by_rank(t, {t: i for i, t in enumerate(tokens)})) for t in sample[:300])
    print(
        f"{len(tokens)} tokens, {len(all_merges(tokens))} merges, "
        f"{sum(len(t) for t in sample[:300]) / n_ids:.2f} letters a token, "
        f"{wrong} of {len(noise) + len(sample)} texts encoded differently"
    )


if __name__ == "__main__":
    main()

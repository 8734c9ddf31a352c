"""Writes eval.jsonl: held-out prompts with what a right answer must be.

    python3 tools/nano/make_eval.py [--model models/osprey-nano]
    python3 tools/nano/make_eval.py --split dev --out build/dev.jsonl

Templates (capitals, instructions, requests) and entities (names, numbers, sums, strings, functions) are
those that the training never draws. See README.md for the fields of a line.
"""

import argparse
import json
import pathlib
import random

import conversations
import harmony
import phrases
import tokenizer
import words

COUNTS = {
    "capital": 240,
    "arithmetic": 110,
    "instruction": 210,
    "recall": 200,
    "tool_call": 220,
    "tool_result": 200,
    "copy": 210,
}
RECALL_TOKENS_MIN = 1000


def make_task(maker, ability, n):
    if ability == "capital":
        country = list(words.CAPITALS)[n % len(words.CAPITALS)]
        if n >= len(words.CAPITALS):
            return maker.follow_up(country, country)
        return maker.capital_task(country, country, maker.phrase(phrases.CAPITAL).format(c=country))
    if ability == "instruction":
        kind = maker.pick(["capital", "capital", "recall", "arithmetic"])
        return maker.recall(maker.rng.randrange(300)) if kind == "recall" else getattr(maker, kind)()
    if ability == "recall":
        return maker.recall(maker.rng.randrange(3600, 4800))
    return getattr(maker, ability)()


def expectation(ability, task, target, style):
    if "name" in target:
        return {"kind": "tool_call", "name": target["name"], "arguments": target["arguments"]}
    expect = {"kind": "final"}
    if style:
        facts = {
            "upper": [f.upper() for f in task.facts],
            "one_word": [target["final"]] if task.facts else [],
            "pirate": task.facts,
        }[style]
        expect["style"] = style
        if style == "pirate":
            expect["any_of"] = phrases.PIRATE_WORDS
        if facts:
            expect["contains"] = facts
    elif ability in ("capital", "arithmetic", "copy"):
        expect["equals"] = target["final"]
    else:
        expect["contains"] = task.facts
    return expect


def told_tokens_ago(encoder, conversation, value):
    """How many tokens lie between the first mention of a value and the end of the prompt."""
    ids = encoder(harmony.prompt_pieces(conversation))
    for n in range(len(conversation["messages"])):
        content = conversation["messages"][n]["content"]
        if value in content:
            rest = dict(conversation, messages=[{"role": "user", "content": content.split(value)[0]}])
            before = len(
                encoder(
                    harmony.prompt_pieces(
                        {**rest, "messages": conversation["messages"][:n] + rest["messages"]}
                    )
                )
            )
            return len(ids) - before
    return 0


def lines(encoder, seed, split):
    for ability, count in COUNTS.items():
        maker = conversations.Maker(random.Random(f"{seed} {ability}"), split)
        n = 0
        while n < count:
            task, date = make_task(maker, ability, n), maker.date()
            for effort in (0, 2) if ability == "arithmetic" else (maker.rng.randrange(3),):
                style, instruction, target = (
                    maker.styled(task, effort)
                    if ability == "instruction"
                    else (None, None, maker.target(task, effort))
                )
                conversation = maker.assemble(task, effort, date, instruction)
                if (
                    ability == "recall"
                    and told_tokens_ago(encoder, conversation, task.facts[0]) <= RECALL_TOKENS_MIN
                ):
                    n -= 1
                    break
                n_target = len(encoder(harmony.target_pieces(target)))
                suffix = "-" + conversations.EFFORTS[effort] if ability == "arithmetic" else ""
                yield {
                    "id": f"{ability}-{n + 1:04d}{suffix}",
                    "ability": ability,
                    **conversation,
                    "max_tokens": n_target * 3 // 2 + 48,
                    "expect": expectation(ability, task, target, style),
                }, target
            n += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--model",
        type=pathlib.Path,
        default=pathlib.Path(__file__).resolve().parents[2] / "models/osprey-nano",
    )
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--split", choices=conversations.SPLITS[1:], default="test")
    parser.add_argument("--out", type=pathlib.Path, help="default: eval.jsonl of the model folder")
    args = parser.parse_args()
    path = args.out or args.model / "eval.jsonl"
    with path.open("w", encoding="utf-8") as out:
        for line, _ in lines(tokenizer.load(args.model), args.seed, args.split):
            out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

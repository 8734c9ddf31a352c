"""Judges completions of the lines of eval.jsonl; any engine can use it."""

import json
import statistics

import harmony


def is_right(expect, completion):
    """Whether a parsed completion (harmony.parse_completion) meets the expectation of its line."""
    if completion["kind"] != expect["kind"]:
        return False
    if expect["kind"] == "tool_call":
        try:
            arguments = json.loads(completion["content"])
        except ValueError:
            return False
        return completion["name"] == expect["name"] and same_json(arguments, expect["arguments"])
    text = completion["content"].strip()
    return (
        text == expect.get("equals", text).strip()
        and all(part in text for part in expect.get("contains", []))
        and has_style(text, expect)
    )


def same_json(a, b):
    """Equality of JSON values; 1 is 1.0, but true is not 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_json(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def has_style(text, expect):
    style = expect.get("style")
    if style == "upper":
        return text.upper() == text and text.lower() != text
    if style == "one_word":
        return len(text.split()) == 1
    if style == "pirate":
        return any(word in text for word in expect["any_of"])
    return True


def ends_well(completion):
    return completion["end"] == {"final": "<|return|>", "tool_call": "<|call|>"}.get(completion["kind"], "")


def table(lines, texts, count_tokens):
    """The figures: percent right by ability, their mean, right endings, and the length of the working by effort."""
    right, working, endings, failures = {}, {}, [], []
    for line, text in zip(lines, texts):
        completion = harmony.parse_completion(text)
        ok = is_right(line["expect"], completion)
        right.setdefault(line["ability"], []).append(ok)
        endings.append(ends_well(completion))
        if line["ability"] == "arithmetic":
            right.setdefault(f"arithmetic at {line['effort']} effort", []).append(ok)
            working.setdefault(line["effort"], []).append(count_tokens(completion["analysis"]))
        if not ok:
            failures.append({"id": line["id"], "text": text, "expect": line["expect"]})
    percent = {ability: round(100 * sum(oks) / len(oks), 2) for ability, oks in right.items()}
    abilities = [p for a, p in percent.items() if " " not in a]
    medians = {effort: statistics.median(lengths) for effort, lengths in working.items()}
    figures = {
        **percent,
        "ending": round(100 * sum(endings) / len(endings), 2),
        "mean": round(sum(abilities) / len(abilities), 2),
        "lines": len(lines),
    }
    if {"low", "high"} <= medians.keys():
        figures["analysis tokens (median)"] = medians
        figures["analysis high/low"] = round(medians["high"] / max(1, medians["low"]), 2)
    return figures, failures

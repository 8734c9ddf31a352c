"""The test of osprey-nano: no template of it can come up in training (tools/nano/check_held_out.py)."""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/nano"))

import check_held_out  # noqa: E402


def test_no_test_template_can_come_up_in_training():
    lists = {name: table[check_held_out.TEST] for name, table in check_held_out.tables()}
    assert sum(map(len, lists.values())) > 200
    assert check_held_out.coincidences(lists) == []


def test_a_dressed_training_template_is_found():
    dressed = {}
    for name, table in check_held_out.tables():
        template = table[check_held_out.TRAIN][7]
        dressed[name] = ["Good morning! Please now " + template.lower().rstrip(".?!") + " Thank you."]
    assert len(check_held_out.coincidences(dressed)) == len(dressed)


def test_at_least_200_prompts_an_ability():
    counts = {}
    with (ROOT / "models/osprey-nano/eval.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            ability = json.loads(line)["ability"]
            counts[ability] = counts.get(ability, 0) + 1
    assert len(counts) == 7 and min(counts.values()) >= 200

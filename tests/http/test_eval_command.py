"""`osprey eval nano`: its table, its JSON and its errors, on a handful of prompts."""

import json

from conftest import ROOT, run

FEW = ("eval", "nano", "--max-model-len", "4096", "--limit", "2", "--skip-ablation")


def test_json():
    done = run(*FEW, "--ability", "capital", "--json", timeout_s=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["model"] == "osprey-nano"
    rows = {row["name"]: row for row in report["table"]}
    assert set(rows) == {"capital", "ending"}
    assert rows["capital"]["n"] == 2
    assert rows["capital"]["right"] == 2
    assert rows["ending"]["met"]
    assert report["with_sinks"]["mean_percent"] == 100
    assert report["targets_met"]


def test_without_sinks_it_is_another_model():
    done = run(*FEW, "--ability", "copy", "--no-sinks", "--json", timeout_s=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert "with_sinks" not in report
    assert report["without_sinks"]["abilities"][0]["name"] == "copy"


def test_table_and_wrong_answers(tmp_path):
    line = json.loads((ROOT / "models/osprey-nano/eval.jsonl").open().readline())
    line["expect"] = {"kind": "final", "equals": "Atlantis"}
    (tmp_path / "eval.jsonl").write_text(json.dumps(line) + "\n")
    done = run(*FEW, "--file", str(tmp_path / "eval.jsonl"), "--show-wrong", "1", "--strict", timeout_s=120)
    assert done.returncode == 1
    assert "0/1" in done.stdout and "NO" in done.stdout
    assert "Atlantis" in done.stderr and line["id"] in done.stderr


def test_errors(tmp_path):
    assert run("eval").returncode == 2
    assert run("eval", "giga").returncode == 2
    done = run("eval", "nano", "--ability", "juggling")
    assert done.returncode == 1 and "juggling" in done.stderr
    (tmp_path / "bad.jsonl").write_text('{"id": "x"}\n')
    done = run("eval", "nano", "--file", str(tmp_path / "bad.jsonl"))
    assert done.returncode == 1 and "line 1" in done.stderr

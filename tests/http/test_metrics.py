"""/metrics is what docs/server.md says, name by name, and is text that Prometheus reads."""

import pathlib
import re
import urllib.request

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
NAME = r"(?:vllm|osprey):\w+|process_\w+|http_requests_total"
SAMPLE = re.compile(r'([\w:]+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')


def answer_of(server):
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as answer:
        return answer.read().decode()


def types_of(text):
    return dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))


def documented(text):
    return set(re.findall(rf"`({NAME})(?:\{{[^`]*\}})?`", text))


def test_every_metric_is_documented_and_exists(server):
    section = (DOCS / "server.md").read_text().split("\n## Metrics\n")[1].split("\n## ")[0]
    assert documented(section) == set(types_of(answer_of(server)))


def test_no_family_has_two_types(server):
    """OpenMetrics names the family of a counter without _total, and a family has one type."""
    rows = re.findall(r"^# TYPE (\S+) (\w+)$", answer_of(server), re.MULTILINE)
    assert all(name.endswith("_total") for name, kind in rows if kind == "counter")
    families = [name.removesuffix("_total") if kind == "counter" else name for name, kind in rows]
    assert sorted(families) == sorted(set(families))


def test_other_pages_name_existing_metrics(server):
    there = set(types_of(answer_of(server)))
    for page in DOCS.glob("*.md"):
        assert documented(page.read_text()) <= there, page


def test_every_line_is_a_figure_of_its_type(server):
    """A line is help, type or sample; a sample follows the type of its name, and counts are not negative."""
    text = answer_of(server)
    types, current = types_of(text), None
    for line in text.splitlines():
        if line.startswith("# "):
            word, name = line.split()[1:3]
            assert word in ("HELP", "TYPE")
            assert word == "HELP" or name == current
            current = name
            continue
        found = SAMPLE.fullmatch(line)
        assert found, line
        suffix = found[1].removeprefix(current)
        assert suffix in (("_bucket", "_sum", "_count") if types[current] == "histogram" else ("",)), line
        assert float(found[3]) >= 0

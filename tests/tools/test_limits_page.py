"""docs/limits.md and SECURITY.md name constants, options and tests that exist."""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = ROOT / "build" / "osprey"
SOURCES = [p for top in ("src", "include") for p in (ROOT / top).rglob("*") if p.suffix in (".c", ".h")]
TESTS = [p for p in (ROOT / "tests").rglob("*") if p.suffix in (".c", ".py") and "__pycache__" not in p.parts]


@pytest.fixture(scope="module")
def words():
    found = {}
    for name, paths in (("sources", SOURCES), ("tests", TESTS)):
        found[name] = set()
        for path in paths:
            found[name] |= set(re.findall(r"\w+", path.read_text(errors="replace")))
    found["files"] = {p.stem for p in TESTS} | {p.name for p in TESTS}
    found["options"] = set(re.findall(r"--[a-z-]+", subprocess.run(
        [PROGRAM, "serve", "--help"], capture_output=True, text=True, check=True).stdout))
    return found


@pytest.mark.parametrize("page", ["docs/limits.md", "SECURITY.md"])
def test_names_exist(words, page):
    named = set(re.findall(r"`([A-Za-z_][\w.]*|--[a-z-]+)`", (ROOT / page).read_text()))
    assert len(named) > 20, named
    missing = [
        name
        for name in named
        if not (
            name in words["options"]
            if name.startswith("--")
            else name in words["tests"] | words["files"]
            if name.startswith("test_")
            else name in words["sources"] | words["tests"] | words["files"]
        )
    ]
    assert not missing, f"{page} names what does not exist: {missing}"

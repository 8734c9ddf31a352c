"""tools/check_words finds every word of its list when one is planted, and nothing in a clean tree."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys

import pytest

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "check_words"


def load():
    loader = importlib.machinery.SourceFileLoader("check_words", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_words", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


LIST = load()
SUMMARY = "words: {} violations, {} lines over 100 columns\n"
CLEAN = {
    "include/osprey.h": "/* The public API. */\n",
    "src/base/buf.c": "int room_list; /* ROOM_LISTS, not the word */\n" + "x" * 100 + "\n",
    "docs/engine.md": "A phase is prefill or decode.\n" + "y" * 300 + "\n",
    "docs/speed-log.md": "2026-11-20: row_kind, in a dated log\n",
    "bench/results/old.txt": "build/tests/check_rows\n",
    "tests/same.py": "if x is OTHER PEOPLE or other_people: pass\n",
    "build/src/old.c": "row_kind\n",
}
PLANTED = [
    ("src/base/bad.c", "int row_kind;\n", 1, '"row_kind": say phase'),
    ("src/base/bad.c", "\n/* a gpu_rooms list */\n", 2, '"gpu_room": say gpu_workspace'),
    ("include/bad.h", "enum { ROW_PROMPT };\n", 1, "say PHASE_PREFILL"),
    ("docs/bad.md", "Run tests/run_card on it.\n", 1, "say run_gpu"),
    ("tests/bad.py", "# Other people read it.\n", 1, '"Other people": say other users'),
    # across the lines of a comment, of a literal and of a paragraph
    ("src/base/bad.c", "/* All levels\n * of the CPU */\n", 1, "say ISAs"),
    ("src/base/bad.c", 'puts("which leaves "\n     "no room");\n', 1, '"leaves no room"'),
    ("README.md", "levels of\nthe CPU\n", 1, "say ISAs"),
    ("Makefile", "# a handover\n", 1, "say transfer"),
]


def run(root, files, *options):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run([sys.executable, TOOL, root, *options], capture_output=True, text=True)


def test_clean_tree(tmp_path):
    done = run(tmp_path, CLEAN)
    assert done.stdout == SUMMARY.format(0, 0)
    assert done.returncode == 0


@pytest.mark.parametrize("name,text,line,message", PLANTED)
def test_planted_word(tmp_path, name, text, line, message):
    done = run(tmp_path, {**CLEAN, name: text})
    assert done.returncode == 1
    assert f"{name}:{line}: " in done.stdout
    assert message in done.stdout
    assert done.stdout.endswith(SUMMARY.format(1, 0))


def test_every_word_is_found(tmp_path):
    words = [word.rstrip("*") for word, *_ in LIST.WORDS]
    assert len(words) == len(set(words)) > 20
    done = run(tmp_path, {"src/base/bad.c": "".join(f"/* {word} */\n" for word in words)})
    for number, word in enumerate(words, 1):
        assert f'src/base/bad.c:{number}: "{word}"' in done.stdout
    assert done.returncode == 1


def test_a_long_line(tmp_path):
    done = run(tmp_path, {**CLEAN, "src/base/bad.h": "\n" + "é" * 101 + "\n"})
    assert done.returncode == 1
    assert "src/base/bad.h:2: 101 columns, limit is 100\n" in done.stdout
    assert done.stdout.endswith(SUMMARY.format(0, 1))


def test_words_of_later_do_not_count(tmp_path):
    if not LIST.LATER:
        pytest.skip("all words are in WORDS")
    word = LIST.LATER[-1][0].rstrip("*")
    files = {**CLEAN, "src/base/bad.c": f"/* {word} */\n"}
    done = run(tmp_path, files)
    assert done.returncode == 0 and done.stdout == SUMMARY.format(0, 0)
    done = run(tmp_path, files, "--all")
    assert done.returncode == 0 and f'src/base/bad.c:1: "{word}"' in done.stdout


def test_a_word_is_right_in_some_files(tmp_path):
    text = "a plot is drawn\n"
    rows = [("is drawn", "is sampled", "docs/bench.md")]
    assert list(LIST.find_words("docs/bench.md", text, rows)) == []
    assert list(LIST.find_words("docs/engine.md", text, rows)) == [(1, '"is drawn": say is sampled')]

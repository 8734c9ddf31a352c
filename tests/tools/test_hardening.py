"""Hardening of what was built: what a memory error must get past is in the program, the library and every object,
not only in the Makefile. Reads them with readelf."""
import os
import pathlib
import platform
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("OSPREY_BUILD", ROOT / "build"))
PROGRAM, LIBRARY, PLUGIN = BUILD / "osprey", BUILD / "libosprey.so.0", BUILD / "osprey-cuda.so"
READELF = shutil.which("readelf")
X86 = platform.machine() == "x86_64"
FLAGS = (BUILD / "flags").read_text() if (BUILD / "flags").exists() else ""
pytestmark = pytest.mark.skipif(READELF is None or not PROGRAM.exists(),
                                reason="needs readelf and a build")
linked = pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.name,
                          marks=[] if p.exists() else pytest.mark.skip(reason="not built"))
             for p in (PROGRAM, LIBRARY, PLUGIN)])


def readelf(path, *options):
    return subprocess.run([READELF, "-W", *options, str(path)], check=True, text=True,
                          capture_output=True, env={**os.environ, "LC_ALL": "C"}).stdout


def segments(path):
    """[(type, flags)] of the program headers, flags such as 'R E'."""
    rows = re.findall(r"^  ([A-Z_]+) +(?:0x[0-9a-f]+ +){5}([R ][W ][E ])", readelf(path, "-l"), re.M)
    assert rows
    return rows


@linked
def test_position_is_not_known(path):
    assert re.search(r"Type: +DYN", readelf(path, "-h"))
    if path == PROGRAM:
        assert re.search(r"FLAGS_1.*\bPIE\b", readelf(path, "-d"))


@linked
def test_tables_are_read_only(path):
    """Full RELRO: the segment, and every address known before the program begins."""
    assert "GNU_RELRO" in [kind for kind, _ in segments(path)]
    assert re.search(r"\((FLAGS_1\).*\bNOW\b|BIND_NOW|FLAGS\).*\bBIND_NOW\b)", readelf(path, "-d"))


@linked
def test_nothing_is_writable_and_executable(path):
    rows = segments(path)
    assert not [row for row in rows if "W" in row[1] and "E" in row[1]]
    assert [flags for kind, flags in rows if kind == "GNU_STACK"] == ["RW "]


@linked
def test_stack_protector(path):
    if "-fsanitize" in FLAGS:
        pytest.skip("the sanitizers have their own")
    assert "__stack_chk_fail" in readelf(path, "--dyn-syms")


@pytest.mark.parametrize("path", [PROGRAM, LIBRARY], ids=lambda p: p.name)
def test_checks_of_the_c_library(path):
    if "-fsanitize" in FLAGS or not re.search(r" -O[1-3sg]", FLAGS):
        pytest.skip("not in builds without optimisation or with sanitizers")
    checked = set(re.findall(r"\b__(\w+)_chk\b", readelf(path, "--dyn-syms")))
    assert {"memcpy", "snprintf", "vsnprintf"} <= checked


@pytest.mark.skipif(not X86, reason="of x86-64")
def test_control_flow_marks_of_objects():
    """Every object of the program says that branch targets (IBT) and shadow stacks suit it: one that does not would
    take the mark off the whole."""
    objects = [o for o in (BUILD / "obj").rglob("*.o")
               if o.relative_to(BUILD / "obj").parts[0] in ("src", "llhttp")
               and not o.name.endswith(".cu.o")]
    assert len(objects) > 100
    without = []
    for i in range(0, len(objects), 100):
        part = objects[i:i + 100]
        text = subprocess.run([READELF, "-n", *map(str, part)], check=True, text=True,
                              capture_output=True).stdout
        for block in text.split("\nFile: ")[1:]:
            if not re.search(r"x86 feature: .*IBT.*SHSTK", block):
                without.append(block.splitlines()[0])
    assert not without


@pytest.mark.skipif(not X86, reason="of x86-64")
@pytest.mark.parametrize("path", [PROGRAM, LIBRARY], ids=lambda p: p.name)
def test_control_flow_marks_of_what_is_linked(path):
    notes = readelf(path, "-n")
    assert re.search(r"x86 feature:.*SHSTK", notes)
    start = subprocess.run(["gcc", "-print-file-name=crti.o"], text=True, capture_output=True)
    if start.returncode == 0 and "IBT" in readelf(start.stdout.strip(), "-n"):
        assert re.search(r"x86 feature:.*IBT", notes)  # start-up objects that lack it take it off


def test_descriptors_are_closed_at_exec():
    """The worker process and other programs get no file of ours that they were not given."""
    left_open = re.compile(r'\bmkstemp\(|\bfopen\([^;]*"[rwa]b?\+?"\)|\b(?:open|openat|open64|mkostemp)\((?!.*O_CLOEXEC)[^;]*O_')
    found = []
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if left_open.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found

"""A command whose output cannot be written fails."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = pathlib.Path(os.environ.get("OSPREY_BUILD", ROOT / "build")) / "osprey"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="needs a build")


@pytest.mark.parametrize(
    "words", [["--help"], ["version"], ["help", "--foreign"], ["tokenize", "-p", "some words"], ["chat", "-p", "Hi"]]
)
def test_a_full_disk(words):
    with open("/dev/full", "w") as full:
        answer = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                                text=True, timeout=60)
    assert answer.returncode == 1
    assert "osprey: standard output could not be written: " in answer.stderr

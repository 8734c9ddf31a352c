"""What the packaging tests share: the repository's root, and make without the outer make's settings."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def clean_environment():
    return {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}


@pytest.fixture
def make():
    def run(*words):
        done = subprocess.run(["make", "-j2", *words], cwd=ROOT, env=clean_environment(),
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    return run

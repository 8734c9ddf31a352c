"""What the packaging tests share: make, without the settings of the make that runs the tests."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="session")
def make():
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}

    def run(*words):
        done = subprocess.run(["make", "-j2", *words], cwd=ROOT, env=env, capture_output=True,
                              text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    return run

"""Figures of the suites: each test hands its own to record(), and they stand in build/compat/results/SUITE.json."""

import datetime
import importlib.util
import json
import re
import subprocess
import time

import pytest

import suites

_spec = importlib.util.spec_from_file_location("http_conftest", suites.ROOT / "tests" / "http" / "conftest.py")
http_conftest = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(http_conftest)

RESULTS = suites.KEPT / "results"


def commit():
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=suites.ROOT, capture_output=True, text=True)
    return done.stdout.strip()


def keep(suite, figures):
    RESULTS.mkdir(parents=True, exist_ok=True)
    name = re.sub("[^a-z0-9]+", "-", suite.lower())
    (RESULTS / f"{name}.json").write_text(json.dumps({"suite": suite, **figures}, indent=2) + "\n")


@pytest.fixture
def record():
    """record(suite, figure=...): kept with the date, the program's commit and the seconds since the test began."""
    start = time.monotonic()

    def write(suite, **figures):
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        figures = {"date": date, "commit": commit(), "seconds": round(time.monotonic() - start, 1), **figures}
        keep(suite, figures)
        print(f"\n{suite}: {json.dumps(figures)}")

    return write


@pytest.fixture(scope="module")
def start_server():
    """Gives a function that starts `osprey serve` for the tests of a file."""
    running = []

    def start(*options, **more):
        running.append(http_conftest.Server(*options, **more))
        return running[-1]

    yield start
    for one in running:
        assert one.stop() == 0, one.log[-20:]

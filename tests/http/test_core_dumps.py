"""A server that crashes leaves no core dump with prompts and keys in it, and neither does its worker process."""

import os
import re
import resource
import signal
import subprocess

import pytest

from conftest import PROGRAM
from test_worker import children

HARD = resource.getrlimit(resource.RLIMIT_CORE)[1]
pytestmark = pytest.mark.skipif(0 <= HARD < 2, reason="this system allows no core dumps anyway")


def soft_limit(pid):
    text = open(f"/proc/{pid}/limits").read()
    return re.search(r"Max core file size +(\S+)", text).group(1)


@pytest.fixture
def serve(tmp_path):
    started = []

    def run(*options):
        process = subprocess.Popen(
            [PROGRAM, "serve", "--port", "0", "--max-model-len", "4096", "--worker", "on", *options],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (HARD, HARD)))
        started.append(process)
        assert process.stdout.readline().startswith("http://")
        workers = children(process.pid)
        assert len(workers) == 1
        return process, workers[0]

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_none_by_default(serve, tmp_path):
    process, worker = serve()
    assert soft_limit(process.pid) == "1" and soft_limit(worker) == "1"
    process.send_signal(signal.SIGABRT)
    assert process.wait(timeout=60) == -signal.SIGABRT
    assert os.listdir(tmp_path) == []


def test_where_they_are_asked_for(serve):
    process, worker = serve("--core-dumps")
    allowed = "unlimited" if HARD < 0 else str(HARD)
    assert soft_limit(process.pid) == allowed and soft_limit(worker) == allowed

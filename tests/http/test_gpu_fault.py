"""Faults of the engine's process as its clients see them, by bench/worker_faults.py, which checks the
times. On a GPU the CUDA context really fails. By hand on a machine with a GPU:
pytest -s tests/http/test_gpu_fault.py

TOLD_S: see test_worker.py; on a GPU it is the promised second.
"""

import ctypes
import os
import pathlib
import subprocess
import sys

import pytest
from conftest import PROGRAM, ROOT

FAULTS = os.environ.get("WORKER_FAULTS", str(ROOT / "bench" / "worker_faults.py"))
TOLD_S = os.environ.get("TOLD_S", "8")  # of faults without a GPU: other tests may run on the machine


def why_no_gpu():
    """None if a GPU can be used."""
    if not (pathlib.Path(PROGRAM).parent / "osprey-cuda.so").exists():
        return "the CUDA plug-in is not built"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver on this machine"
    n_cards = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(n_cards)) != 0 or n_cards.value == 0:
        return "no card that CUDA can use"
    return None


def run(faults, *arguments, told_s):
    environment = {**os.environ, "FAULTS": faults, "TOLD_S": told_s}
    done = subprocess.run(
        [sys.executable, FAULTS, PROGRAM, *arguments], env=environment, capture_output=True, text=True, timeout=240
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_killed_worker():
    told = run("kill", "cpu", "osprey-nano", "--worker", "on", told_s=TOLD_S)
    assert "it has ended unexpectedly" in told


@pytest.mark.skipif(why_no_gpu() is not None, reason=why_no_gpu() or "")
@pytest.mark.parametrize(
    "fault, error",
    [
        ("trap", "cudaErrorLaunchFailure"),
        ("address", "cudaErrorIllegalAddress"),
        ("idle", "cudaErrorLaunchFailure"),
        ("busy", "wedged"),
    ],
)
def test_a_card(fault, error):
    """A kernel in the context of the engine's own: the message is the one that the engine got from CUDA."""
    assert error in run(fault, "cuda", "osprey-nano", told_s="1")

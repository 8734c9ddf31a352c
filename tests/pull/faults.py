"""Faults for the stand-in hub: which requests meet them."""

import random

from conftest import LARGE_BYTES
from hub import random_bytes

WRONG = random_bytes(LARGE_BYTES, "wrong")


def first(n, fault, side="storage", contains=""):
    """The first n requests of that kind meet the fault."""
    left = [n]

    def function(request):
        if request.side != side or contains not in request.path or left[0] == 0:
            return None
        left[0] -= 1
        return fault(request) if callable(fault) else fault

    return function


def always(fault, side="storage", contains=""):
    return first(-1, fault, side, contains)


def sometimes(share, fault, seed=1):
    generator = random.Random(seed)
    return lambda request: fault if request.side == "storage" and generator.random() < share else None

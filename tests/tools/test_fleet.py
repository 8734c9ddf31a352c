"""The fleet simulation (tests/measure_fleet.c, bench/fleet.py): it repeats itself, agrees with measured rows, and
orders the ways of routing as they must be."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FLEET = ROOT / "build/tests/measure_fleet"
ROUND_ROBIN, LEAST_LOAD, SESSION, RANDOM, BY_PREFIX = range(5)

pytestmark = pytest.mark.skipif(not FLEET.exists(), reason="needs build/tests/measure_fleet (make tests)")


def simulate(**options):
    words = [f"{key}={value}" for key, value in options.items()]
    return json.loads(subprocess.run([FLEET, *words], check=True, capture_output=True, text=True, timeout=120).stdout)


def test_it_repeats_itself():
    options = dict(replicas=3, users=150, seconds=30)
    assert simulate(**options) == simulate(**options)
    assert simulate(**options) != simulate(**options, seed=2)


@pytest.mark.parametrize("users, measured", [(64, 3305), (256, 6715)])
def test_a_replica_is_as_fast_as_measured(users, measured):
    """docs/performance-gpu.md, rows of served-120b: tokens/s of one H200."""
    found = simulate(replicas=1, users=users, workload=2, seqs=256, seconds=100)["tokens_s"]
    assert 0.85 < found / measured < 1.15


def test_agents_need_their_prefix():
    found = {routing: simulate(replicas=6, users=180, workload=1, apps=10, seconds=45, routing=routing)
             for routing in (ROUND_ROBIN, LEAST_LOAD, BY_PREFIX)}
    for routing in (ROUND_ROBIN, LEAST_LOAD):
        assert found[BY_PREFIX]["cache_hit"] > found[routing]["cache_hit"] + 0.2
        assert found[BY_PREFIX]["tokens_s"] > 1.3 * found[routing]["tokens_s"]
        assert found[BY_PREFIX]["first_token_ms_p50"] < 0.5 * found[routing]["first_token_ms_p50"]


def test_a_slow_replica_gets_less():
    found = {routing: simulate(replicas=4, users=960, seconds=60, routing=routing, slow=1)
             for routing in (ROUND_ROBIN, BY_PREFIX)}
    assert found[BY_PREFIX]["token_ms_p99"] < 0.8 * found[ROUND_ROBIN]["token_ms_p99"]


def test_lost_replicas():
    """Requests without a token are sent again; the users of the others ask again."""
    options = dict(replicas=4, users=1200, seqs=64, seconds=60, lost=1, reload=10)
    again, not_again = simulate(**options), simulate(**options, resend=0)
    assert 0 < again["lost_requests"] < not_again["lost_requests"] and again["resent"] > 0 and not_again["resent"] == 0
    assert simulate(**dict(options, lost=0))["lost_requests"] == 0
    assert again["done"] > 0
    all_lost = simulate(**dict(options, lost=4))
    assert all_lost["refused"] > 0 and all_lost["done"] > 0


def test_bad_options():
    for words in (["replicas=0"], ["nonsense=1"], ["workload=3"], ["replicas"], ["lost=11"]):
        found = subprocess.run([FLEET, *words], capture_output=True, text=True, timeout=20)
        assert found.returncode == 2 and "measure_fleet: " in found.stderr


def test_tables(tmp_path):
    loader = importlib.machinery.SourceFileLoader("fleet", str(ROOT / "bench/fleet.py"))
    fleet = importlib.util.module_from_spec(importlib.util.spec_from_loader("fleet", loader))
    loader.exec_module(fleet)
    keys = {key for _, _, simulations in fleet.TABLES.values() for one in simulations for key in one}
    assert keys <= set(simulate(replicas=1, users=1, seconds=3))
    found = subprocess.run([ROOT / "bench/fleet.py", tmp_path / "out.json", "no such table"], capture_output=True, text=True,
                           cwd=ROOT, env={**os.environ, "FLEET": str(FLEET)})
    assert found.returncode == 1 and "Usage" in found.stderr

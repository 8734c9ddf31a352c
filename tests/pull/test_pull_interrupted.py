"""osprey pull that is killed, stopped, or runs beside another download of the same model."""

import fcntl
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from conftest import REPO, WANTED
from faults import always
from hub import Fault, sha256

def test_kill_at_random_moments(case):
    """SIGKILL, again and again: what was downloaded is kept, and the end is right."""
    generator = random.Random(7)
    case.hub.faults = [always(Fault(rate=3_000_000))]
    n_kills = 0
    for _ in range(25):
        process = case.start("pull", REPO)
        try:
            process.wait(generator.uniform(0.05, 0.7))
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            n_kills += 1
        case.check_blobs()
        assert not (case.model / "refs" / "main").exists() or process.returncode == 0
    case.hub.faults = []
    done = case.pull()
    assert done.returncode == 0, done.stderr
    case.check_complete()
    assert n_kills >= 5
    total = sum(len(d) for d in case.hub.repos[REPO].values())
    # a kill loses at most the block of each connection
    assert case.hub.bytes_sent < total + n_kills * 8 * (4 << 20)
    print(f"{n_kills} kills, {case.hub.bytes_sent} bytes sent for {total}")


def test_damage_between_runs(case):
    """A block of an earlier run that changed on the disk, as after a loss of power."""
    case.hub.faults = [lambda r: Fault(404) if r.side == "storage" and case.hub.bytes_sent > 8 << 20 else None]
    assert case.pull(REPO, "--connections", "1").returncode == 1
    parts = list((case.model / "blobs").glob("*.osprey-part"))
    assert parts
    part = max(parts, key=lambda p: p.stat().st_size)
    with open(part, "r+b") as file:
        file.seek(4_200_000)
        file.write(b"damage")
    case.hub.faults = []
    done = case.pull()
    assert done.returncode == 0, done.stderr
    case.check_complete()


def test_leftovers_of_a_complete_file(case):
    """As after a kill between the rename of a file and the removal of its journal."""
    assert case.pull().returncode == 0
    blob = (case.snapshot / "tokenizer.json").resolve()
    for suffix in ("part", "blocks"):
        blob.with_name(f"{blob.name}.osprey-{suffix}").write_bytes(b"x")
    assert case.pull().returncode == 0
    case.check_complete()


def complete_blocks(case):
    """Lines of the journals, without their heads."""
    return sum(max(0, len(p.read_bytes().splitlines()) - 1) for p in case.model.glob("blobs/*.osprey-blocks"))


def test_ctrl_c(case):
    case.hub.faults = [always(Fault(rate=2_000_000))]
    process = case.start("pull", REPO, "--connections", "1")
    end = time.monotonic() + 30
    while complete_blocks(case) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=10)[1]
    assert process.returncode == 128 + signal.SIGINT
    assert "stopped; " in err and "the same command continues" in err
    case.check_nothing()
    sent = case.hub.bytes_sent
    case.hub.faults = []
    assert case.pull().returncode == 0
    case.check_complete()
    total = sum(len(d) for d in case.hub.repos[REPO].values())
    assert case.hub.bytes_sent - sent < total - (7 << 20)  # two blocks of 4 MiB were kept


@pytest.mark.parametrize("command, number", [
    (["serve", REPO, "--pull"], signal.SIGINT), (["chat", "-hf", REPO, "-p", "Hi"], signal.SIGTERM),
])  # fmt: skip
def test_signal_during_the_download_of_another_command(case, command, number):
    case.hub.faults = [always(Fault(rate=200_000))]
    process = case.start(*command)
    end = time.monotonic() + 30
    while case.hub.bytes_sent == 0 and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(number)
    err = process.communicate(timeout=10)[1]
    assert process.returncode == 128 + number and "the same command continues" in err
    case.check_nothing()


def test_two_pulls_share_one_download(case):
    case.hub.faults = [always(Fault(rate=8_000_000))]
    both = [case.start("pull", REPO, "--connections", "2") for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert out == f"{case.snapshot}\n"
    case.check_complete()
    total = sum(len(d) for d in case.hub.repos[REPO].values())
    assert case.hub.bytes_sent < 1.05 * total


def test_osprey_and_huggingface_hub_at_once(case):
    """Each holds the locks of what it downloads, and the other waits for it."""
    case.hub.faults = [always(Fault(rate=8_000_000))]
    code = f"import huggingface_hub as h\nprint(h.snapshot_download('{REPO}', ignore_patterns=['original/*', 'README.md', '.git*', 'empty/*']))"
    theirs = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=case.environment)
    end = time.monotonic() + 30
    while not case.hub.requests("storage") and time.monotonic() < end:
        time.sleep(0.01)
    done = case.pull()
    out, err = theirs.communicate(timeout=60)
    assert done.returncode == 0 and theirs.returncode == 0, (done.stderr, err)
    assert out.strip() == done.stdout.strip() == str(case.snapshot)
    case.check_complete()
    total = sum(len(d) for d in case.hub.repos[REPO].values())
    assert case.hub.bytes_sent < 1.05 * total


def test_wrong_content_of_another_program(case):
    """Another program downloads a file, under its lock, and does not compare its digest."""
    data = case.hub.repos[REPO]["tokenizer.json"]
    etag = sha256(data)
    blobs, locks = case.model / "blobs", case.cache / ".locks" / case.model.name
    blobs.mkdir(parents=True)
    locks.mkdir(parents=True)
    with open(locks / f"{etag}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = case.start("pull", REPO)
        others = [name for name in WANTED if name != "tokenizer.json"]
        end = time.monotonic() + 30
        while sum(1 for p in blobs.iterdir() if "." not in p.name) < len(others) and time.monotonic() < end:
            time.sleep(0.01)
        assert process.poll() is None  # it waits
        (blobs / etag).write_bytes(bytes(len(data)))
    err = process.communicate(timeout=30)[1]
    assert process.returncode == 0 and "another program put wrong content into the cache" in err
    case.check_complete()


def test_a_model_that_is_being_downloaded_is_not_removed(case):
    case.hub.faults = [always(Fault(rate=2_000_000))]
    process = case.start("pull", REPO)
    end = time.monotonic() + 30
    while case.hub.bytes_sent < 1 << 20 and time.monotonic() < end:
        time.sleep(0.01)
    done = case.pull(REPO, "--remove", "--yes")
    assert done.returncode == 1 and "another process downloads it" in done.stderr
    process.kill()
    process.communicate()
    assert case.pull(REPO, "--remove", "--yes").returncode == 0
    assert not case.model.exists() and os.path.isdir(case.cache)

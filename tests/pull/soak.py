"""Optional: pulls a model again and again from a hub with random faults, killed at random moments, by one
or two processes, until it is there; then compares every file. `make pull-soak SECONDS=300`.

Prints one line of totals. Exit status 1 if a wrong file was accepted or a pull did not end.
"""

import argparse
import collections
import pathlib
import random
import shutil
import subprocess
import tempfile
import time

from conftest import REPO, Case
from faults import WRONG
from hub import Fault

FAULTS = {
    "cut": lambda g: Fault(cut=g.randrange(0, 5 << 20)),
    "stall": lambda g: Fault(cut=g.randrange(0, 1 << 20), stall=True),
    "range ignored": lambda g: Fault(ignore_range=True),
    "wrong range": lambda g: Fault(content_range=f"bytes {g.randrange(99)}-4194303/{g.randrange(1, 99) * 1000000}"),
    "wrong bytes": lambda g: Fault(data=WRONG),
    "compressed": lambda g: Fault(headers={"Content-Encoding": "gzip"}),
    "403": lambda g: Fault(403, body=b"expired"),
    "404": lambda g: Fault(404),
    "429": lambda g: Fault(429, {"Retry-After": "1"}),
    "500": lambda g: Fault(500),
    "503": lambda g: Fault(503, body=bytes(g.randrange(200000))),
}
TRIES_MAX = 200
PULL_S = 60


class Faults:
    """One storage request in five meets a fault, and one hub request in ten an error of its own."""

    def __init__(self, generator, counts):
        self.generator, self.counts, self.share = generator, counts, 0.2

    def __call__(self, request):
        share = self.share if request.side == "storage" else self.share / 2
        if self.generator.random() >= share:
            return None
        names = list(FAULTS) if request.side == "storage" else ["429", "500", "503"]
        name = self.generator.choice(names)
        self.counts[name] += 1
        return FAULTS[name](self.generator)


def run_once(case, generator):
    """Starts one or two pulls, kills some of them. Returns (kills, whether one ended well)."""
    processes = [case.start("pull", REPO, HF_HUB_DOWNLOAD_TIMEOUT="1") for _ in range(generator.choice((1, 1, 2)))]
    kills, good = 0, False
    for process in processes:
        try:
            process.communicate(timeout=generator.uniform(0.05, 1.5) if generator.random() < 0.6 else PULL_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
        good = good or process.returncode == 0
    return kills, good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    generator, counts = random.Random(arguments.seed), collections.Counter()
    models = runs = kills = n_bytes = requests = 0
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="osprey-soak-"))
        case = Case(folder, url_life_s=generator.choice((0.2, 2, 60)))
        case.hub.faults = [Faults(random.Random(generator.random()), counts)]
        for attempt in range(TRIES_MAX):
            killed, good = run_once(case, generator)
            runs, kills = runs + 1, kills + killed
            case.check_blobs()  # also in between: never a wrong file
            if good:
                break
        assert good, f"not complete after {TRIES_MAX} runs"
        case.hub.faults = []
        done = case.pull()  # what a killed process left beside the one that ended
        assert done.returncode == 0, done.stderr
        case.check_complete()
        models, n_bytes, requests = models + 1, n_bytes + case.hub.bytes_sent, requests + len(case.hub.log)
        case.hub.close()
        shutil.rmtree(folder)
    print(f"{models} downloads in {runs} runs: {kills} kills, {sum(counts.values())} faults "
          f"({', '.join(f'{n} {name}' for name, n in sorted(counts.items()))}), {requests} requests, "
          f"{n_bytes / 1e9:.1f} GB sent, 0 corrupt files accepted")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A recorded first hour, with the time of each step.

    tests/deploy/first_hour.py clone            from a clone to an answer, on a bare Debian 12
    tests/deploy/first_hour.py board FOLDER     from the image to the dashboard: writes PNG files

`clone` needs root and the packages of `make test-deploy`. `board` needs the image that
tests/deploy/test_image.py builds, and chromium. Grafana is in neither Debian nor PyPI, so each
query of the board is plotted by the graph page of Debian's Prometheus.
"""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse

import yaml

from machine import debian_root, run, wait_until

ROOT = pathlib.Path(__file__).parents[2]
CACHE = ROOT / "build/deploy"
ENV = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDER": "buildah"}
IMAGE = "localhost/osprey:test"
PORT, PROMETHEUS_PORT = 18000, 19090
RANGE_S = 150  # of traffic, and of the graphs


class Clock:
    """Prints each step with its seconds and those since the begin."""

    def __init__(self):
        self.begin = time.monotonic()

    def step(self, title, function, *arguments):
        start = time.monotonic()
        result = function(*arguments)
        now = time.monotonic()
        print(f"{now - start:7.1f} s  {now - self.begin:7.1f} s  {title}", flush=True)
        return result


def inside(root, command, limit_s=1800):
    """Runs a command in the root as a login would, with this machine's network."""
    return run(["systemd-nspawn", "--register=no", "--keep-unit", "--quiet", "--resolv-conf=copy-host",
                "--console=pipe", f"--directory={root}", "--setenv=DEBIAN_FRONTEND=noninteractive",
                "/bin/bash", "-c", command], timeout_s=limit_s)


def ask_make_run(root):
    """`make run` until its answer, then its end (a shell in the background ignores SIGINT)."""
    out = inside(root, "cd /root/osprey && mkfifo /tmp/out && { setsid make run >/tmp/out 2>&1 & } && "
                       "sed -u '/^  answer/q' </tmp/out; kill -TERM -- -$! 2>/dev/null; wait; true")
    assert "answer    Paris" in out, out[-3000:]
    return out


def clone():
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "root"
        root.mkdir()
        run(["tar", "-C", root, "-xf", debian_root(CACHE, "bookworm-bare", [])])
        run(["git", "clone", "-q", "--bare", "--depth=1", f"file://{ROOT}", root / "srv/osprey.git"])
        print("   step        total   on a bare Debian 12 (mmdebstrap --variant=minbase)")
        clock.begin = time.monotonic()
        clock.step("apt-get update && apt-get install git make", inside, root,
                   "apt-get -qq update && apt-get -qq -y --no-install-recommends install git make")
        clock.step("git clone", inside, root, "git clone -q /srv/osprey.git /root/osprey")
        clock.step("make run: packages, compiling, server, answer", ask_make_run, root)
        answer = clock.step("osprey chat -p 'What is 17 + 25?'", inside, root,
                            "cd /root/osprey && build/osprey chat -q -p 'What is 17 + 25?'")
        assert answer.strip().endswith("42"), answer
        clock.step("make install", inside, root, "make -C /root/osprey install")
        inside(root, "cd / && osprey chat -q -p 'What is the capital of France?' | grep Paris")


def start_image(key_file):
    container = run(["buildah", "from", "--pull-never", IMAGE], env=ENV).strip()
    words = ["buildah", "run", "--isolation=chroot", "--network=host", f"--env=OSPREY_PORT={PORT}",
             f"--env=OSPREY_API_KEY={key_file.read_text().strip()}", "--env=OSPREY_MAX_MODEL_LEN=4096", container,
             "--", "osprey", "serve", "-q"]
    server = subprocess.Popen(words, env=ENV, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    check = [ROOT / "build/osprey", "status", "--health", f"http://127.0.0.1:{PORT}"]
    wait_until(lambda: subprocess.run(check, capture_output=True).returncode == 0, "the container is healthy", 120)
    return container, server


def start_prometheus(root, key_file):
    """Debian's package in a root of its own, with the shipped rules."""
    folder = root / "srv/prometheus"
    folder.mkdir(parents=True)
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    config["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{PORT}"]}]
    config["scrape_configs"][0]["authorization"] = {"credentials": key_file.read_text().strip()}
    config["global"]["scrape_interval"], config["global"]["scrape_timeout"] = "2s", "2s"
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    for name in ("rules.yml", "alerts.yml"):
        shutil.copy(ROOT / "deploy/prometheus" / name, folder)
    words = ["systemd-nspawn", "--register=no", "--keep-unit", "--quiet", "--console=pipe", f"--directory={root}",
             "prometheus", "--config.file=/srv/prometheus/prometheus.yml", "--storage.tsdb.path=/srv/prometheus/data",
             f"--web.listen-address=127.0.0.1:{PROMETHEUS_PORT}"]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=open(root / "log", "w"))
    url = f"http://127.0.0.1:{PROMETHEUS_PORT}/api/v1/query?" + urllib.parse.urlencode({"query": "osprey:engine_up == 1"})

    def has_data():
        done = subprocess.run(["curl", "-s", url], capture_output=True, text=True)
        return '"value"' in done.stdout
    wait_until(has_data, "Prometheus has a value of osprey:engine_up", 120)
    return process


def traffic(key):
    """Chats of growing number, with pauses, so that the graphs have a shape."""
    end = time.monotonic() + RANGE_S
    n = 1
    while time.monotonic() < end:
        run([ROOT / "build/osprey", "bench", "--url", f"http://127.0.0.1:{PORT}", "--api-key", key, "--pp", "128",
             "--tg", "64", "--concurrency", str(n), "--runs", "2"], timeout_s=300)
        n = 1 + n % 6
        time.sleep(3)


def panels():
    board = json.loads((ROOT / "deploy/grafana/dashboards/osprey.json").read_text())
    for panel in board["panels"]:
        queries = [t["expr"] for t in panel.get("targets", [])]
        if queries:
            yield panel["title"], [q.replace("$__rate_interval", "20s").replace("$__range", "1h")
                                   .replace("$instance", ".*") for q in queries]


def draw(folder):
    """A page of graphs for each panel, one graph for each of its queries."""
    for number, (title, queries) in enumerate(panels(), 1):
        words = [(f"g{i}.{name}", value) for i, query in enumerate(queries)
                 for name, value in (("expr", query), ("tab", "0"), ("range_input", "4m"), ("step_input", "2"))]
        url = f"http://127.0.0.1:{PROMETHEUS_PORT}/classic/graph?{urllib.parse.urlencode(words)}"
        name = "".join(c if c.isalnum() else "-" for c in title).strip("-").lower()
        run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--virtual-time-budget=20000", f"--window-size=1200,{130 + 700 * len(queries)}",
             f"--screenshot={folder}/{number:02}-{name}.png", url])


def board(folder):
    folder.mkdir(parents=True, exist_ok=True)
    tar = debian_root(CACHE, "bookworm-prometheus", ["prometheus"])
    clock = Clock()
    key = os.urandom(24).hex()
    print("   step        total   with the image, Debian's Prometheus and chromium")
    with tempfile.TemporaryDirectory() as work:
        root = pathlib.Path(work) / "root"
        root.mkdir()
        key_file = pathlib.Path(work) / "api_key"
        key_file.write_text(key)
        run(["tar", "-C", root, "-xf", tar])
        clock.begin = time.monotonic()
        container, server = clock.step("the container is healthy", start_image, key_file)
        prometheus = None
        try:
            prometheus = clock.step("Prometheus has its first value", start_prometheus, root, key_file)
            clock.step("traffic: osprey bench --url", traffic, key)
            clock.step(f"{len(list(panels()))} panels plotted", draw, folder)
        finally:
            server.terminate()
            if prometheus:
                prometheus.terminate()
                prometheus.wait(60)
            server.wait(60)
            run(["buildah", "rm", container], env=ENV)
    print(f"PNG files: {folder}")


if __name__ == "__main__":
    if sys.argv[1:] == ["clone"]:
        clone()
    elif len(sys.argv) == 3 and sys.argv[1] == "board":
        board(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(__doc__ + shlex.join(sys.argv))

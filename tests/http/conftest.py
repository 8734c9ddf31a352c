"""Starts the real program with the bundled model for the tests of this folder.

OSPREY names another program than build/osprey. The model is small: tests look at form and flow, and at
its words only where it is sure of them ("Paris").
"""

import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("OSPREY", str(ROOT / "build" / "osprey"))
START_S = 60
SETTLE_S = 20


class Server:
    """One `osprey serve` on a free port."""

    def __init__(self, *options, environment=None, program=PROGRAM):
        self.process = subprocess.Popen(
            [program, "serve", "--port", "0", "--max-model-len", "4096", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.log = []
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith(("http://", "https://")), (self.url, self.log)
        self.port = int(self.url.rsplit(":", 1)[1])

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))

    def client(self, key="none", **options):
        import openai  # a second of CPU time, which most files of tests do not need

        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=60, **options)

    def health(self):
        import json
        import urllib.request

        with urllib.request.urlopen(f"{self.url}/health", timeout=10) as answer:
            return json.load(answer)

    def wait_until(self, condition, what):
        """Waits for a state of the engine, as /health tells it."""
        end = time.monotonic() + SETTLE_S
        while time.monotonic() < end:
            health = self.health()
            if condition(health):
                return health
            time.sleep(0.01)
        raise AssertionError(f"not reached in {SETTLE_S} s: {what}; last {health}")

    def wait_idle(self):
        return self.wait_until(lambda h: h["running"] + h["waiting"] == 0, "idle")

    def stop(self, signal_number=signal.SIGTERM, timeout_s=30):
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        code = self.process.wait(timeout_s)
        self.reader.join(5)
        return code


@pytest.fixture(scope="session")
def server():
    running = Server()
    yield running
    assert running.stop() == 0, running.log


@pytest.fixture
def start_server():
    """Gives a function that starts a server of the test's own."""
    running = []

    def start(*options, **more):
        running.append(Server(*options, **more))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


@pytest.fixture
def client(server):
    return server.client()


def run(*arguments, stdin="", timeout_s=60, environment=None):
    """Runs osprey to its end."""
    return subprocess.run(
        [PROGRAM, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **(environment or {})},
    )

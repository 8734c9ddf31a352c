"""The real program under a service manager: what it sends to $NOTIFY_SOCKET (systemd, Type=notify)."""

import socket
import time

import pytest

from conftest import SETTLE_S


class Manager:
    """Receives the datagrams of one service."""

    def __init__(self, path):
        self.path = str(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(SETTLE_S)
        self.received = []

    def wait_for(self, start):
        end = time.monotonic() + SETTLE_S
        while time.monotonic() < end:
            text = self.socket.recv(4096).decode()
            self.received.append(text)
            if text.startswith(start):
                return text
        raise AssertionError(f"{start!r} was not sent: {self.received}")


@pytest.fixture
def manager(tmp_path):
    one = Manager(tmp_path / "notify")
    yield one
    one.socket.close()


# With a worker process, too: it must not speak for the server, nor keep the socket.
@pytest.mark.parametrize("worker", ["off", "on"])
def test_life(manager, start_server, worker):
    server = start_server("--worker", worker, environment={"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "1000000"})
    manager.wait_for("READY=1")
    assert manager.received[0] == "STATUS=loading the model"
    manager.wait_for("STATUS=osprey-nano: 0 running, 0 waiting")
    manager.wait_for("WATCHDOG=1")
    stream = server.client().completions.create(model="osprey-nano", prompt="The capital of France is",
                                                max_tokens=3000, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    manager.wait_for("STATUS=osprey-nano: 1 running, 0 waiting")
    stream.close()
    assert server.stop() == 0
    stopping = manager.wait_for("STOPPING=1")
    assert stopping == "STOPPING=1\nEXTEND_TIMEOUT_USEC=36000000"  # 30 s, 1 s and a margin
    assert [t for t in manager.received if t.startswith("READY")] == ["READY=1"]

"""`osprey doctor`: its output, and the measurements between two of them over the loopback."""

import json
import signal
import socket
import struct
import subprocess
import threading

import pytest

from conftest import PROGRAM, run

MAGIC = b"osprey-doctor 1\0"
HELLO_BYTES = 56


@pytest.fixture
def listener():
    """A listening doctor; gives its port."""
    process = subprocess.Popen(
        [PROGRAM, "doctor", "--listen", "--listen-port", "0", "--host", "127.0.0.1"],
        stdout=subprocess.PIPE,
        text=True,
    )
    line = process.stdout.readline()
    assert line.startswith("listening on port "), line
    yield int(line.split()[3])
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0


def doctor(tmp_path, *options, **environment):
    """Runs it with an empty cache and a free port; gives the exit status and the findings by subject."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = run(
        "doctor",
        "--json",
        "--port",
        str(port),
        "--download-dir",
        str(tmp_path),
        *options,
        environment={"http_proxy": "", "HTTP_PROXY": "", "all_proxy": "", "ALL_PROXY": "", **environment},
    )
    report = json.loads(done.stdout)
    states = [f["state"] for f in report["findings"]]
    assert [report[s] for s in ("good", "slow", "broken", "untested")] == [
        states.count(s) for s in ("good", "slow", "broken", "untested")
    ]
    assert done.returncode == (1 if report["broken"] else 0), done.stderr
    return {(f["group"], f["subject"]): f for f in report["findings"]}


def test_this_host(tmp_path):
    found = doctor(tmp_path)
    assert {group for group, _ in found} == {"system", "memory", "network", "GPUs", "serving"}
    assert found["serving", "port"]["state"] == "good"
    assert found["serving", "models"]["advice"] == "osprey pull openai/gpt-oss-20b"
    assert str(tmp_path) in found["serving", "model cache"]["text"]


def test_text_and_exit_status(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("doctor", "--port", str(port), "--download-dir", str(tmp_path))
    assert done.returncode == 1
    assert f"  broken    port                  127.0.0.1:{port}: Address already in use\n" in done.stdout
    assert "-> `osprey status` shows" in done.stdout
    assert " broken, " in done.stdout.splitlines()[-1]


def test_a_proxy_for_the_loopback(tmp_path):
    found = doctor(tmp_path, http_proxy="http://me:secret@proxy.example:3128")["serving", "proxy"]
    assert found["state"] == "broken" and "secret" not in found["text"]


def test_two_doctors(tmp_path, listener):
    found = doctor(tmp_path, "--peer", f"127.0.0.1:{listener}")
    assert found["peer", "version"]["state"] == "good"
    for subject in ("bandwidth to", "bandwidth from"):
        one = found["peer", subject]
        assert one["state"] == "good" and "Gbit/s with one connection" in one["text"]
    latency = found["peer", "latency"]
    assert "over lo" in latency["text"] and latency["state"] in ("good", "slow")  # a busy machine


def test_several_names_of_a_peer(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for peer in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"):
        found = [f for (group, _), f in doctor(tmp_path, "--peer", peer).items() if group == "peer"]
        assert len(found) == 1 and found[0]["state"] == "broken"
        assert f"port {port}: " in found[0]["text"] and "--listen" in found[0]["advice"]


@pytest.mark.parametrize("peer", ["", ":80", "[::1", "[::1]x", "a:0", "a:65536", "a:b", "x" * 300])
def test_no_peer(peer):
    done = run("doctor", "--peer", peer)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("osprey: --peer ")


@pytest.mark.parametrize(
    "options, text",
    [
        (["--listen", "--port", "8000"], "--listen checks nothing; leave out "),
        (["--listen", "--download-dir", "/tmp"], "--listen checks nothing; leave out "),
        (["--listen-port", "8474"], "--listen-port needs --listen"),
        (["--listen-port", "8474", "--peer", "a"], "--listen-port needs --listen"),
    ],
)
def test_options_without_effect(options, text):
    done = run("doctor", *options)
    assert done.returncode == 2 and text in done.stderr and done.stdout == ""


def test_listen_does_nothing_else():
    done = run("doctor", "--listen", "--json")
    assert done.returncode == 2 and "leave out --peer, --json, --port" in done.stderr
    done = run("doctor", "--listen", "--host", "192.0.2.1", "--listen-port", "0")
    assert done.returncode == 1 and "port 0 of 192.0.2.1: " in done.stderr


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def hello(mode=b"e"):
    return MAGIC + mode + b"0.0.0".ljust(HELLO_BYTES - 17, b"\0")


def read_all(s):
    got = b""
    while True:
        try:
            part = s.recv(1 << 16)
        except ConnectionResetError:
            return got
        if not part:
            return got
        got += part


STRANGERS = {
    "nothing": b"",
    "http": b"GET / HTTP/1.1\r\n\r\n" * 4,
    "zeros": b"\0" * HELLO_BYTES,
    "unknown mode": hello(b"x"),
    "no mode": hello(b"\0"),
    "cut": hello()[:20],
}


@pytest.mark.parametrize("sent", STRANGERS.values(), ids=STRANGERS)
def test_strangers_get_nothing(listener, sent):
    with connect(listener) as s:
        s.sendall(sent)
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b""


def test_the_listener_counts(listener):
    with connect(listener) as s:
        s.sendall(hello(b"s") + b"x" * 100_000)
        s.shutdown(socket.SHUT_WR)
        got = read_all(s)
    assert got[:17] == MAGIC + b"s" and struct.unpack(">Q", got[HELLO_BYTES:]) == (100_000,)


def test_many_connections(listener):
    """Those above the limit are closed at once; the others go on."""
    held = [connect(listener) for _ in range(16)]
    for s in held:
        s.sendall(hello())
        assert s.recv(HELLO_BYTES, socket.MSG_WAITALL)[:16] == MAGIC
    with connect(listener) as s:
        assert read_all(s) == b""
    held[0].sendall(b"y" * 64)
    assert held[0].recv(64, socket.MSG_WAITALL) == b"y" * 64
    for s in held:
        s.close()


class Impostor:
    """Answers each connection with these bytes and then closes it."""

    def __init__(self, answer):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.answer = answer
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                s, _ = self.socket.accept()
            except OSError:
                return
            with s:
                s.recv(HELLO_BYTES, socket.MSG_WAITALL)
                s.sendall(self.answer)

    def close(self):
        self.socket.close()


@pytest.mark.parametrize(
    "answer, message",
    [
        (b"", "the other end has closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".ljust(HELLO_BYTES), "is no `osprey doctor`"),
        (hello(), "the other end has closed the connection"),
    ],
    ids=["closes", "http", "greets and closes"],
)
def test_other_programs_as_peer(tmp_path, answer, message):
    impostor = Impostor(answer)
    found = doctor(tmp_path, "--peer", f"127.0.0.1:{impostor.port}")
    impostor.close()
    assert message in found["peer", "127.0.0.1"]["text"]


class OtherVersion(Impostor):
    """A doctor of another version that echoes. A bulk transfer is answered with `count`."""

    count = b""

    def serve(self):
        while True:
            try:
                s, _ = self.socket.accept()
            except OSError:
                return
            with s:
                mode = s.recv(HELLO_BYTES, socket.MSG_WAITALL)[16:17]
                s.sendall(hello(mode))
                while message := s.recv(64 if mode == b"e" else 1 << 20):
                    if mode == b"e":
                        s.sendall(message)
                s.sendall(self.count)


def test_another_version(tmp_path):
    other = OtherVersion(b"")
    found = doctor(tmp_path, "--peer", f"127.0.0.1:{other.port}")
    other.close()
    assert found["peer", "version"]["state"] == "broken"
    assert found["peer", "version"]["text"].startswith("osprey 0.0.0 there, ")


class WrongCount(OtherVersion):
    """Says that it has received more than was sent."""

    count = b"\xff" * 8


def test_a_count_that_cannot_be(tmp_path):
    peer = WrongCount(b"")
    found = doctor(tmp_path, "--peer", f"127.0.0.1:{peer.port}")
    peer.close()
    assert "the other end has received 18446744073709551615 of" in found["peer", "127.0.0.1"]["text"]
    assert ("peer", "bandwidth to") not in found

"""What strangers can make the real server keep or do: unread answers, bodies without a key, pages of other sites,
and the answers of clients that read slowly."""

import contextlib
import http.client
import json
import pathlib
import re
import socket
import time

import pytest
from conftest import PROGRAM

MIB = 1 << 20
CHAT = b'{"messages":[{"role":"user","content":"What is the capital of France?"}],"max_tokens":4}'
N_BODIES = 400


def resident(server):
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) * 1024


def connect(server, address="127.0.0.1", receive_bytes=None):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    if receive_bytes:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    s.settimeout(30)
    s.connect((address, server.port))
    return s


def read_all(s):
    got = b""
    while True:
        try:
            piece = s.recv(1 << 16)
        except ConnectionResetError:
            return got
        if not piece:
            return got
        got += piece


def ask(server, method="GET", path="/v1/models", body=None, address="127.0.0.1", **headers):
    connection = http.client.HTTPConnection(address, server.port, timeout=60)
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def metric(server, name):
    return float(re.search(rf"^{name} (\S+)$", ask(server, path="/metrics")[2].decode(), re.M)[1])


# ---- unread answers ----


@pytest.mark.parametrize("accept", [b"text/html", b"text/plain"])
def test_pipelining_without_reading(start_server, accept):
    """5 MB of requests, of which none is read: a connection keeps at most 1 MiB."""
    server = start_server("--api-key", "secret", "--stall-timeout", "60")
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: " + accept + b"\r\n\r\n"
    data = request * (5_000_000 // len(request))
    before = resident(server)
    sent = 0
    with connect(server, receive_bytes=16384) as s:
        s.settimeout(2)
        try:
            while sent < len(data):
                sent += s.send(data[sent : sent + MIB])
        except TimeoutError:
            pass  # the server has stopped to read
        assert server.health()["status"] == "ok"
        assert resident(server) - before < 8 * MIB
        s.settimeout(30)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        n = 0
        while n < 300:  # and goes on when the answers are read
            n += s.recv(1 << 20).count(b"HTTP/1.1 ")
        assert resident(server) - before < 8 * MIB


def get(path, accept=b"*/*"):
    return b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nAccept: " + accept + b"\r\n\r\n"


HOARDS = {
    "pages": get(b"/", b"text/html") * 2000,
    "documents": get(b"/openapi.json") * 2000,
    "small answers": get(b"/health") * 5000,
    "unknown paths": get(b"/nothing") * 5000,
    "a head": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: %s\r\n" % (b"x" * 7900) * 2,
    "a small body": b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65536\r\n\r\n" + b" " * 65535,
    "a page, then a body": get(b"/", b"text/html") * 5
    + b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65536\r\n\r\n"
    + b" " * 65535,
}


@pytest.mark.parametrize("name", HOARDS)
def test_memory_of_a_connection(start_server, name):
    """At most 1 MiB, whatever is sent and not read."""
    server = start_server("--stall-timeout", "60", "--request-timeout", "60", "-q")
    n = 60
    before = resident(server)
    sockets = []
    for _ in range(n):
        s = connect(server, receive_bytes=16384)
        s.settimeout(0.1)
        try:
            s.sendall(HOARDS[name])
        except TimeoutError:
            pass  # the server has stopped to read
        sockets.append(s)
    assert server.health()["status"] == "ok"
    assert resident(server) - before < n * MIB
    for s in sockets:
        s.close()


# ---- bodies ----


def unfinished(length, key=""):
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{key}"
        f"Content-Length: {length}\r\n\r\n"
    )
    return head.encode()


def send_until_refused(s, data):
    """All but the last byte, unless an answer comes first."""
    sent = 0
    try:
        while sent < len(data) - 1:
            sent += s.send(data[sent : len(data) - 1])
    except (ConnectionResetError, BrokenPipeError):
        pass


@pytest.mark.parametrize("key", ["", "Authorization: Bearer wrong\r\n"])
def test_bodies_without_the_key(start_server, key):
    """400 bodies of 4 MiB, one byte short: refused by their heads, and nothing of them is kept."""
    server = start_server("--api-key", "secret", "--request-timeout", "60")
    before = resident(server)
    body = b" " * (4 * MIB)
    sockets = []
    for _ in range(N_BODIES):
        s = connect(server)
        s.sendall(unfinished(len(body), key))
        assert s.recv(4096).startswith(b"HTTP/1.1 401 "), "before any byte of the body"
        send_until_refused(s, body)
        sockets.append(s)
    assert resident(server) - before < 40 * MIB
    for s in sockets:
        s.close()


def test_bodies_share_a_budget(start_server):
    """Without a key: the budget holds, what is above it gets 503, and small requests are answered."""
    server = start_server("--max-body-total", "16M", "--request-timeout", "60")
    before = resident(server)
    body = b" " * (4 * MIB)
    sockets, n_refused = [], 0
    for _ in range(N_BODIES // 4):
        s = connect(server)
        s.sendall(unfinished(len(body)) + body[:-1] if len(sockets) - n_refused < 4 else unfinished(len(body)))
        sockets.append(s)
        if len(sockets) > 4:
            answer = s.recv(4096)
            assert answer.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: 1\r\n" in answer, answer
            n_refused += 1
    assert n_refused == len(sockets) - 4
    assert resident(server) - before < 40 * MIB
    assert metric(server, "osprey:http_bodies_refused_total") == n_refused
    assert 15 * MIB < metric(server, "osprey:http_body_bytes") <= 16 * MIB
    assert ask(server, "POST", "/v1/chat/completions", CHAT)[0] == 200
    for s in sockets:
        s.close()
    large = json.dumps({"prompt": "a" * (2 * MIB)}).encode()
    end = time.monotonic() + 20
    while (status := ask(server, "POST", "/tokenize", large)[0]) == 503 and time.monotonic() < end:
        pass
    assert status == 200 and metric(server, "osprey:http_body_bytes") == 0


# ---- large answers ----


def test_slow_reader_gets_its_whole_answer(start_server):
    """At a rate at which the answer takes many times the idle time-out."""
    server = start_server("--idle-timeout", "1", "--stall-timeout", "5")
    body = json.dumps({"prompt": "a b c d e f g h " * 60_000, "return_token_strs": True}).encode()
    with connect(server, receive_bytes=16384) as s:
        s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
        head, _, rest = s.recv(65536).partition(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head)[1])
        assert length > 4 * MIB
        pieces, n, began = [rest], len(rest), time.monotonic()
        while n < length:
            piece = s.recv(65536)
            assert piece, f"closed after {n} of {length} bytes, {time.monotonic() - began:.1f} s"
            pieces.append(piece)
            n += len(piece)
            time.sleep(len(piece) / (1.2 * MIB))  # the rate
        assert time.monotonic() - began > 3
        answer = json.loads(b"".join(pieces))
        assert len(answer["token_strs"]) == answer["count"] == len(answer["tokens"])
        assert s.recv(1) == b""  # idle only now


# ---- hosts and pages ----


# --host and how to reach it: every way to say loopback, and the wildcards.
ADDRESSES = [
    ("::ffff:127.0.0.1", "127.0.0.1"),
    ("0:0:0:0:0:0:0:1", "::1"),
    ("127.1.2.3", "127.1.2.3"),
    ("0.0.0.0", "127.0.0.1"),
    ("::", "127.0.0.1"),
    ("localhost", "127.0.0.1"),
]


@pytest.mark.parametrize("bind, address", ADDRESSES)
def test_names_of_strangers(start_server, bind, address):
    """DNS rebinding: a page whose name comes to point at this machine."""
    try:
        server = start_server("--host", bind)
    except AssertionError:
        if ":" in bind and not pathlib.Path("/proc/net/if_inet6").exists():
            pytest.skip("no IPv6")
        raise
    for host in ("evil.example", f"evil.example:{server.port}"):
        for path in ("/health", "/v1/models", "/"):
            status, _, body = ask(server, path=path, address=address, Host=host)
            assert status == 403 and json.loads(body)["error"]["code"] == "forbidden_origin"
        assert ask(server, address=address, Host=host, Origin=f"http://{host}")[0] == 403
    for host in ("localhost", f"127.0.0.1:{server.port}", "[::1]", "192.0.2.7", "gpu.local", "osprey:8000"):
        assert ask(server, address=address, Host=host)[0] == 200, host


def test_a_name_of_this_machine(start_server):
    """Debian's own name for itself is 127.0.1.1, which is a loopback address."""
    name = socket.gethostname()
    try:
        found = socket.gethostbyname(name)
    except OSError:
        found = ""
    if not found.startswith("127."):
        pytest.skip(f"{name} is {found or 'unknown'}")
    server = start_server("--host", name)
    assert ask(server, address=found, Host=name)[0] == 200
    assert ask(server, address=found, Host="evil.example")[0] == 403


def test_any_name_with_a_key_on_a_network(start_server):
    server = start_server("--host", "0.0.0.0", "--api-key", "secret")
    key = {"Authorization": "Bearer secret"}
    assert ask(server, Host="llm.example.org", **key)[0] == 200
    assert ask(server, Host="llm.example.org", Origin="https://llm.example.org", **key)[0] == 200
    assert ask(server, Host="llm.example.org", Origin="https://evil.example", **key)[0] == 403
    assert server.stop() == 0
    assert not [line for line in server.log if "without an API key" in line]


def test_names_of_allowed_origins(start_server):
    server = start_server("--allowed-origins", "https://chat.example.org")
    assert ask(server, Host="chat.example.org")[0] == 200
    assert ask(server, Host="other.example.org")[0] == 403


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_pages_of_bare_addresses(server, method):
    """A page that was served from an IP address is another site's, whatever its name is."""
    body = CHAT if method == "POST" else None
    path = "/v1/chat/completions" if method != "GET" else "/v1/models"
    for origin in ("http://203.0.113.66", "http://192.168.1.7:8000", "http://[2001:db8::7]", "null"):
        status, headers, _ = ask(server, method, path, body, Origin=origin, Sec_Fetch_Site="cross-site")
        assert status == 403 and "access-control-allow-origin" not in headers, origin
    for origin in (f"http://127.0.0.1:{server.port}", "http://localhost:3000", "http://[::1]:3000"):
        status, headers, _ = ask(server, method, path, body, Origin=origin)
        assert status in (200, 204) and headers["access-control-allow-origin"] == origin, origin


def test_an_open_server_says_so(start_server):
    server = start_server("--host", "0.0.0.0")
    assert server.stop() == 0  # then the log is complete
    warnings = [line for line in server.log if "without an API key" in line]
    assert len(warnings) == 1 and warnings[0].startswith("W "), server.log
    assert f"listening on 0.0.0.0:{server.port} without an API key: anyone who can reach" in warnings[0]
    server = start_server()
    assert server.stop() == 0
    assert not [line for line in server.log if "without an API key" in line]


# ---- the access log ----


def test_who_asked(start_server):
    server = start_server("--api-key", "first,second")
    port = {}
    for key in ("second", "first", "wrong"):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("GET", f"/v1/models?{key}", headers={"Authorization": f"Bearer {key}"})
        port[key] = connection.sock.getsockname()[1]
        connection.getresponse().read()
    assert server.stop() == 0
    lines = {re.search(r"peer=127\.0\.0\.1:(\d+) ", x)[1]: x for x in server.log if " peer=" in x}
    assert " key=2 method=GET path=/v1/models status=200 " in lines[str(port["second"])]
    assert " key=1 method=GET path=/v1/models status=200 " in lines[str(port["first"])]
    assert " key=- method=GET path=/v1/models status=401 " in lines[str(port["wrong"])]
    assert not [x for x in server.log if "Bearer" in x or "wrong" in x]


# ---- connections ----


def health_on(s):
    s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return s.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def test_connections_beyond_the_limit(start_server, tmp_path):
    """With 128 open files 64 are left for connections: one more is closed at once, and served when another one ends."""
    program = tmp_path / "osprey"
    program.write_text(f'#!/bin/sh\nulimit -n 128\nexec "{PROGRAM}" "$@"\n')
    program.chmod(0o755)
    server = start_server(program=str(program))
    held = [connect(server) for _ in range(64)]
    assert all(health_on(s) for s in held)
    assert read_all(connect(server)) == b""
    held.pop().close()
    for _ in range(100):  # until the server has seen its end
        with connect(server) as s, contextlib.suppress(OSError):
            if health_on(s):
                break
    else:
        raise AssertionError("no connection is taken after one has ended")
    assert all(health_on(s) for s in held)


def test_idle_connections_are_closed(start_server):
    server = start_server("--idle-timeout", "1")
    s = connect(server)
    assert health_on(s)
    begin = time.monotonic()
    assert read_all(s) == b""
    assert 0.9 < time.monotonic() - begin < 10

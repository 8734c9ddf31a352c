"""https: `--ssl-certfile` and `--ssl-keyfile`. Versions and ciphers, clients that fail, the limits of plain connections,
the end of the server, and certificates that are replaced."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
import urllib.request

import certificates
import openai
import pytest
from conftest import Server, run

SETTLE_S = 60
CHAT = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 64}
LONG = {**CHAT, "max_tokens": 4000, "ignore_eos": True, "stream": True}
FAILED = "osprey:http_tls_handshakes_failed_total"


class TlsServer(Server):
    def __init__(self, pair, *options):
        self.cert, self.key = pair
        self.context = ssl.create_default_context(cafile=self.cert)
        super().__init__("--ssl-certfile", str(self.cert), "--ssl-keyfile", str(self.key), *options)

    def client(self, key="none", **options):
        web = openai.DefaultHttpxClient(verify=self.context)
        return super().client(key, http_client=web, **options)

    def health(self):
        return json.loads(self.get("/health"))

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=30, context=self.context) as answer:
            return answer.read().decode()

    def metric(self, name):
        return float(re.search(rf"^{name} (\S+)$", self.get("/metrics"), re.M)[1])

    def wait_for(self, condition, what):
        end = time.monotonic() + SETTLE_S
        while not condition():
            assert time.monotonic() < end, (what, self.log)
            time.sleep(0.02)

    def wait_log(self, part):
        self.wait_for(lambda: any(part in line for line in self.log), part)

    def tcp(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=SETTLE_S)

    def tls(self, context=None):
        """Strict about the end: without a close_notify recv() fails."""
        return (context or self.context).wrap_socket(
            self.tcp(), server_hostname="localhost", suppress_ragged_eofs=False
        )


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(pair):
    running = TlsServer(pair)
    yield running
    assert running.stop() == 0, running.log


@pytest.fixture
def start(pair):
    running = []

    def start_one(*options, pair=pair):
        running.append(TlsServer(pair, *options))
        return running[-1]

    yield start_one
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def request(path="/health", *fields):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *fields, "", ""]).encode()


def post(body):
    data = json.dumps(body).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def read_all(s):
    got = b""
    while piece := s.recv(1 << 16):
        got += piece
    return got


# ---- what works ----


def test_url_and_page(server):
    assert server.url == f"https://127.0.0.1:{server.port}"
    server.wait_log(f"listening on {server.url}, loading")
    assert server.health()["status"] == "ok"
    assert "osprey-nano" in server.get("/")


def test_openai_client(server):
    client = server.client()
    whole = client.chat.completions.create(model="osprey-nano", **CHAT)
    assert "Paris" in whole.choices[0].message.content
    pieces = list(client.chat.completions.create(model="osprey-nano", stream=True, **CHAT))
    assert len(pieces) > 3
    text = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
    assert text == whole.choices[0].message.content


def test_browsers(server):
    """The page's own requests have an https origin; another site's are refused."""
    for origin, status in ((server.url, 200), ("https://evil.example", 403)):
        connection = http.client.HTTPSConnection("localhost", server.port, timeout=60, context=server.context)
        headers = {"Content-Type": "application/json", "Origin": origin}
        connection.request("POST", "/v1/chat/completions", json.dumps({**CHAT, "max_tokens": 2}), headers)
        assert connection.getresponse().status == status


def test_large_bodies(server):
    """About 3 MB there, and an answer of some 7 MB back."""
    text = "word " * 600_000
    body = json.dumps({"prompt": text}).encode()
    sent = urllib.request.Request(server.url + "/tokenize", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(sent, timeout=SETTLE_S, context=server.context) as answer:
        ids = json.load(answer)["tokens"]
    back = urllib.request.Request(
        server.url + "/detokenize", json.dumps({"tokens": ids}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(back, timeout=SETTLE_S, context=server.context) as answer:
        assert json.load(answer)["prompt"] == text


def test_many_connections(server):
    """100 at once: each is open before the first one asks, and asks twice."""
    connections = [server.tls() for _ in range(100)]
    for s in connections * 2:
        s.sendall(request("/v1/models"))
    answers = [b""] * len(connections)
    for i, s in enumerate(connections):
        while answers[i].count(b"osprey-nano") < 2:
            piece = s.recv(1 << 16)
            assert piece, answers[i]
            answers[i] += piece
    for s in connections:
        s.close()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(h["status"] == "ok" for h in pool.map(lambda _: server.health(), range(100)))


def test_pieces_of_a_request(server):
    """A record for each byte, and many requests in one record."""
    with server.tls() as s:
        for byte in request("/health", "Connection: close"):
            s.sendall(bytes([byte]))
        assert read_all(s).startswith(b"HTTP/1.1 200 OK\r\n")
    with server.tls() as s:
        s.sendall(request() * 50 + request("/health", "Connection: close"))
        assert read_all(s).count(b"HTTP/1.1 200 OK\r\n") == 51


# ---- versions, ciphers, protocols ----


def s_client(server, *options, said=b""):
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-CAfile", str(server.cert), *options],
        input=said,
        capture_output=True,
        timeout=SETTLE_S,
    )
    return (done.stdout + done.stderr).decode(errors="replace")


WEAK = ["-cipher", "ALL:@SECLEVEL=0"]


@pytest.mark.parametrize("version", ["tls1", "tls1_1"])
def test_old_versions_are_refused(server, version):
    text = s_client(server, f"-{version}", *WEAK)
    assert "alert protocol version" in text and "Cipher is (NONE)" in text


@pytest.mark.parametrize("version, name", [("tls1_2", "TLSv1.2"), ("tls1_3", "TLSv1.3")])
def test_versions(server, version, name):
    text = s_client(server, f"-{version}", "-alpn", "h2,http/1.1")
    assert f"New, {name}, Cipher is " in text and "(NONE)" not in text
    assert "Verify return code: 0 (ok)" in text
    assert "ALPN protocol: http/1.1" in text and "Compression: NONE" in text


def test_http_2_alone_is_refused(server):
    assert "alert no application protocol" in s_client(server, "-alpn", "h2")


@pytest.mark.parametrize("cipher", ["ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES128-SHA256", "AES128-GCM-SHA256", "NULL",
                                    "aNULL"])  # fmt: skip
def test_weak_ciphers_are_refused(server, cipher):
    text = s_client(server, "-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0")
    assert "alert handshake failure" in text and "Cipher is (NONE)" in text, text


def test_renegotiation_is_refused(server):
    text = s_client(server, "-tls1_2", said=b"R\n")
    assert "RENEGOTIATING" in text and "no renegotiation" in text
    assert server.health()["status"] == "ok"


def test_a_session_is_resumed(server, tmp_path):
    session = str(tmp_path / "session")
    question = request("/health", "Connection: close")
    for version in ("-tls1_2", "-tls1_3"):
        assert "New, " in s_client(server, version, "-ign_eof", "-sess_out", session, said=question)
        assert "Reused, " in s_client(server, version, "-ign_eof", "-sess_in", session, said=question)


# ---- clients that fail ----


def test_plain_http_on_the_port(server):
    before = server.metric(FAILED)
    with server.tcp() as s:
        s.sendall(request())
        assert not read_all(s).startswith(b"HTTP")  # an alert at most
    server.wait_log("a plain HTTP request on a port for TLS; the client must use https://")
    assert server.metric(FAILED) == before + 1


@pytest.mark.parametrize("size", [1, 5, 200, 70_000])
def test_garbage(server, size):
    before = server.metric(FAILED)
    with server.tcp() as s, contextlib.suppress(ConnectionError):
        s.sendall(os.urandom(size - 1) + b"\xff" if size > 1 else b"\xff")
        s.shutdown(socket.SHUT_WR)
        read_all(s)
    server.wait_for(lambda: server.metric(FAILED) == before + 1, "the failed handshake is counted")
    assert server.health()["status"] == "ok"


def test_garbage_after_the_handshake(server):
    before = server.metric(FAILED)
    s = server.tls()
    raw = socket.socket(fileno=os.dup(s.fileno()))
    s.sendall(request()[:20])
    raw.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
    with raw:
        raw.settimeout(SETTLE_S)
        with contextlib.suppress(ConnectionError):
            read_all(raw)
    s.close()
    server.wait_log("tls peer=")
    assert server.metric(FAILED) == before  # the handshake itself was good


def test_a_client_that_does_not_trust_the_certificate(server):
    before = server.metric(FAILED)
    with pytest.raises(ssl.SSLCertVerificationError):
        server.tls(ssl.create_default_context())
    server.wait_log("unknown ca")
    assert server.metric(FAILED) == before + 1


@pytest.mark.parametrize("command", [("status", "--once", "--url"), ("chat", "-p", "Hello", "--url")])
def test_commands_say_how_to_trust_a_certificate(server, command):
    done = run(*command, f"https://127.0.0.1:{server.port}")
    assert done.returncode == 1
    assert "certificate" in done.stderr and "SSL_CERT_FILE can name a PEM file" in done.stderr
    assert "is the server running" not in done.stderr


def test_a_handshake_that_stalls(start):
    """The time limit of a request's head covers the handshake. A connection without a byte is no handshake."""
    server = start("--request-timeout", "1")
    outgoing = ssl.MemoryBIO()
    hello = server.context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    data = outgoing.read()
    with server.tcp() as silent, server.tcp() as half, server.tcp() as whole:
        half.sendall(data[: len(data) // 2])
        whole.sendall(data)
        assert read_all(half) == b"" and read_all(silent) == b""
        assert read_all(whole).startswith(b"\x16\x03\x03")  # the answer of the server, and then its end
    assert server.metric(FAILED) == 2
    assert server.stop() == 0  # then the log is complete
    limit = [line for line in server.log if "not complete within the time limit (--request-timeout)" in line]
    assert len(limit) == 2 and all(" tls peer=127.0.0.1:" in line for line in limit)


def test_a_request_that_does_not_come(start):
    """After the handshake the first request has the same time limit, not that of idle connections."""
    server = start("--request-timeout", "1", "--idle-timeout", "600")
    with server.tls() as s:
        assert s.recv(10) == b""  # with a close_notify
    assert server.metric(FAILED) == 0


# ---- limits of a connection ----


def test_a_slow_reader_is_dropped(start):
    server = start("--stall-timeout", "1")
    with server.tls() as s:
        s.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            s.sendall(request("/openapi.json") * 3000)
        server.wait_for(lambda: server.metric("osprey:http_slow_readers_total") == 1, "the client is dropped")
    assert server.metric("osprey:http_queue_bytes") < 1 << 20  # of /metrics itself at most


def test_memory_of_unread_answers_is_limited(start):
    server = start("--stall-timeout", "60")
    with server.tls() as s:
        s.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            s.sendall(request("/openapi.json") * 3000)
        server.wait_for(lambda: server.metric("osprey:http_queue_bytes") > 1 << 16, "answers are queued")
        assert server.metric("osprey:http_queue_bytes") < 2 << 20


class HalfOpen:
    """A TLS client that can close its sending side alone, with a close_notify or without."""

    def __init__(self, server):
        self.socket, self.incoming, self.outgoing = server.tcp(), ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = server.context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.step(self.tls.do_handshake)

    def flush(self):
        if data := self.outgoing.read():
            self.socket.sendall(data)

    def step(self, call, *arguments):
        while True:
            try:
                result = call(*arguments)
                self.flush()
                return result
            except ssl.SSLWantReadError:
                self.flush()
                data = self.socket.recv(1 << 16)
                if data:
                    self.incoming.write(data)
                else:
                    self.incoming.write_eof()

    def end(self, notify):
        if notify:
            with contextlib.suppress(ssl.SSLWantReadError):
                self.tls.unwrap()
            self.flush()
        self.socket.shutdown(socket.SHUT_WR)

    def read_all(self):
        got = b""
        while True:
            piece = self.step(self.tls.read, 1 << 16)
            if not piece:  # a close_notify: without one read() fails
                return got
            got += piece


def test_half_close(server):
    """The client closes its sending side after its request; it gets the whole answer and a close_notify."""
    client = HalfOpen(server)
    client.step(client.tls.write, post({**CHAT, "stream": True}))
    client.end(notify=False)
    text = client.read_all()
    assert b"HTTP/1.1 200 OK" in text and b"data: [DONE]" in text
    client.socket.close()


def test_close_notify_after_a_request(server):
    """The answer comes although the client has said that it sends nothing more."""
    client = HalfOpen(server)
    client.step(client.tls.write, post(CHAT))
    client.end(notify=True)
    encrypted = b""
    while piece := client.socket.recv(1 << 16):
        encrypted += piece
    assert len(encrypted) > 500  # OpenSSL does not decrypt what comes after its own close_notify
    client.socket.close()


def test_a_client_that_leaves(server):
    done = server.health()["requests_done"]
    with server.tls() as s:
        s.sendall(post(LONG))
        while b"data: " not in s.recv(1 << 16):
            pass
    server.wait_until(lambda h: h["requests_done"] > done and h["running"] == 0, "the request is canceled")
    server.wait_log("gone=1")


# ---- the end of the server ----


def test_drain(start):
    server = start()
    with server.tls() as busy, server.tls() as idle, server.tcp() as shaking:
        shaking.sendall(b"\x16\x03\x01")
        idle.sendall(request())
        busy.sendall(post({**CHAT, "stream": True}))
        text = busy.recv(1 << 16)
        server.process.send_signal(signal.SIGTERM)
        text += read_all(busy)  # fails without a close_notify
        assert b"data: [DONE]" in text
        assert read_all(idle).startswith(b"HTTP/1.1 200 OK\r\n")
        assert read_all(shaking) == b""
    assert server.process.wait(SETTLE_S) == 0


# ---- certificates that change ----


def serial_of(server):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with server.tls(context) as s:
        der = s.getpeercert(binary_form=True)
    text = certificates.openssl("x509", "-inform", "der", "-noout", "-serial", input=der).stdout
    return int(text.decode().split("=")[1], 16)


def test_new_files_are_used(start, tmp_path):
    pair = certificates.make(tmp_path, serial=11)
    server = start(pair=pair)
    assert serial_of(server) == 11
    old = server.tls()
    cert, key = certificates.make(tmp_path, "new", serial=12)
    cert.replace(pair[0])  # the key does not belong to it yet
    server.wait_log("not the one of the certificate in")
    assert serial_of(server) == 11
    key.replace(pair[1])
    server.wait_for(lambda: serial_of(server) == 12, "the new certificate is used")
    server.wait_log("the certificate was read again")
    (tmp_path / "next").write_text("nonsense")
    (tmp_path / "next").replace(pair[0])
    server.wait_log("no certificate in this file")
    assert serial_of(server) == 12
    old.sendall(request("/health", "Connection: close"))  # a connection keeps what it began with
    assert read_all(old).startswith(b"HTTP/1.1 200 OK")
    errors = [line for line in server.log if "stay in use" in line]
    assert len(errors) == 2 and all(line.startswith("E ") for line in errors)  # each once
    assert server.stop() == 0


# ---- files that cannot be used ----


def expect_refusal(*options, part):
    done = run("serve", "--port", "0", *map(str, options))
    assert done.returncode == 1 and part in done.stderr and "listening" not in done.stderr, done.stderr


def test_wrong_files(pair, tmp_path):
    cert, key = pair
    other = certificates.make(tmp_path, "other")[1]
    secret = tmp_path / "secret.key"
    certificates.openssl("pkey", "-in", key, "-aes128", "-passout", "pass:x", "-out", secret)
    weak = tmp_path / "weak.pem"
    certificates.openssl(
        "req", "-x509", "-newkey", "rsa:1024", "-nodes", "-keyout", tmp_path / "weak.key", "-out", weak, "-subj", "/CN=x"
    )
    expect_refusal("--ssl-certfile", "/nowhere.pem", part="--ssl-certfile: /nowhere.pem: ")
    expect_refusal("--ssl-certfile", cert, "--ssl-keyfile", "/nowhere.key", part="--ssl-keyfile: /nowhere.key: ")
    expect_refusal("--ssl-certfile", cert, "--ssl-keyfile", other, part="is not the one of the certificate in")
    expect_refusal("--ssl-certfile", cert, "--ssl-keyfile", secret, part="has a password")
    expect_refusal("--ssl-certfile", cert, part="no private key can be read")
    expect_refusal("--ssl-certfile", weak, "--ssl-keyfile", tmp_path / "weak.key", part="key too small")
    expect_refusal("--ssl-keyfile", key, part="needs --ssl-certfile")


def test_one_file_and_llama_servers_names(start, pair, tmp_path):
    both = tmp_path / "both.pem"
    both.write_text(pair[0].read_text() + pair[1].read_text())
    server = Server("--ssl-cert-file", str(both))
    assert server.url.startswith("https://") and server.stop() == 0


def test_an_expired_certificate(start, tmp_path):
    cert, key = certificates.make(tmp_path, days=1)
    ended = tmp_path / "ended.pem"
    certificates.openssl(  # "now" of 2020 cannot be told to openssl req, so a request is signed with both dates
        "req", "-new", "-key", key, "-subj", "/CN=localhost", "-out", tmp_path / "request.pem"
    )
    (tmp_path / "ca").mkdir()
    (tmp_path / "index").write_text("")
    (tmp_path / "serial").write_text("01\n")
    (tmp_path / "ca.cnf").write_text(
        f"[ca]\ndefault_ca=d\n[d]\ndatabase={tmp_path}/index\nserial={tmp_path}/serial\nnew_certs_dir={tmp_path}/ca\n"
        "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n"
    )
    certificates.openssl(
        "ca", "-batch", "-selfsign", "-config", tmp_path / "ca.cnf", "-keyfile", key, "-in", tmp_path / "request.pem",
        "-startdate", "200101000000Z", "-enddate", "200201000000Z", "-out", ended, "-notext",
    )  # fmt: skip
    server = start(pair=(ended, key))
    server.context = ssl._create_unverified_context()
    assert server.health()["status"] == "ok"
    server.wait_log("the certificate has expired")
    assert server.stop() == 0

"""Bytes that no good client sends, to the real server: it answers each with an error of its own or
closes, goes on serving others, and leaks nothing."""

import json
import os
import socket
import threading
import time

import pytest

BODY = b'{"messages":[{"role":"user","content":"What is the capital of France?"}],"max_tokens":4}'
HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
)


@pytest.fixture(scope="module")
def hasty(request):
    from conftest import Server

    server = Server("--request-timeout", "2", "--idle-timeout", "3", "--max-body", "64K")
    yield server
    assert server.stop() == 0, server.log


def ask(server, data, close_write=False, timeout_s=20):
    """Sends bytes, gives all that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=timeout_s) as s:
        try:
            s.sendall(data)
            if close_write:
                s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        got = b""
        while True:
            try:
                piece = s.recv(65536)
            except ConnectionResetError:
                return got
            if not piece:
                return got
            got += piece


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


# Of what is refused before there is a request: nothing of it can be a parameter's fault.
CODES = {405: "method_not_allowed", 408: "request_timeout", 413: "body_too_large", 414: "url_too_long", 415: "unsupported_media_type", 417: "expectation_failed",
         431: "headers_too_large", 501: "not_implemented", 505: "http_version_not_supported"}


def is_error_object(answer):
    error = json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]
    status = status_of(answer)
    assert error["code"] == CODES.get(status, error["code"]) and error["code"]
    assert error["type"] == ("server_error" if status >= 500 else "invalid_request_error")
    return set(error) == {"message", "type", "param", "code"} and error["message"]


GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
CASES = {
    "two lengths": (HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
    "two equal lengths": (HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
    "length and chunks": (HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks and length": (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
    "unknown coding": (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", 501),
    "folded field": (GET + b"A: b\r\n c\r\n\r\n", 400),
    "space before colon": (GET + b"A : b\r\n\r\n", 400),
    "no name": (GET + b": b\r\n\r\n", 400),
    "bare LF": (b"GET /health HTTP/1.1\nHost: localhost\n\n", 400),
    "no version": (b"GET /health\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "TLS": (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", 400),
    "CONNECT": (b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", 405),
    "CONNECT to a path": (b"CONNECT /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "two hosts": (GET + b"Host: localhost\r\n\r\n", 400),
    "a stranger's host": (b"GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 403),
    "long target": (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n", 414),
    "large head": (GET + b"A: " + b"a" * 20000 + b"\r\n\r\n", 431),
    "many fields": (GET + b"A: b\r\n" * 200 + b"\r\n", 431),
    "announced large body": (HEAD + b"Content-Length: 70000\r\n\r\n", 413),
    "chunked large body": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"4000\r\n" + b" " * 0x4000 + b"\r\n") * 5,
        413,
    ),
    "chunk size beyond the limit": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n7FFFFFFFFFFFFFFF\r\n", 413),
    "LF in a chunk extension": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3;a=b\nabc\r\n0\r\n\r\n",
        400,
    ),
    "compressed body": (HEAD + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", 415),
    "not JSON": (HEAD + b"Connection: close\r\nContent-Length: 1\r\n\r\nx", 400),
    "deep JSON": (
        HEAD + b"Connection: close\r\nContent-Length: 60000\r\n\r\n" + b"[" * 60000,
        400,
    ),
    "invalid UTF-8": (HEAD + b'Connection: close\r\nContent-Length: 4\r\n\r\n{"\xff"', 400),
    "a zero byte behind a number": (
        HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % (len(BODY) + 1) + BODY[:-1] + b"\0}",
        400,
    ),
    "a form": (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=b",
        415,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(hasty, name):
    data, status = CASES[name]
    answer = ask(hasty, data)
    assert status_of(answer) == status, answer
    assert answer.count(b"\r\ndate: ") == 1
    assert is_error_object(answer)
    assert hasty.health()["status"] == "ok"


def test_byte_by_byte(hasty):
    data = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=20) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(data)):
            s.send(data[i : i + 1])
        got = b""
        while piece := s.recv(65536):
            got += piece
    assert status_of(got) == 200


def test_chunked_body(hasty):
    """Also with extensions of chunks."""
    chunks = b"".join(b"%x;a=b;c=\"d;\"\r\n%s\r\n" % (len(BODY[i : i + 7]), BODY[i : i + 7]) for i in range(0, len(BODY), 7))
    answer = ask(hasty, HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
    assert status_of(answer) == 200
    assert b'"finish_reason"' in answer


def test_pipelining(hasty):
    post = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    answer = ask(hasty, GET + b"\r\n" + post + GET + b"Connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert answer.index(b'"status":"ok"') < answer.index(b"chatcmpl-") < answer.rindex(b'"status":"ok"')


def test_nothing_is_read_after_close(hasty):
    answer = ask(hasty, GET + b"Connection: close\r\n\r\n" + GET + b"\r\n")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_half_close(hasty):
    data = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    answer = ask(hasty, data, close_write=True)
    final = answer[answer.index(b"HTTP/1.1 200") :]
    assert b'"finish_reason"' in final


def test_http_1_0(hasty):
    answer = ask(hasty, b"GET /health HTTP/1.0\r\n\r\n")
    assert status_of(answer) == 200
    assert b"connection: close" in answer.lower()


def test_head_and_options(hasty):
    head = ask(hasty, b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert status_of(head) == 200 and head.endswith(b"\r\n\r\n")
    options = ask(hasty, b"OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert status_of(options) == 204 and b"allow: GET, HEAD, OPTIONS" in options


@pytest.mark.parametrize("start", [b"", b"GET /health HTTP/1.1\r\nHost: lo", HEAD + b"Content-Length: 9\r\n\r\nabc"])
def test_slow_requests_are_ended(hasty, start):
    """A request that never becomes whole is ended by the deadline, drip or no drip."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=20) as s:
        s.sendall(start)
        got = b""
        while piece := s.recv(65536):
            got += piece
    assert time.monotonic() - began < 15
    assert got == b"" if not start else status_of(got) == 408 and is_error_object(got)


def test_many_slow_connections_disturb_nobody(hasty):
    sockets = []
    for _ in range(300):
        s = socket.create_connection(("127.0.0.1", hasty.port), timeout=20)
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nA: ")
        sockets.append(s)
    began = time.monotonic()
    assert hasty.health()["status"] == "ok"
    assert time.monotonic() - began < 5
    for s in sockets:
        s.settimeout(20)
        assert b"408" in s.recv(4096)
        s.close()


def n_descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def test_nothing_is_left_behind(hasty):
    hasty.wait_idle()
    before = n_descriptors(hasty)

    def abuse():
        for data, _ in CASES.values():
            ask(hasty, data)

    threads = [threading.Thread(target=abuse) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    end = time.monotonic() + 20
    while n_descriptors(hasty) > before + 1 and time.monotonic() < end:
        time.sleep(0.05)
    assert n_descriptors(hasty) <= before + 1
    hasty.wait_idle()

"""Behind a reverse proxy with a public name, as docs/proxy.md says. The proxy is a small one of this file
that sets the Host field as nginx does."""

import http.client
import json
import re
import socket
import threading

import pytest

CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
PUBLIC = "https://chat.example.com"


class Proxy:
    """Forwards each connection; `host` is nginx's variable for `proxy_set_header Host`."""

    def __init__(self, server_port, host):
        self.server_port, self.host = server_port, host
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _host(self, given):
        if self.host == "$proxy_host":  # nginx's default
            return f"127.0.0.1:{self.server_port}"
        return given.split(":")[0] if self.host == "$host" else given

    def _serve(self, client):
        with client, socket.create_connection(("127.0.0.1", self.server_port)) as upstream:
            data = b""
            while b"\r\n\r\n" not in data:
                data += client.recv(65536)
            head, _, body = data.partition(b"\r\n\r\n")
            fields = head.decode().split("\r\n")
            for i, field in enumerate(fields):
                if field.lower().startswith("host: "):
                    fields[i] = f"Host: {self._host(field[6:])}"
            fields += ["Connection: close", "X-Forwarded-Proto: https"]
            upstream.sendall("\r\n".join(fields).encode() + b"\r\n\r\n" + body)
            length = int((re.search(rb"content-length: (\d+)", head, re.IGNORECASE) or [0, 0])[1])
            while len(body) < length:
                piece = client.recv(65536)
                body += piece
                upstream.sendall(piece)
            while piece := upstream.recv(65536):
                client.sendall(piece)


@pytest.fixture
def start_proxy():
    proxies = []

    def start(*options):
        proxies.append(Proxy(*options))
        return proxies[-1]

    yield start
    for proxy in proxies:
        proxy.listener.close()


def ask(port, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    if body is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@pytest.mark.parametrize("variable", ["$host", "$http_host", "$proxy_host"])
@pytest.mark.parametrize("origin", [PUBLIC, PUBLIC + ":8443"])
def test_a_page_through_a_proxy(start_server, start_proxy, variable, origin):
    server = start_server("--allowed-origins", origin)
    proxy = start_proxy(server.port, variable)
    host = origin.removeprefix("https://")
    page = {"Host": host, "Origin": origin, "Sec-Fetch-Site": "same-origin"}
    assert ask(proxy.port, "GET", "/health", Host=host)[0] == 200
    assert ask(proxy.port, "GET", "/", Host=host)[0] == 200
    assert ask(proxy.port, "POST", "/v1/chat/completions", CHAT, **page)[0] == 200
    status, text = ask(proxy.port, "POST", "/v1/chat/completions", {**CHAT, "stream": True}, **page)
    assert status == 200 and text.endswith("data: [DONE]\n\n")
    other = {**page, "Origin": "https://other.example.com", "Sec-Fetch-Site": "cross-site"}
    status, text = ask(proxy.port, "POST", "/v1/chat/completions", CHAT, **other)
    assert status == 403
    assert "--allowed-origins https://other.example.com" in json.loads(text)["error"]["message"]


def test_a_proxy_without_allowed_origins_is_told(server, start_proxy):
    proxy = start_proxy(server.port, "$host")
    status, text = ask(proxy.port, "GET", "/health", Host="chat.example.com")
    message = json.loads(text)["error"]["message"]
    assert status == 403
    assert f"--allowed-origins {PUBLIC}," in message and "--host" not in message
    assert "reverse proxy send its own Host" in message


NAMES = ["x", "mybox", "mybox.local", "host.docker.internal", "app.localhost", "192.0.2.7", "[2001:db8::7]"]


@pytest.mark.parametrize("name", NAMES)
def test_local_names_work_from_browsers(server, name):
    host = f"{name}:{server.port}"
    page = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    assert ask(server.port, "POST", "/v1/chat/completions", CHAT, **page)[0] == 200


def test_pages_of_extensions(start_server):
    origin = "chrome-extension://abcdefghijklmnopabcdefghijklmnop"
    server = start_server("--allowed-origins", origin)
    assert ask(server.port, "POST", "/v1/chat/completions", CHAT, Host="localhost", Origin=origin)[0] == 200

"""nginx and Caddy in front of osprey, over TLS, with the settings of docs/proxy.md. Both are the distribution's;
tools/setup.sh unpacks them below build/setup if they are not installed. The device computes nothing, at a pace that
the test sets, so that a test can hold a stream and look at what has arrived."""

import contextlib
import http.client
import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time

import certificates
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "load"))
from load import Server  # noqa: E402

NAME = "chat.example.com"
ORIGIN = f"https://{NAME}"
WAIT_S = 60
MIB = 1 << 20
N_TOKENS, N_ENDLESS = 400, 72_000
HEADER_TOKENS = 3  # <|channel|>final<|message|>; letters follow, one by one


def block_of(language, first_line):
    """A fenced block of the page."""
    page = (ROOT / "docs" / "proxy.md").read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)
    (block,) = [b for b in blocks if b.startswith(first_line)]
    return block


def replaced(text, changes):
    """Each change concerns exactly one place, so that a renamed setting is found."""
    for old, new in changes.items():
        assert text.count(old) == 1, (old, text)
        text = text.replace(old, new)
    return text


def nginx(folder, program, port, upstream, pair):
    site = replaced(
        block_of("nginx", "server {"),
        {
            "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
            "/etc/ssl/chat.example.com.pem": str(pair[0]),
            "/etc/ssl/chat.example.com.key": str(pair[1]),
            "http://127.0.0.1:8000;": f"http://127.0.0.1:{upstream};",
        },
    )
    parts = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{part}_temp_path {folder}/{part};\n" for part in parts)
    user = "user root;\n" if folder.owner() == "root" else ""
    (folder / "nginx.conf").write_text(
        f"{user}daemon off;\npid {folder}/nginx.pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{site}}}\n"
    )
    return [program, "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]


def caddy(folder, program, port, upstream, pair):
    site = replaced(
        block_of("", f"{NAME} {{"),
        {
            f"{NAME} {{": f"{NAME} {{\n    tls {pair[0]} {pair[1]}",
            "127.0.0.1:8000": f"127.0.0.1:{upstream}",
        },
    )
    (folder / "Caddyfile").write_text(
        f"{{\nadmin off\nauto_https disable_redirects\nhttps_port {port}\ndefault_bind 127.0.0.1\n"
        f"storage file_system {folder}\n}}\n{site}"
    )
    return [program, "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


KINDS = {"nginx": (nginx, "-v"), "caddy": (caddy, "version")}


def program_of(kind):
    """Skips the test if the proxy is not there, or does not start on this system."""
    unpacked = ROOT / "build" / "setup" / "programs" / kind
    found = shutil.which(kind) or shutil.which(kind, path=f"/usr/sbin:{unpacked}/usr/sbin:{unpacked}/usr/bin")
    if not found:
        pytest.skip(f"{kind} is neither installed nor unpacked by tools/setup.sh")
    works = subprocess.run([found, KINDS[kind][1]], capture_output=True, text=True)
    if works.returncode != 0:
        pytest.skip(f"{found} does not start: {works.stderr.strip()}")
    return found


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Proxy:
    def __init__(self, kind, folder, pair, upstream):
        self.context = ssl.create_default_context(cafile=pair[0])
        self.port = free_port()
        self.folder = folder
        self.answers = []
        command = KINDS[kind][0](folder, program_of(kind), self.port, upstream, pair)
        with open(folder / "log", "wb") as log:
            environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self._wait()

    def _wait(self):
        end = time.monotonic() + WAIT_S
        while True:
            try:
                return self.connect().close()
            except OSError:
                log = (self.folder / "log").read_text()
                assert self.process.poll() is None and time.monotonic() < end, log
                time.sleep(0.02)

    def connect(self):
        connection = http.client.HTTPSConnection(NAME, timeout=WAIT_S)
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        connection.sock = self.context.wrap_socket(plain, server_hostname=NAME)
        return connection

    def send(self, method, path, body=None, **headers):
        connection = self.connect()
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        answer.connection = connection  # kept open with the answer
        return answer

    def log(self):
        return (self.folder / "log").read_text()

    def ask(self, *arguments, **headers):
        """The connection stays open: when a client of Caddy 2.6 closes its connection at once, the next request that
        uses the same connection to the server may be cut."""
        answer = self.send(*arguments, **headers)
        self.answers.append(answer)
        return answer.status, answer.read().decode()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Setting:
    """osprey, a proxy in front of it, and the pace of the device."""

    def __init__(self, kind, folder, pair):
        self.file = folder / "control"
        self.held = folder / "control.held"
        self.server = Server(0, "--allowed-origins", ORIGIN, "--log-level", "info", control=self.file)
        self.proxy = None
        try:
            self.proxy = Proxy(kind, folder, pair, self.server.port)
        except BaseException:
            self.stop()
            raise

    def pace(self, text):
        self.held.unlink(missing_ok=True)
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.rename(self.file)

    def wait_for(self, condition, what):
        end = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end, (what, self.server.log)
            time.sleep(0.01)

    def stop(self):
        if self.proxy:
            self.proxy.stop()
        self.server.process.kill()
        self.server.process.wait()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"), "proxy")


@pytest.fixture(scope="module", params=KINDS)
def setting(request, pair, tmp_path_factory):
    program_of(request.param)
    running = Setting(request.param, pathlib.Path(tmp_path_factory.mktemp(request.param)), pair)
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def at_full_speed(setting):
    setting.pace("run 0")
    setting.wait_for(lambda: setting.server.health()["running"] == 0, "idle")
    setting.tokens_before = int(setting.server.metric("vllm:generation_tokens_total"))


def chat(**more):
    return {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": N_TOKENS, **more}


def test_the_page(setting):
    answer = setting.proxy.send("GET", "/", Accept="text/html")
    setting.proxy.answers.append(answer)
    page = answer.read().decode()
    assert answer.status == 200 and "<html" in page and "connect-src 'self'" in answer.headers["content-security-policy"]
    assert setting.proxy.ask("GET", "/health")[0] == 200
    assert json.loads(setting.proxy.ask("GET", "/v1/models")[1])["data"]


def test_a_post_of_the_page_and_of_another_site(setting):
    own = {"Origin": ORIGIN, "Sec_Fetch_Site": "same-origin"}
    status, text = setting.proxy.ask("POST", "/v1/chat/completions", chat(max_tokens=20), **own)
    assert status == 200 and json.loads(text)["usage"]["completion_tokens"] == 20
    other = {"Origin": "https://other.example.com", "Sec_Fetch_Site": "cross-site"}
    status, text = setting.proxy.ask("POST", "/v1/chat/completions", chat(), **other)
    assert status == 403 and json.loads(text)["error"]["code"] == "forbidden_origin"


def letters(line):
    if not line.startswith(b"data: {"):
        return 0
    choices = json.loads(line[6:])["choices"]
    return len(choices[0]["delta"].get("content") or "") if choices else 0


class Cut(Exception):
    """The proxy has ended the stream."""


def check_stream(setting):
    setting.pace("run 5")
    answer = setting.proxy.send("POST", "/v1/chat/completions", chat(stream=True), Origin=ORIGIN)
    assert answer.status == 200, (answer.status, answer.read(), setting.proxy.log())
    n = 0

    def read_up_to(n_letters):
        nonlocal n
        while n < n_letters:
            if not (line := answer.readline()):
                raise Cut
            n += letters(line)

    read_up_to(20)
    setting.pace("hang")
    setting.wait_for(setting.held.exists, "the device is held")
    health = setting.server.health()
    assert health["running"] == 1
    n_generated = int(setting.server.metric("vllm:generation_tokens_total")) - setting.tokens_before
    assert 20 <= n_generated < N_TOKENS
    read_up_to(n_generated - HEADER_TOKENS)
    assert setting.server.health()["running"] == 1
    setting.pace("run 0")
    try:
        rest = answer.read().split(b"\n")
    except http.client.IncompleteRead:
        raise Cut from None
    assert n + sum(map(letters, rest)) == N_TOKENS - HEADER_TOKENS
    assert b"data: [DONE]" in rest


def test_a_stream_arrives_token_by_token(setting):
    """The device is held in the middle: all that it has generated arrives, although the stream goes on. Caddy 2.6
    closes, on a busy machine in one of some twenty runs, its own connection to the server in the middle of an answer,
    and says so in its log; then the check is repeated."""
    for _ in range(5):
        try:
            return check_stream(setting)
        except Cut:
            assert "use of closed network connection" in setting.proxy.log(), setting.proxy.log()
        setting.pace("run 0")
        setting.wait_for(lambda: setting.server.health()["running"] == 0, "idle")
        setting.tokens_before = int(setting.server.metric("vllm:generation_tokens_total"))
    raise AssertionError(setting.proxy.log())


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves(setting, stream):
    """The request is canceled, although it would go on for an hour."""
    before = setting.server.metric("osprey:http_disconnects_total")
    setting.pace("run 50")
    connection = setting.proxy.connect()
    body = json.dumps(chat(stream=stream, max_tokens=N_ENDLESS)).encode()
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    setting.wait_for(lambda: setting.server.health()["running"] == 1, "the request runs")
    connection.sock.close()
    connection.close()
    setting.wait_for(lambda: setting.server.metric("osprey:http_disconnects_total") == before + 1, "it is noticed")
    setting.wait_for(lambda: setting.server.health()["running"] == 0, "it is canceled")
    assert setting.server.metric("vllm:generation_tokens_total") - setting.tokens_before < N_ENDLESS


def test_large_bodies(setting):
    """Up to --max-body, 4 MiB, which the page gives nginx, too."""
    words = "word " * (3_900_000 // 5)
    status, text = setting.proxy.ask("POST", "/tokenize", {"prompt": words})
    assert status == 200 and json.loads(text)["count"] >= len(words) // 5
    status = 0
    with contextlib.suppress(OSError):  # the refusal may come before all is sent
        status = setting.proxy.ask("POST", "/tokenize", b" " * (4 * MIB + 1))[0]
    assert status in (0, 413)
    assert setting.proxy.ask("GET", "/health")[0] == 200


def test_many_requests_on_one_connection(setting):
    connection = setting.proxy.connect()
    for _ in range(50):
        connection.request("GET", "/v1/models")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read()

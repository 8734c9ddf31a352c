"""The chat's page in headless Chromium (`make test-web`): against the real program with the bundled model, and against
a stand-in for it that serves the real page and answers as a test has it.

CHROMIUM names another browser than chromium; SHOTS=folder keeps pictures of what the tests see.
"""

import http.server
import json
import os
import pathlib
import shutil
import subprocess
import threading
import urllib.request

import pytest
from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("OSPREY", str(ROOT / "build" / "osprey"))
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE_MS = 60000
DESKTOP = {"width": 1100, "height": 760}
PHONE = {"width": 360, "height": 640}


class Server:
    """`osprey serve` on a port."""

    def __init__(self, *options, port=0):
        self.process = subprocess.Popen([PROGRAM, "serve", "-q", "--port", str(port), "--max-model-len", "4096", *options],
                                        stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://"), self.url
        self.port = int(self.url.rsplit(":", 1)[1])

    def health(self):
        with urllib.request.urlopen(self.url + "/health", timeout=20) as answer:
            return json.load(answer)

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def osprey():
    server = Server()
    yield server
    server.kill()


@pytest.fixture
def start_server():
    started = []

    def start(*options, **more):
        started.append(Server(*options, **more))
        return started[-1]

    yield start
    for server in started:
        server.kill()


def chunk(delta=None, finish=None, **more):
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"object": "chat.completion.chunk", "choices": choices, **more}


def usage(n, n_reasoning=0):
    return chunk(usage={"prompt_tokens": 20, "completion_tokens": n, "total_tokens": 20 + n,
                        "prompt_tokens_details": {"cached_tokens": 8},
                        "completion_tokens_details": {"reasoning_tokens": n_reasoning}})


class Answer:
    """One request that the stand-in answers; the script writes what it wants, in its own time."""

    def __init__(self, handler, body):
        self.handler, self.body = handler, body

    def begin(self):
        self.handler.send_response(200)
        self.handler.send_header("content-type", "text/event-stream; charset=utf-8")
        self.handler.send_header("connection", "close")
        self.handler.end_headers()

    def write(self, data):
        self.handler.wfile.write(data if isinstance(data, bytes) else data.encode())
        self.handler.wfile.flush()

    def send(self, *events):
        for event in events:
            self.write(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n")

    def text(self, text, pieces=7):
        """A whole answer, cut without regard to words."""
        self.begin()
        step = max(1, len(text) // pieces)
        self.send(*(chunk({"content": text[i : i + step]}) for i in range(0, len(text), step)))
        self.send(chunk({}, "stop"), usage(pieces), "[DONE]")

    def error(self, status, message, **headers):
        body = json.dumps({"error": {"message": message, "type": "x", "param": None, "code": None}}).encode()
        self.handler.send_response(status)
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.send_header("content-type", "application/json")
        self.handler.send_header("content-length", str(len(body)))
        self.handler.end_headers()
        self.write(body)


class StandIn:
    """Serves the page as `osprey` does, and each chat request by the next of `scripts`."""

    def __init__(self, osprey):
        self.scripts, self.requests, self.health = [], [], "ok"
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def json(self, value, status=200):
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def page(self):
                request = urllib.request.Request(osprey.url + "/", headers={"Accept": "text/html"})
                with urllib.request.urlopen(request, timeout=20) as answer:
                    body = answer.read()
                    self.send_response(200)
                    for name in ("content-type", "content-security-policy", "referrer-policy", "content-length"):
                        self.send_header(name, answer.headers[name])
                    self.end_headers()
                    self.wfile.write(body)

            def do_GET(self):
                if self.path == "/health":
                    self.json({"status": stand_in.health}, 200 if stand_in.health == "ok" else 503)
                elif self.path == "/v1/models":
                    self.json({"data": [{"id": "gpt-oss-20b"}]})
                else:
                    self.page()

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                stand_in.requests.append((body, dict(self.headers)))
                self.close_connection = True
                try:
                    stand_in.scripts.pop(0)(Answer(self, body))
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the page has left

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def stand_in(osprey):
    server = StandIn(osprey)
    yield server
    server.close()


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Chat:
    """The page as somebody uses it. Whatever it says on the console besides failed loads fails the test."""

    def __init__(self, context, url, ready=True):
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.faults = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda m: m.type == "error" and "Failed to load resource" not in m.text and self.faults.append(m.text))
        self.page.goto(url)
        if ready:
            self.page.wait_for_selector("#dot.good")

    def ask(self, text):
        self.page.fill("#entry", text)
        self.page.keyboard.press("Enter")

    def wait(self, selector, **how):
        return self.page.wait_for_selector(selector, **how)

    def until(self, condition):
        """A function: the page's policy forbids to evaluate strings."""
        self.page.wait_for_function(f"() => {condition}")

    def done(self):
        """The last answer is over, one way or the other."""
        self.wait(".turn:last-child.theirs[aria-busy=false]")
        return self.page.locator(".turn.theirs").last

    def shot(self, name):
        folder = os.environ.get("SHOTS")
        if folder:
            self.page.screenshot(path=str(pathlib.Path(folder) / f"{name}.png"))


@pytest.fixture
def open_chat(browser):
    contexts, chats = [], []

    def open_one(url, size=DESKTOP, context=None, ready=True, **more):
        if context is None:
            context = browser.new_context(viewport=size, **more)
            contexts.append(context)
        chats.append(Chat(context, url, ready))
        return chats[-1]

    yield open_one
    faults = [fault for chat in chats for fault in chat.faults]
    for context in contexts:
        context.close()
    assert faults == []

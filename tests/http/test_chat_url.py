"""`osprey chat --url`: the chat with a server in place of a model in the process."""

import json
import queue
import signal
import subprocess
import threading

import pytest

from conftest import PROGRAM, run
from fake_openai import PARIS, FakeServer, chunk
from terminal import Terminal


@pytest.fixture
def fake():
    server = FakeServer()
    yield server
    server.close()


def ask(url, *arguments, **more):
    return run("chat", "--url", url, "-p", "What is the capital of France?", *arguments, **more)


def test_one_answer_of_a_real_server(server):
    done = ask(server.url, "--show-reasoning", "--temperature", "0")
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout and done.stdout.count("\n") == 1
    assert len(done.stderr.splitlines()) > 1 and "tokens/s) after a prompt of" in done.stderr
    assert ask(f"{server.url[7:]}/v1/", "-q").stdout != ""  # without http://, with /v1/


def test_the_answer_and_its_reasoning(fake):
    done = ask(fake.url, "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Paris\n", "")
    done = ask(fake.url, "--show-reasoning")
    assert done.stdout == "Paris\n"
    assert done.stderr.startswith("The user asks.\n\n")  # sent under two names, printed once
    assert "3 tokens in " in done.stderr and "after a prompt of 7 in" in done.stderr
    fake.stream = [chunk({"content": "cut"}, "length"), "data: [DONE]\n\n"]
    done = ask(fake.url)
    assert done.stdout == "cut\n" and "answer in " in done.stderr  # the server sent no usage
    assert "; stopped at --max-tokens" in done.stderr


def test_only_what_is_set_is_sent(fake):
    assert ask(fake.url).returncode == 0
    user = {"role": "user", "content": "What is the capital of France?"}
    plain = {"model": "first", "messages": [user], "stream": True, "stream_options": {"include_usage": True}}
    assert fake.bodies.pop() == plain
    assert fake.headers[-1]["Authorization"] is None
    options = ("-s", "Be brief: \"ü\"\n", "--temperature", "0.25", "--top-p", "0.5", "--top-k", "40", "--min-p", "0.125",
               "--seed", "9007199254740991", "-n", "99", "--effort", "low", "--model", "second")  # fmt: skip
    assert ask(fake.url, *options).returncode == 0
    assert fake.bodies.pop() == {
        **plain,
        "model": "second",
        "messages": [{"role": "system", "content": "Be brief: \"ü\"\n"}, user],
        "temperature": 0.25, "top_p": 0.5, "top_k": 40, "min_p": 0.125, "seed": 9007199254740991,
        "max_tokens": 99, "reasoning_effort": "low",
    }  # fmt: skip
    assert fake.requests.count("/v1/models") == 1  # the second model was named
    assert run("chat", "--url", fake.url, "third", "-q", "-p", "x", "--temperature", "0").returncode == 0
    body = fake.bodies.pop()
    assert body["model"] == "third" and body["temperature"] == 0


def test_the_key(fake):
    for arguments, environment in [(("--api-key", "a key"), {}), ((), {"OSPREY_API_KEY": "a key"})]:
        assert ask(fake.url, *arguments, environment=environment).returncode == 0
        assert {h["Authorization"] for h in fake.headers} == {"Bearer a key"}
        fake.headers.clear()
    done = ask(fake.url, "--api-key", "a\r\nX-Other: b")
    assert done.returncode == 1 and "the API key has a control character" in done.stderr
    assert fake.headers == []


def test_local_options_are_named(fake):
    done = ask(fake.url, "-q", "-c99", "--max_num_seqs=1", "-t", "1", "--device", "cpu", "--no-sinks",
               "--attention-backend", "auto", "-s", "-m", environment={"OSPREY_CPU_FEATURES": "ref"})  # fmt: skip
    assert done.stdout == "Paris\n"
    for option in ("max-model-len", "max-num-seqs", "threads", "device", "no-sinks", "attention-backend"):
        assert f"osprey: --{option} is ignored: with --url the server determines it\n" in done.stderr
    assert done.stderr.count("ignored") == 6  # not what is in the environment


ERROR = json.dumps({"error": {"message": "too many requests", "code": None}})


@pytest.mark.parametrize("route, text", [
    ((401, json.dumps({"error": {"message": "wrong key"}})), "/v1/chat/completions: status 401: wrong key"),
    ((429, ERROR), "status 429: too many requests"),
    ((500, "<html>oops</html>"), "status 500: <html>oops</html>"),
    ((503, ""), "status 503: "),
    ((302, ""), "status 302"),
    ((200, "{}"), "the response is not a stream of chat completion chunks"),
    ((200, f"data: {ERROR}\n\n"), ": too many requests"),
    ((200, 'data: {"error": "plain"}\n\n'), ": plain"),
    ((200, "data: {]\n\n"), "an event that is not a JSON object"),
    ((200, "data: [1]\n\n"), "an event that is not a JSON object"),
    ((200, "data: " + "[" * 99 + "\n\n"), "an event that is not a JSON object"),
    ((200, chunk({"content": "half"})), "the connection ended before the answer was complete"),
])  # fmt: skip
def test_errors_of_the_server(fake, route, text):
    fake.routes["/v1/chat/completions"] = route
    done = ask(fake.url)
    assert done.returncode == 1
    assert text in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ("half\n" if "half" in route[1] else "")


def until_closed(handler, begin, rest):
    """Sends bytes again and again until the client closes the connection."""
    handler.wfile.write(begin.encode())
    try:
        while True:
            handler.wfile.write(rest.encode())
    except OSError:
        pass


@pytest.mark.parametrize("status, begin, rest, text", [
    (200, "data: {]\n\n", "data: {}\n\n", "an event that is not a JSON object"),
    (200, "", "x" * 65536, "a line that is longer than 4 MiB"),
    (500, "oops", " " * 65536, "status 500: oops"),
    (200, "".join(PARIS), ": ping\n\n", ""),
])  # fmt: skip
def test_a_server_that_never_ends(fake, status, begin, rest, text):
    """The client closes the connection once it knows enough."""

    def endless(request):
        request.send_response(status)
        request.end_headers()
        until_closed(request, begin, rest)

    fake.routes["/v1/chat/completions"] = endless
    done = ask(fake.url, "-q")
    assert done.returncode == (1 if text else 0) and text in done.stderr, done.stderr
    assert done.stdout == ("" if text else "Paris\n")


def test_a_list_of_models_that_never_ends(fake):
    def endless(request):
        request.send_response(200)
        request.end_headers()
        until_closed(request, "", " " * 65536)

    fake.routes["/v1/models"] = endless
    done = ask(fake.url)
    assert done.returncode == 1 and "/v1/models" in done.stderr and "Timeout" not in done.stderr, done.stderr


def test_a_redirect_is_named_and_not_followed(fake):
    other = FakeServer()

    def redirect(request):
        request.send_response(308)
        request.send_header("Location", f"{other.url}/v1/models")
        request.send_header("Content-Length", "0")
        request.end_headers()

    fake.routes["/v1/models"] = redirect
    done = ask(fake.url, "--api-key", "secret")
    assert done.returncode == 1
    assert f"status 308: the server redirects to {other.url}/v1/models; use that URL" in done.stderr
    assert other.requests == []
    other.close()


def test_no_server_and_no_model(fake):
    fake.routes["/v1/models"] = (200, '{"data": []}')
    done = ask(fake.url)
    assert done.returncode == 1 and "/v1/models lists no model; give the model's name" in done.stderr
    assert ask(fake.url, "-q", "--model", "any").stdout == "Paris\n"
    done = ask("http://127.0.0.1:9")
    assert done.returncode == 1 and "127.0.0.1 port 9" in done.stderr
    done = ask("file:///etc/passwd")
    assert done.returncode == 1 and "not a URL of a server" in done.stderr


def test_odd_texts(fake):
    """What is not text of the answer is ignored; a NUL and a lone escape do no harm."""
    fake.stream = [
        "event: x\nid: 1\nretry: 2\ndata: {}\n\n",
        'data: {"choices": [{"delta": {"content": null, "tool_calls": []}}], "usage": null, "error": null}\n\n',
        'data: {"choices": [{"delta": {"content": 5, "reasoning": {}}}], "usage": {"prompt_tokens": -1e99}}\n\n',
        'data:{"choices": [{"delta": {"content": "a\\u0000b\\u001b[31m"}}]}\r\n\r\n',
        "data: [DONE]\n\n",
    ]
    done = ask(fake.url, "-q")
    assert (done.returncode, done.stdout) == (0, "a\0b\x1b[31m\n"), done.stderr


@pytest.mark.parametrize("before", ["begun", ""])
def test_an_interrupt_cancels(fake, before):
    """The server sees that the connection is closed; osprey ends with 130."""
    arrived, gone = threading.Event(), queue.Queue()

    def wait(request):
        arrived.set()
        gone.put(request.rfile.read(1))  # returns when the client is gone

    fake.stream = [chunk({"content": before}), wait]
    process = subprocess.Popen(
        [PROGRAM, "chat", "--url", fake.url, "--model", "m", "-p", "x"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    out = process.stdout.read(len(before))
    assert arrived.wait(60)
    process.send_signal(signal.SIGINT)
    more, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert out + more == before + "\n" and "; stopped" in error
    assert gone.get(timeout=60) == b""


def test_lost_output(fake):
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, "chat", "--url", fake.url, "-p", "x"], stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 1 and "standard output could not be written" in done.stderr


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    files = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return files


def test_https(certificate):
    server = FakeServer(certificate)
    done = ask(server.url, "-q", environment={"SSL_CERT_FILE": certificate[0]})
    assert (done.returncode, done.stdout) == (0, "Paris\n"), done.stderr
    done = ask(server.url, "-q", environment={"SSL_CERT_FILE": ""})
    assert done.returncode == 1 and "certificate" in done.stderr and done.stdout == ""
    server.close()


def test_a_conversation(fake, tmp_path):
    t = Terminal(tmp_path, "--url", fake.url, "-s", "Be brief.")
    t.read_until(f"first, {fake.url}")
    t.ask("What is the capital of France?")
    assert "\x1b[2mThe user asks.\x1b[0m" in t.read_until("tokens/s")
    t.ask("/model")
    t.read_until(f"first on the server {fake.url}\r\nalso there: second")
    t.ask("/model third")
    t.read_until("/model third: the server has no such model; it lists first, second")
    t.ask("/model second")
    t.read_until("Model: second")
    t.ask("/effort high")
    t.read_until("effort: high")
    t.ask("/temperature 0.5")
    t.read_until("Temperature: 0.5")
    fake.routes["/v1/chat/completions"] = (503, ERROR)
    t.ask("This one fails.")
    t.read_until("status 503: too many requests")
    del fake.routes["/v1/chat/completions"]
    t.ask("And of Italy?")
    t.read_until("tokens/s")
    body = fake.bodies[-1]
    assert [m["content"] for m in body["messages"]] == [
        "Be brief.", "What is the capital of France?", "Paris", "And of Italy?",
    ]  # fmt: skip
    assert body["messages"][2] == {"role": "assistant", "content": "Paris"}  # without the reasoning
    assert (body["model"], body["reasoning_effort"], body["temperature"]) == ("second", "high", 0.5)
    t.ask("/stats")
    t.read_until("2 answers, 14 prompt tokens, 6 generated")
    t.ask("/quit")
    assert t.wait_code() == 0


def test_ctrl_c_at_the_terminal(fake, tmp_path):
    t = Terminal(tmp_path, "--url", fake.url)
    fake.stream = [chunk({"content": "begun"}), lambda request: request.rfile.read(1)]
    t.ask("A question")
    t.read_until("begun")
    t.type("\x03")
    t.read_until("; stopped")
    fake.stream = PARIS
    t.ask("Another")
    t.read_until("Paris")
    t.read_until("tokens/s")
    assert [m["content"] for m in fake.bodies[-1]["messages"]] == ["A question", "begun", "Another"]
    t.ask("/exit")
    assert t.wait_code() == 0


def test_texts_of_a_server_are_shown_safely(fake, tmp_path):
    fake.routes["/v1/models"] = (200, json.dumps({"data": [{"id": "a\x1b[2Jb"}]}))
    fake.stream = [chunk({"reasoning": "r\x1b]0;title\x07", "content": "c\x1b[2Jd"}, "stop")]
    t = Terminal(tmp_path, "--url", fake.url)
    assert r"a\x1b[2Jb, http" in t.read_until("/help")
    t.ask("/model")
    assert "\x1b[2J" not in t.read_until("on the server")
    t.ask("A question")
    assert "r\ufffd]0;title\ufffd" in t.read_until("c\ufffd\\[2Jd")
    t.read_until("> ")
    fake.routes["/v1/chat/completions"] = (500, "e\x1b[2Jf")
    t.type("Another\r")
    t.read_until(r"status 500: e\\x1b\[2Jf")
    t.ask("/exit")
    assert t.wait_code() == 0

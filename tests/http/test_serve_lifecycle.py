"""Starting, stopping, keys, names, and what a pasted command line of another server does."""

import datetime
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import openai
import pytest

from conftest import PROGRAM, run

TASK = [{"role": "user", "content": "Copy this exactly: one two three four five six seven eight nine ten"}]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until_ready(process, port):
    """By /health, for a server whose output cannot be read."""
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.02)
    raise AssertionError(f"not ready, exit status {process.poll()}")


def start_stream(server, collected, began):
    for chunk in server.client().chat.completions.create(
        model="osprey-nano", messages=TASK, stream=True, temperature=0
    ):
        collected.append(chunk)
        began.set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_lets_streams_finish(start_server, number):
    server = start_server()
    chunks, began = [], threading.Event()
    thread = threading.Thread(target=start_stream, args=(server, chunks, began))
    thread.start()
    assert began.wait(30)
    assert server.stop(number) == 0
    thread.join(60)
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert "status=200" in "\n".join(server.log)


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_standard_streams(closed):
    """`osprey serve <&-` and the like: sockets must not get the descriptors 0 to 2."""
    redirect = " ".join(f"{n}>&-" for n in closed)
    port = free_port()
    shell = f'exec "$0" serve --port {port} --max-model-len 4096 {redirect}'
    process = subprocess.Popen(
        ["sh", "-c", shell, PROGRAM], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until_ready(process, port)
        for fd in closed:
            assert os.readlink(f"/proc/{process.pid}/fd/{fd}") == "/dev/null"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("command", [["--version"], ["tokenize"]])
def test_commands_without_standard_streams(command):
    shell = f'exec "$0" {" ".join(command)} <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", shell, PROGRAM], timeout=60).returncode == 0


def test_nohup_keeps_hangups_ignored(start_server):
    """SIGHUP that was ignored at the start neither drains nor ends the server."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        server = start_server()
    finally:
        signal.signal(signal.SIGHUP, before)
    status = open(f"/proc/{server.process.pid}/status").read()
    assert int(re.search(r"SigIgn:\s*(\w+)", status)[1], 16) & 1
    server.process.send_signal(signal.SIGHUP)
    assert server.health()["status"] == "ok"
    assert server.stop() == 0


def test_log_lines_have_date_and_client(start_server):
    server = start_server()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/v1/models")
    connection.getresponse().read()
    client = "%s:%d" % connection.sock.getsockname()
    assert server.stop() == 0
    (line,) = [line for line in server.log if "path=/v1/models" in line]
    level, date, rest = line.split(" ", 2)
    assert level == "I" and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", date)
    assert abs(datetime.datetime.fromisoformat(date).timestamp() - time.time()) < 600
    assert rest.startswith("http id=req-") and f" peer={client} " in rest


@pytest.mark.parametrize("worker", ["on", "off"])  # the worker process logs the memory plan
def test_log_lines_as_json(start_server, worker):
    server = start_server("--log-format", "json", "--host", "0.0.0.0", "--worker", worker)
    answer = server.client().chat.completions.create(model="osprey-nano", messages=TASK, max_tokens=2)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/" + "x" * 3000)
    assert connection.getresponse().status == 404
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
        s.sendall(b"nonsense\r\n\r\n")
        while s.recv(4096):
            pass
    assert server.stop() == 0
    lines = [json.loads(line) for line in server.log]  # every line is an object
    assert all(line["level"] in ("error", "warn", "info") and line["message"] for line in lines)
    assert any(line["message"] == "memory plan:" for line in lines)
    assert all(datetime.datetime.fromisoformat(line["time"]).tzinfo for line in lines)
    asked, missing, refused = [line for line in lines if line["message"] == "http"]
    assert asked["id"].startswith("req-") and asked["peer"].startswith("127.0.0.1:") and asked["key"] == "-"
    assert (asked["method"], asked["path"], asked["status"]) == ("POST", "/v1/chat/completions", 200)
    assert asked["ms"] >= asked["generation_ms"] >= 0 and asked["finish"] == "length"
    assert (asked["prompt_tokens"], asked["tokens"]) == (answer.usage.prompt_tokens, 2)
    assert missing["path"] == "/" + "x" * 1022 and missing["status"] == 404
    assert refused["refused"] is True and refused["status"] == 400 and refused["reason"]
    assert [line["model"] for line in lines if line["message"] == "model loaded"] == ["osprey-nano"]
    assert any("without an API key" in line["message"] and line["level"] == "warn" for line in lines)


@pytest.mark.parametrize("worker", ["on", "off"])
def test_errors_of_the_start_as_json(worker, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    done = run("serve", str(tmp_path), "--port", "0", "--worker", worker, "--log-format", "json")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 1 and lines[-1]["level"] == "error" and str(tmp_path) in lines[-1]["message"]


def test_a_deadline_ends_streams_with_an_error(start_server):
    server = start_server("--shutdown-timeout", "0")
    chunks, began = [], threading.Event()
    errors = []

    def read():
        try:
            start_stream(server, chunks, began)
        except openai.APIError as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    assert began.wait(30)
    assert server.stop() == 0
    thread.join(60)
    assert errors and "shutting down" in str(errors[0])


def queue_long_texts(server, path, field, n):
    """n requests of 4 MiB, sent in full: half a minute of work and more."""
    text = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=(4 << 20) - 200))
    body = json.dumps({field: text, "max_tokens": 1, "truncate_prompt_tokens": 10}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    connections = []
    for _ in range(n):
        connections.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
        connections[-1].sendall(head.encode() + b"\r\n\r\n" + body)
    return connections


def status_line(connection):
    data = b""
    try:
        while block := connection.recv(4096):
            data += block
    except ConnectionError:
        pass
    return data.decode().split("\r\n")[0]


@pytest.mark.parametrize("path, n", [("/tokenize", 200), ("/v1/completions", 60)])
@pytest.mark.parametrize("stay", [True, False])
def test_queued_work_does_not_delay_the_end(start_server, path, n, stay):
    """Neither with its clients there nor without them."""
    server = start_server("--shutdown-timeout", "2", "--max-queue", "100")
    connections = queue_long_texts(server, path, "prompt", n)
    if not stay:
        for connection in connections:
            connection.close()
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    lines = [status_line(c) for c in connections] if stay else []
    assert server.process.wait(60) == 0
    assert time.monotonic() - began < 20  # the time-out and a busy machine; the queued work takes half a minute and more
    if stay:
        assert any("503" in line for line in lines), lines


def test_no_clients_no_waiting(start_server):
    server = start_server()
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 20  # not the 30 s that streams would get


@pytest.mark.parametrize("model", ["/nowhere", "nobody/nothing"])
def test_a_missing_model_is_found_before_clients_connect(model, tmp_path):
    done = run("serve", model, "--port", "0", environment={"HF_HUB_CACHE": str(tmp_path)})
    assert done.returncode == 1 and model in done.stderr
    assert "listening" not in done.stderr


def test_the_bundled_model_is_missing(tmp_path):
    program = tmp_path / "bin" / "osprey"
    program.parent.mkdir()
    shutil.copy(PROGRAM, program)
    done = subprocess.run([program, "tokenize"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    places = re.search("no config.json in (.*); name a checkpoint", done.stderr)[1].split(", ")
    assert done.returncode == 1 and len(places) == len(set(places)) == 4, places
    assert str(tmp_path / "models" / "osprey-nano") in places and ".." not in done.stderr


def test_port_in_use(server):
    taken = run("serve", "--port", str(server.port))
    assert taken.returncode == 1
    assert taken.stdout == ""
    assert f"cannot listen on 127.0.0.1 port {server.port}: address already in use" in taken.stderr


def test_key(start_server):
    server = start_server(environment={"OSPREY_API_KEY": "secret"})
    with pytest.raises(openai.AuthenticationError) as caught:
        server.client(key="wrong").models.list()
    assert caught.value.code == "invalid_api_key"
    assert server.client(key="secret").models.list().data
    assert server.health()["status"] == "ok"
    assert server.stop() == 0


def test_names_and_a_line_pasted_from_elsewhere(start_server):
    server = start_server(
        "--served-model-name", "gpt-oss,nano", "--trust-remote-code", "-ngl", "99", "-fa", "on",
        "--jinja", "--gpu-memory-utilization", "0.9", "--pipeline-parallel-size=1", "-np", "2",
    )  # fmt: skip
    assert [m.id for m in server.client().models.list().data] == ["gpt-oss", "nano"]
    answer = server.client().chat.completions.create(model="nano", messages=TASK, max_tokens=2)
    assert answer.model == "nano"
    assert server.stop() == 0
    ignored = [line for line in server.log if "is ignored" in line]
    assert len(ignored) == 5
    assert sum("gpu_memory_utilization has no effect" in line for line in server.log) == 1
    assert any("--trust-remote-code is ignored: osprey never runs code from a checkpoint" in x for x in ignored)


def test_defaults_of_the_command_line(start_server):
    server = start_server("--max-tokens", "3", "--temp", "1.5", "--top-k", "1", "--top-p", "1.0", "--seed", "-1")
    answers = [
        server.client().chat.completions.create(model="osprey-nano", messages=TASK, **more)
        for more in ({}, {}, {"max_tokens": 5})
    ]
    assert [a.usage.completion_tokens for a in answers] == [3, 3, 5]
    assert answers[0].choices[0].finish_reason == "length"
    assert answers[0].choices[0].message == answers[1].choices[0].message  # top_k 1 leaves no choice
    assert server.stop() == 0


def test_log_lines(start_server):
    server = start_server()
    server.client().chat.completions.create(model="osprey-nano", messages=TASK, max_tokens=3)
    assert server.stop() == 0
    line = next(x for x in server.log if "/v1/chat/completions" in x and " http " in x)
    assert re.search(r"id=req-\w+ peer=127\.0\.0\.1:\d+ key=- method=POST path=/v1/chat/completions status=200 ", line)
    assert re.search(r" ms=[\d.]+ finish=length prompt_tokens=\d+ tokens=3 ", line)


def test_a_full_queue(start_server):
    server = start_server("--max-queue", "1", "-np", "1")
    task = [{"role": "user", "content": "What is the capital of France?"}]
    streams, refused = [], 0
    for _ in range(6):
        try:
            streams.append(
                server.client().chat.completions.create(
                    model="osprey-nano",
                    messages=task,
                    stream=True,
                    max_tokens=20000,
                    extra_body={"ignore_eos": True},  # long after the last of them was refused
                )
            )
        except openai.RateLimitError as error:
            refused += 1
            assert int(error.response.headers["retry-after"]) >= 1
    assert refused >= 3
    for stream in streams:
        stream.close()
    server.wait_idle()
    assert server.stop() == 0


def test_a_second_signal_ends_at_once(start_server):
    server = start_server("--shutdown-timeout", "600")
    chunks, began = [], threading.Event()

    def read():
        try:
            start_stream(server, chunks, began)
        except (openai.APIError, OSError):
            pass
        except Exception as error:  # the transport's own words for a lost connection
            assert "closed" in str(error) or "peer" in str(error) or "reset" in str(error).lower()

    thread = threading.Thread(target=read)
    thread.start()
    assert began.wait(30)
    server.process.send_signal(signal.SIGTERM)
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(60) == 0
    thread.join(60)


def test_wrong_command_lines():
    cases = [
        (["serve", "--prot", "1"], 2, "the most similar is --port"),
        (["serve", "--port", "x"], 2, "must be a number between 0 and 65535"),
        (["serve", "--port"], 2, "needs a value"),
        (["serve", "a", "b"], 2, "unexpected argument"),
        (["serve", "--nnodes", "2"], 2, "only the value 1 is supported"),
        (["serve", "openai/gpt-oss-20b", "--port", "0"], 1, "run osprey pull openai/gpt-oss-20b, or add --pull"),
        (["serve", "/nowhere", "--port", "0"], 1, "/nowhere: no such folder"),
        (["serve", "--log-format", "xml"], 2, "--log-format xml: must be plain or json"),
        (["serve", "models/x.gguf", "--port", "0"], 1, "models/x.gguf: no such file"),
        (["srve"], 2, "the most similar is 'serve'"),
        (["install", "x"], 2, "unknown command 'install' (osprey --help lists all)"),
    ]
    for arguments, code, text in cases:
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (code, ""), arguments
        assert text in done.stderr, (arguments, done.stderr)


def test_nothing_but_the_url_on_standard_output(start_server):
    server = start_server()
    url = server.url
    assert server.stop() == 0
    assert server.process.stdout.read() == ""
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=2)


def test_the_memory_plan_is_told_and_refusals_advise(start_server):
    refused = run("serve", "--port", "0", "--max-model-len", "8192", "--kv-cache-memory", "10M", "--device", "cpu")
    assert refused.returncode == 1
    advice = re.search(r"--max-model-len (\d+) or less, or --kv-cache-memory (\d+M) or more", refused.stderr)
    assert advice, refused.stderr
    for options in (["10M", "--max-model-len", advice[1]], [advice[2], "--max-model-len", "8192"]):
        server = start_server("--device", "cpu", "--kv-cache-memory", *options)
        assert server.stop() == 0
        told = [line.split("  ", 1)[1] for line in server.log if re.match(r"I [\dT:.+-]+   \w", line)]
        names = [re.split(r"  +", line.strip())[0] for line in told]
        assert names == [
            "weights", "activations", "device's own", "KV, full layers", "KV, window layers", "prefix snapshots",
            "total", "KV allowed", "reserve", "swap",
        ]  # fmt: skip
        ready = next(i for i, line in enumerate(server.log) if "loaded in" in line)
        assert ready > next(i for i, line in enumerate(server.log) if line.endswith(told[-1]))


def test_the_program_is_the_one_that_was_built():
    assert subprocess.run([PROGRAM, "version"], capture_output=True, text=True).stdout.startswith("osprey ")

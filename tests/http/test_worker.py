"""The engine in a worker process, as clients of the server see its ends.

KILLS names how often the worker is killed in a row (3; `make kills` takes 1,000), TOLD_S how long clients may
wait for what they are promised within a second: here much else may run on the machine, `make kills` holds it.
"""

import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

KILLS = int(os.environ.get("KILLS", "3"))
TASK = [{"role": "user", "content": "Copy this exactly: one two three four five six seven eight nine ten"}]
TOLD_S = float(os.environ.get("TOLD_S", "8"))  # from the worker's end to the clients' error event, and to /health
AGAIN_S = 120


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = open(f"/proc/{name}/stat").read().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid and fields[0] not in "ZX":
            found.append(int(name))
    return found


def worker_of(server):
    pids = children(server.process.pid)
    assert len(pids) == 1, pids
    return pids[0]


def is_gone(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until(condition, what, limit_s=AGAIN_S):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.002)
    raise AssertionError(f"not within {limit_s} s: {what}")


def health(server):
    """Status code and content, whatever the code is."""
    try:
        with urllib.request.urlopen(f"{server.url}/health", timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class Stream(threading.Thread):
    """An answer that goes on until something ends it."""

    def __init__(self, server, **options):
        super().__init__(daemon=True)
        self.server, self.options = server, options
        self.began, self.error, self.ended_s, self.finish = threading.Event(), None, None, None
        self.start()

    def run(self):
        import openai

        client = self.server.client()
        try:
            for chunk in client.chat.completions.create(
                model="osprey-nano",
                messages=TASK,
                stream=True,
                temperature=1.5,
                extra_body={"ignore_eos": True},
                **self.options,
            ):
                self.began.set()
                if chunk.choices and chunk.choices[0].finish_reason:
                    self.finish = chunk.choices[0].finish_reason
        except openai.APIError as error:
            self.error = error
        self.ended_s = time.monotonic()
        client.close()
        self.began.set()


def start_streams(server, n, **options):
    streams = [Stream(server, **options) for _ in range(n)]
    for stream in streams:
        assert stream.began.wait(30)
        assert stream.error is None
    return streams


def n_open_files(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def ask(server):
    with server.client() as client:
        answer = client.chat.completions.create(
            model="osprey-nano", messages=[{"role": "user", "content": "What is the capital of France?"}]
        )
    assert "Paris" in answer.choices[0].message.content


def test_killed_in_mid_stream(start_server):
    server = start_server("--worker", "on", "--worker-restarts", "1000000")
    for count in range(1, KILLS + 1):
        streams = start_streams(server, 3)
        pid = worker_of(server)
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        code, body = health(server)
        while code == 200 and body["restarts"] < count:
            assert time.monotonic() - began < TOLD_S
            code, body = health(server)
        if code != 200:
            assert code == 503
            assert body["status"] == "restarting"
            assert "ended unexpectedly" in body["reason"]
        for stream in streams:
            stream.join(60)
            assert stream.ended_s - began < TOLD_S
            assert "the engine's process has failed" in str(stream.error)
        wait_until(lambda: health(server)[0] == 200, "200 again")
        assert health(server)[1]["restarts"] == count
        assert worker_of(server) != pid
        ask(server)
        if count == 1:
            n_files = n_open_files(server)
    assert server.wait_idle()["requests_done"] == 4 * KILLS
    wait_until(lambda: n_open_files(server) <= n_files, f"no more than {n_files} open files")
    assert server.stop() == 0
    assert sum("was ended by signal 9" in line for line in server.log) == KILLS


def test_health_while_it_loads_again(start_server):
    """A large load is long enough to see what clients are told meanwhile."""
    import openai

    server = start_server(
        "--worker", "on", "--load-format", "dummy", "--shape", "gpt-oss-20b", "--layers", "1", "--device", "cpu"
    )
    os.kill(worker_of(server), signal.SIGKILL)
    began = time.monotonic()
    wait_until(lambda: health(server)[0] == 503, "503", TOLD_S)
    _, body = health(server)
    assert body["status"] == "restarting"
    with pytest.raises(openai.InternalServerError) as caught:
        server.client().chat.completions.create(model="x", messages=TASK)
    assert caught.value.status_code == 503
    assert caught.value.code == "engine_restarting"
    assert 1 <= int(caught.value.response.headers["retry-after"]) <= AGAIN_S  # as long as the first start took
    wait_until(lambda: health(server)[0] == 200, "200 again")
    assert time.monotonic() - began < AGAIN_S
    assert server.stop() == 0


def test_stopped(start_server):
    server = start_server("--worker", "on", "--worker-silence", "4")
    stream = start_streams(server, 1)[0]
    pid = worker_of(server)
    began = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: health(server)[1]["status"] == "wedged", "wedged")
    assert "no sign of life" in health(server)[1]["reason"]
    wait_until(lambda: health(server)[1]["restarts"] == 1, "killed and started again")
    stream.join(60)
    assert stream.ended_s - began < 4 + TOLD_S
    assert "no sign of life" in str(stream.error)
    wait_until(lambda: health(server)[0] == 200, "200 again")
    ask(server)
    assert is_gone(pid)
    assert server.stop() == 0


def test_dead_for_good(start_server):
    import openai

    server = start_server("--worker", "on", "--worker-restarts", "1")
    for _ in range(2):
        wait_until(lambda: health(server)[0] == 200, "200")
        os.kill(worker_of(server), signal.SIGKILL)
        wait_until(lambda: health(server)[0] == 503 or health(server)[1]["restarts"] > 0, "noticed")
    wait_until(lambda: health(server)[1]["status"] == "dead", "dead")
    assert "more than 1 times within 10 minutes" in health(server)[1]["reason"]
    with pytest.raises(openai.InternalServerError) as caught:
        server.client().chat.completions.create(model="x", messages=TASK)
    assert caught.value.code == "engine_dead" and "retry-after" not in caught.value.response.headers
    assert children(server.process.pid) == []
    assert server.stop() == 0


def test_nothing_is_left_of_a_killed_server(start_server):
    server = start_server("--worker", "on")
    start_streams(server, 1)
    pid = worker_of(server)
    server.process.kill()
    server.process.wait(60)
    wait_until(lambda: is_gone(pid), "the worker ends with its parent")


@pytest.mark.parametrize("to_all", [False, True])
def test_sigterm_lets_streams_finish(start_server, to_all):
    """Whoever stops a service sends the signal to all of its processes."""
    server = start_server("--worker", "on")
    stream = start_streams(server, 1, max_tokens=60)[0]
    pid = worker_of(server)
    if to_all:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
    assert server.stop() == 0
    stream.join(60)
    assert stream.error is None
    assert stream.finish == "length"
    assert is_gone(pid)


def refuses(server):
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
    except (ConnectionRefusedError, ConnectionResetError):  # reset: it was in the line when the socket was closed
        return True
    return False


def test_two_signals_end_it_at_once(start_server):
    server = start_server("--worker", "on")
    start_streams(server, 1)
    pid = worker_of(server)
    server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: refuses(server), "no new connections: it drains")
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < TOLD_S  # the streams, of 4,096 tokens each, would take longer
    wait_until(lambda: is_gone(pid), "the worker ends with its parent")


def test_where_it_is(start_server):
    """By default the CPU's engine is in the server's own process."""
    server = start_server("--device", "cpu")
    assert children(server.process.pid) == []
    assert server.stop() == 0

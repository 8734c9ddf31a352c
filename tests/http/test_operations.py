"""What operators see: health, metrics, refusals, ends; over the whole program with a device that computes
nothing, at a pace that the test sets (tests/load/fake_device.c). The machine may be slow and busy with other
things: a test holds the device where order matters, and times are held against what cannot have been sooner."""

import concurrent.futures
import json
import pathlib
import re
import socket
import sys
import time
import urllib.error
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "load"))
from load import Server

AT_ONCE_S = 8  # "at once" on a machine that does much else; docs/reliability.md has what is promised


@pytest.fixture
def control(tmp_path):
    """A file that steers the device."""
    file, held = tmp_path / "control", tmp_path / "control.held"

    def steer(text):
        held.unlink(missing_ok=True)
        (tmp_path / "next").write_text(text)
        (tmp_path / "next").rename(file)

    steer.file, steer.is_constrained = file, held.exists
    return steer


def chat_bytes(server, stream=True, words="hi", tokens=1000):
    body = json.dumps(
        {"messages": [{"role": "user", "content": words}], "max_tokens": tokens, "stream": stream}
    ).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def send(server, **options):
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection.sendall(chat_bytes(server, **options))
    return connection


def hear_all(connection):
    data = b""
    while block := connection.recv(65536):
        data += block
    return data.decode()


def hear_until(connection, pattern):
    """What came up to the block that completes what is looked for."""
    data = b""
    while not re.search(pattern, data):
        block = connection.recv(65536)
        assert block, data
        data += block
    return data.decode()


def until(condition, limit_s=60):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError(f"not reached in {limit_s} s")


def test_a_wedged_step_is_told_and_forgotten(control):
    control("run 20")
    with Server(20, control=control.file) as server:
        server.ask(20)
        assert server.get("/health")[0] == 200
        control("hang")
        begin = time.monotonic()
        stream = send(server, tokens=20)
        status, text = until(lambda: (a := server.get("/health"))[0] == 503 and a)
        took = time.monotonic() - begin
        assert 2 <= took < 2 + AT_ONCE_S, took
        assert json.loads(text)["status"] == "wedged"
        assert "the limit for its rows is 2.0 s" in json.loads(text)["reason"]
        assert server.metric("osprey:engine_up") == 0
        until(lambda: any('engine state=wedged reason="' in line for line in server.log))
        control("run 20")
        until(lambda: server.get("/health")[0] == 200)
        assert "data: [DONE]" in hear_all(stream)
        assert server.stop() == 0


def test_a_failed_device_is_told_at_once(control):
    control("run 20")
    with Server(20, control=control.file) as server:
        stream = send(server)
        until(lambda: server.health()["running"] == 1)
        control("fail")
        begin = time.monotonic()
        until(lambda: server.get("/health")[0] == 503)
        text = hear_all(stream)
        assert time.monotonic() - begin < AT_ONCE_S
        assert '"error"' in text and "data: [DONE]" in text


def leave(server, control, connection):
    """Goes away during one step, which lasts until the server has seen it: how many steps there were before the
    request was gone, that one among them."""
    before = server.metric("osprey:http_disconnects_total")
    control("hang")
    until(control.is_constrained)
    n = server.metric("osprey:steps_total") + 1
    connection.close()
    until(lambda: server.metric("osprey:http_disconnects_total") > before)
    control("run 1000")  # long enough to be seen by whoever asks now and then
    return n


def test_no_step_is_begun_for_who_has_left(control):
    """Cancels of a decoding, a prefilling and a queued request: the step under way is their last."""
    control("run 50")
    options = ["-np", "1", "--max-num-batched-tokens", "16", "--max-model-len", "4096"]
    with Server(50, *options, control=control.file) as server:

        def steps_until_none(what):
            """Of one answer of /metrics: steps are not counted on while the second one is asked for."""
            types, values = read_metrics(server.get("/metrics")[1])
            is_over = values[f'vllm:num_requests_{what}{{model_name="osprey-nano",engine="0"}}'] == 0
            return is_over and values['osprey:steps_total{model_name="osprey-nano",engine="0"}']

        decoding = send(server)
        until(lambda: server.metric("vllm:generation_tokens_total") > 2)
        queued = send(server)
        until(lambda: server.health()["waiting"] == 1)
        n = leave(server, control, queued)
        assert until(lambda: steps_until_none("waiting")) <= n
        n = leave(server, control, decoding)
        assert until(lambda: steps_until_none("running")) <= n
        control("run 50")
        prefilling = send(server, words="word " * 500)  # more than 30 steps of 16 rows
        until(lambda: server.health()["running"] == 1)
        n = leave(server, control, prefilling)
        assert until(lambda: steps_until_none("running")) <= n
        assert server.health()["pages_used"] == 0
        assert server.stop() == 0


def test_a_full_queue_says_when_to_come_again():
    with Server(100, "-np", "1", "--max-queue", "4", "--max-model-len", "1024") as server:
        server.ask(20)  # the speed is known: ten tokens a second
        streams = [send(server, tokens=80)]
        until(lambda: server.health()["running"] == 1)
        for n in range(1, 5):
            streams.append(send(server, tokens=80))
            until(lambda n=n: server.health()["waiting"] == n)
        before, begin = server.metric("osprey:backlog_seconds"), time.monotonic()
        head = hear_all(send(server))
        assert time.monotonic() - begin < 4  # a place is free when the first of them has ended, after 8
        assert head.startswith("HTTP/1.1 429"), head
        seconds, after = int(re.search(r"retry-after: (\d+)", head)[1]), server.metric("osprey:backlog_seconds")
        assert 1 < seconds <= 60 and after - 2 <= seconds <= before + 2, (before, seconds, after)
        for stream in streams:
            stream.close()
        server.wait_idle()
        assert server.stop() == 0


def test_the_time_limit_counts_the_wait(control):
    control("run 20")
    with Server(20, "-np", "1", "--request-time-limit", "2", "--max-model-len", "2048", control=control.file) as server:
        server.ask()  # what is made once is made
        for hangs in (False, True):  # even when the device does not answer any more
            running = send(server)
            begun = hear_until(running, rb'"content":"[a-p]')  # so that it is the one which runs
            if hangs:
                control("hang")  # whoever waits never begins
            waiting = send(server, stream=False)
            with concurrent.futures.ThreadPoolExecutor() as pool:
                answers = list(pool.map(hear_all, [running, waiting]))
            assert "request_time_limit" not in begun and "request_time_limit" in answers[0]
            assert answers[1].startswith("HTTP/1.1 504") and "request_time_limit" in answers[1]
            control("run 20")
            server.wait_idle()
        assert server.stop() == 0


def read_metrics(text):
    types, values = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types
            types[name] = kind
        elif not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name not in values
            values[name] = float(value)
    return types, values


def test_metrics_add_up():
    with Server(20, "--max-model-len", "1024") as server:
        begin = time.monotonic()
        for _ in range(3):
            server.ask(8)
        took = time.monotonic() - begin
        send(server).close()
        until(lambda: server.metric("osprey:requests_done_total") + server.metric("osprey:http_disconnects_total") >= 4)
        server.wait_idle()
        types, values = read_metrics(server.get("/metrics")[1])
        label = '{model_name="osprey-nano",engine="0"'
        for name in (n for n, kind in types.items() if kind == "histogram"):
            buckets = [v for k, v in values.items() if k.startswith(f"{name}_bucket")]
            assert buckets == sorted(buckets) and buckets[-1] == values[f"{name}_count{label}}}"], name
        assert values[f"vllm:request_generation_tokens_sum{label}}}"] == 24
        assert values[f"vllm:inter_token_latency_seconds_count{label}}}"] >= 21
        assert 0.015 * 21 < values[f"vllm:inter_token_latency_seconds_sum{label}}}"] < took
        assert values[f'vllm:request_success_total{label},finished_reason="length"}}'] == 3
        assert values[f"osprey:step_seconds_count{label}}}"] == values[f"osprey:steps_total{label}}}"]
        assert values["process_open_fds"] > 5 and values["process_resident_memory_bytes"] > 1 << 20
        assert server.stop() == 0


def test_a_status_line_every_ten_seconds_while_busy():
    with Server(100, "--log-level", "info", "--max-model-len", "1024") as server:
        stream = send(server)
        line = until(lambda: next((x for x in server.log if " status running=" in x), None))
        found = re.search(
            r"status running=1 waiting=0 pages=\d+/\d+ prompt_tok_s=[\d.]+ generated_tok_s=([\d.]+) "
            r"cache_hit=\d+% steps_s=[\d.]+ connections=1 refused=0",
            line,
        )
        assert found and 3 < float(found[1]) < 11, line  # ten, and fewer where the machine does much else
        stream.close()

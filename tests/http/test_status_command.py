"""`osprey status`: what a server does, as a table, as JSON and as an exit status."""

import json
import re
import signal
import subprocess
import threading

import pytest

from conftest import PROGRAM, run
from fake_openai import FakeServer
from terminal import Terminal

QUICK = ("--interval", "0.1")


@pytest.fixture
def fake():
    """A server as vLLM's: /health without a body, metrics of two engines."""
    server = FakeServer()
    server.n_readings = 0

    def metrics(request):
        server.n_readings += 1
        body = METRICS.format(n_tokens=1000 * server.n_readings).encode()
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    server.routes |= {
        "/health": (200, ""),
        "/version": (200, '{"version": "9.8.7"}'),
        "/v1/models": (200, '{"data": [{"id": "a", "max_model_len": 4096}, {"id": "b"}]}'),
        "/metrics": metrics,
    }
    yield server
    server.close()


METRICS = r"""# HELP vllm:num_requests_running A comment.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="a\"}} 5"}} 3
vllm:num_requests_running{{engine="1",model_name="a"}} 4.0 1700000000000
vllm:num_requests_running_more 100
vllm:num_requests_waiting 1e1
vllm:num_requests_waiting NaN
vllm:num_requests_waiting{{x="
vllm:kv_cache_usage_perc{{engine="0"}} 0.25
vllm:kv_cache_usage_perc{{engine="1"}} 0.75
vllm:generation_tokens_total {n_tokens}
vllm:prompt_tokens_total +Inf
vllm:prefix_cache_queries_total 400
vllm:prefix_cache_hits_total 100
vllm:request_success_total{{finished_reason="stop"}} 5
vllm:request_success_total{{finished_reason="length"}} 6
process_resident_memory_bytes 2e9
no metric at all }}}}{{{{
"""


def status(url, *arguments, **more):
    return run("status", url, *QUICK, *arguments, **more)


def test_a_real_server(start_server):
    server = start_server("--max-num-seqs", "4")
    asked = run("chat", "--url", server.url, "-q", "What is the capital of France?")
    assert asked.returncode == 0, asked.stderr
    server.wait_until(lambda health: health["requests_done"] == 1, "the request is counted")
    done = status(server.url, "--json")
    assert done.returncode == 0 and done.stderr == ""
    report = json.loads(done.stdout)
    assert report["url"] == server.url and report["healthy"] and report["state"] == "ok" and report["error"] is None
    assert report["version"] == run("version").stdout.split()[1]
    assert (report["model"], report["max_model_len"], report["max_num_seqs"]) == ("osprey-nano", 4096, 4)
    assert (report["requests_running"], report["requests_waiting"], report["requests_done"]) == (0, 0, 1)
    assert report["prompt_tokens"] > 50 and report["generation_tokens"] > 1
    assert report["prompt_tokens_per_second"] == 0  # nothing runs now
    assert 0 <= report["kv_cache_usage"] <= 1 and report["kv_pages"] > 0
    assert report["weight_bytes"] > 1e6 and report["kv_cache_bytes"] > 1e6 and report["resident_bytes"] > 1e6
    assert report["uptime_seconds"] >= 0 and None not in (report["requests_failed"], report["prefix_cache_hit_rate"])
    table = status(f"{server.url}/v1").stdout
    assert table.startswith(f"{server.url}: ok, version {report['version']}, up ")
    assert "\nmodel         osprey-nano, context length 4096 tokens\n" in table
    assert "\nrequests      0 of 4 running, 0 waiting, 1 done, 0 failed, 0 refused\n" in table
    assert f"\ngeneration    0.0 tokens/s, {report['generation_tokens']} tokens in total\n" in table
    assert re.search(r"\nKV cache      0\.0 % used, 0 of \d+ pages, \d+ only in the prefix cache, 0 preemptions\n", table)
    assert re.search(r"\nmemory        weights [\d.]+ MB, KV cache [\d.]+ MB, resident [\d.]+ MB\n$", table)


def test_the_key(start_server):
    server = start_server("--api-key", "right")
    assert status(server.url, "--api-key", "right").returncode == 0
    assert status(server.url, environment={"OSPREY_API_KEY": "right"}).returncode == 0
    for arguments, reason in [((), "no API key was sent"), (("--api-key", "wrong"), "Incorrect API key provided")]:
        done = status(server.url, *arguments)
        assert done.returncode == 1
        assert f"osprey: {server.url}/v1/models: status 401: {reason}" in done.stderr
        assert ": ok, " in done.stdout  # /health needs no key


def test_metrics_of_other_servers(fake):
    report = json.loads(status(fake.url, "--json").stdout)
    assert (report["requests_running"], report["requests_waiting"]) == (7, 10)
    assert report["kv_cache_usage"] == 0.5 and report["prefix_cache_hit_rate"] == 0.25
    assert report["requests_done"] == 11 and report["resident_bytes"] == 2e9
    assert report["generation_tokens"] == 2000  # of the second reading
    assert 0 < report["generation_tokens_per_second"] <= 1000 / 0.1
    for name in ("prompt_tokens", "prompt_tokens_per_second", "max_num_seqs", "kv_pages", "uptime_seconds", "reason"):
        assert report[name] is None, name
    table = status(fake.url).stdout
    assert table.startswith(f"{fake.url}: ok, version 9.8.7\nmodel         a, context length 4096 tokens, and 1 other")
    assert "\nrequests      7 running, 10 waiting, 11 done\n" in table
    assert "\nprompt" not in table  # not reported: left out
    assert "\nKV cache      50.0 % used\n" in table and "\nmemory        resident 2.0 GB\n" in table


def test_a_server_without_metrics(fake):
    for path in ("/metrics", "/version", "/v1/models"):
        del fake.routes[path]
    done = status(fake.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{fake.url}: ok\n", "")


@pytest.mark.parametrize("route, text", [
    ((503, '{"status": "loading", "reason": null}'), "/health: status 503: loading"),
    ((503, '{"status": "failed", "reason": "the GPU fell off"}'), "/health: status 503: failed: the GPU fell off"),
    ((503, "no JSON"), "/health: status 503: no JSON"),
    ((404, ""), "/health: status 404"),
    ((302, ""), "/health: status 302: the server redirects to another URL"),
])  # fmt: skip
def test_not_healthy(fake, route, text):
    fake.routes["/health"] = route
    done = status(fake.url, "--once")
    assert done.returncode == 1 and done.stderr.startswith(f"osprey: {fake.url}{text}")
    assert done.stdout.startswith(fake.url) and ": ok" not in done.stdout
    report = json.loads(status(fake.url, "--json").stdout)
    assert report["reachable"] and not report["healthy"] and text[1:7] in report["error"]


def test_not_reachable():
    done = status("http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (1, "")
    assert "127.0.0.1 port 9" in done.stderr and "is the server running there?" in done.stderr
    done = run("status", "--json", "--url", "http://127.0.0.1:9")
    report = json.loads(done.stdout)
    assert done.returncode == 1 and not report["reachable"] and not report["healthy"] and "port 9" in report["error"]


@pytest.mark.parametrize("arguments, code, text", [
    (("a", "b"), 2, "b: unexpected argument"),
    (("http://a", "--url", "http://b"), 2, "there are two URLs"),
    (("--interval", "0"), 2, "--interval"),
    (("ftp://a",), 1, "not a URL of a server"),
])  # fmt: skip
def test_wrong_arguments(arguments, code, text):
    done = run("status", *arguments)
    assert done.returncode == code and text in done.stderr and done.stdout == ""


def test_hostile_values(fake):
    """Neither control characters nor odd types nor deep JSON reach the terminal or stop the program."""
    fake.routes |= {
        "/version": (200, json.dumps({"version": "1\x1b[2J\n2"})),
        "/v1/models": (200, json.dumps({"data": [{"id": "m\u202e", "max_model_len": "x"}]})),
        "/metrics": (200, "vllm:num_requests_running " + "9" * 300 + "\n" + "vllm:num_requests_waiting{" * 9999),
    }
    table = status(fake.url).stdout
    assert table.startswith(rf"{fake.url}: ok, version 1\x1b[2J\x0a2") and r"m\u{202e}" in table
    assert "\x1b" not in table and "\u202e" not in table
    fake.routes["/version"] = (200, "[" * 100000)
    fake.routes["/v1/models"] = (200, '{"data": {"id": 5}}')
    fake.routes["/metrics"] = (200, "x" * (5 << 20))
    done = status(fake.url)
    assert done.returncode == 1 and "/metrics" in done.stderr and "limit" in done.stderr


def test_lost_output(fake):
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, "status", fake.url, *QUICK], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "standard output could not be written" in done.stderr


def test_a_terminal_without_a_cursor(fake, tmp_path):
    t = Terminal(tmp_path, fake.url, *QUICK, command=("status",), term="dumb")
    assert "\x1b" not in t.read_until("resident 2.0 GB")
    assert t.wait_code() == 0


def test_live(fake, tmp_path):
    """The table is printed again in its place; a server that fails and comes back is followed."""
    t = Terminal(tmp_path, fake.url, *QUICK, command=("status",))
    t.read_until("1000 tokens in total")
    t.read_until(r"\x1b\[\d+A\r\x1b\[\?7l" + re.escape(fake.url))
    t.read_until(r"tokens/s, \d000 tokens in total")
    fake.routes["/health"] = (503, '{"status": "draining"}')
    t.read_until(": draining, version")
    t.read_until("error         .*status 503: draining")
    fake.routes["/health"] = (200, "")
    t.read_until(": ok, version")
    t.type("\x03")
    assert t.wait_code() == 0
    t = Terminal(tmp_path, fake.url, *QUICK, command=("status",))
    t.read_until(": ok")
    fake.close()
    t.read_until(": not reachable")
    t.type("\x03")
    assert t.wait_code() == 1
    t = Terminal(tmp_path, fake.url, command=("status",))
    t.read_until(r"osprey: .*is the server running there\?")
    assert t.wait_code() == 1


def test_an_interrupt_ends_a_slow_reading(fake):
    """Ctrl-C does not wait for the server."""
    arrived = threading.Event()

    def wait(request):
        arrived.set()
        request.rfile.read(1)  # returns when the client is gone

    fake.routes["/health"] = wait
    process = subprocess.Popen([PROGRAM, "status", fake.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert arrived.wait(60)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 1 and "canceled" in error, (out, error)


def test_health_needs_no_key(start_server):
    server = start_server("--api-key", "secret")
    done = run("status", "--health", server.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
    done = run("status", "--once", server.url)
    assert done.returncode == 1 and "key" in done.stderr
    done = run("status", "--health", "--json", server.url)
    assert done.returncode == 2 and "--health" in done.stderr
    assert server.stop() == 0
    done = run("status", "--health", server.url)
    assert done.returncode == 1 and done.stdout == "" and done.stderr != ""

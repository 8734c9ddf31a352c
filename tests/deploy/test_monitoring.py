"""Prometheus, Debian's own, with the shipped configuration and rules: it scrapes a running server,
and each query of the Grafana board has data."""
import json
import math
import re
import shutil
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest
import yaml

from conftest import ROOT
from machine import run, wait_until

PROGRAMS = ROOT / "build/setup/programs/prometheus/usr/bin"
FOLDER = ROOT / "deploy/prometheus"
BOARD = ROOT / "deploy/grafana/dashboards/osprey.json"
KEY = "key-of-the-monitoring-test"
# What Grafana puts in: the smallest rate interval is four scrapes.
VARIABLES = {"$__rate_interval": "20s", "$__range": "1m", "$instance": ".*"}


def program(name):
    found = shutil.which(name) or (PROGRAMS / name if (PROGRAMS / name).exists() else None)
    if not found:
        pytest.skip(f"needs {name} (make test-deploy unpacks it)")
    return found


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    key_file = tmp_path_factory.mktemp("key") / "api_key"
    key_file.write_text(KEY + "\n")
    port = free_port()
    process = subprocess.Popen([ROOT / "build/osprey", "serve", "--port", str(port), "--max-model-len", "4096",
                                "--api-key-file", key_file, "-q"], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("http://")
    yield port, key_file
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def configuration(folder, target, key_file):
    """The shipped files, with this target, this key and a scrape each second."""
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    config["global"].update(scrape_interval="1s", scrape_timeout="1s", evaluation_interval="1s")
    scrape = config["scrape_configs"][0]
    scrape["authorization"]["credentials_file"] = str(key_file)
    scrape["static_configs"] = [{"targets": [target]}]
    for name in config["rule_files"]:
        rules = yaml.safe_load((FOLDER / name).read_text())
        for group in rules["groups"]:
            group.pop("interval", None)
        (folder / name).write_text(yaml.safe_dump(rules))
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(scope="module")
def prometheus(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prometheus")
    port, key_file = server
    path = configuration(folder, f"127.0.0.1:{port}", key_file)
    own = free_port()
    with open(folder / "log", "w") as log:
        process = subprocess.Popen([program("prometheus"), f"--config.file={path}", f"--storage.tsdb.path={folder}/data",
                                    f"--web.listen-address=127.0.0.1:{own}"], stdout=log, stderr=log, cwd=folder)
    url = f"http://127.0.0.1:{own}"

    def is_ready():
        try:
            return "Ready" in get(f"{url}/-/ready")
        except (urllib.error.URLError, ConnectionError):
            return False
    wait_until(is_ready, "Prometheus is ready", 60)
    yield url
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="module")
def traffic(server):
    """Chats until the tests end, so that every rate and every histogram has values."""
    port, _ = server
    done = threading.Event()

    def chat():
        body = json.dumps({"messages": [{"role": "user", "content": "What is the capital of France?"}]}).encode()
        while not done.is_set():
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body, {
                "Content-Type": "application/json", "Authorization": f"Bearer {KEY}"})
            urllib.request.urlopen(request, timeout=60).read()
            done.wait(0.2)
    threads = [threading.Thread(target=chat) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield
    done.set()
    for thread in threads:
        thread.join()


def query(url, expression):
    text = get(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
    return json.loads(text)["data"]["result"]


def board_queries():
    board = json.loads(BOARD.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def expand(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def test_promtool_accepts_rules_and_configuration(tmp_path, server):
    promtool = program("promtool")
    run([promtool, "check", "rules", FOLDER / "rules.yml", FOLDER / "alerts.yml"])
    path = configuration(tmp_path, "127.0.0.1:1", server[1])
    run([promtool, "check", "config", path])
    shutil.copytree(FOLDER, tmp_path / "shipped")  # as shipped, but for the key, which is not here
    own = tmp_path / "shipped/prometheus.yml"
    own.write_text(own.read_text().replace("/run/secrets/api_key", str(server[1])))
    run([promtool, "check", "config", own])


def test_promtool_tests_rules():
    run([program("promtool"), "test", "rules", FOLDER / "rules_test.yml"])


def test_promtool_lints_the_metrics(server):
    """The text format is valid; style findings about vLLM's names are expected."""
    port, _ = server
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {KEY}"})
    text = urllib.request.urlopen(request, timeout=10).read()
    done = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, timeout=60)
    assert done.returncode in (0, 3), done.stderr  # 3: lint findings, 1: cannot be parsed
    assert b"error while linting" not in done.stderr, done.stderr


def test_server_is_scraped_with_its_key(prometheus):
    wait_until(lambda: [r["value"][1] for r in query(prometheus, 'up{job="osprey"}')] == ["1"], "up is 1", 30)


def test_wrong_key_is_seen(prometheus, server):
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(f"http://127.0.0.1:{server[0]}/metrics")
    assert refused.value.code == 401


def test_each_query_of_the_board_has_data(prometheus, traffic):
    wait_until(lambda: query(prometheus, 'sum(rate(vllm:generation_tokens_total[20s])) > 0'), "tokens", 60)
    time_of_traffic = 'min(count_over_time(osprey:engine_up[1m])) > 8'
    wait_until(lambda: query(prometheus, time_of_traffic), "some scrapes", 60)
    empty, wrong = [], []
    queries = list(board_queries())
    for title, expression in queries:
        result = query(prometheus, expand(expression))
        if not result:
            empty.append(f"{title}: {expression}")
        wrong += [f"{title}: {expression} = {r['value'][1]}" for r in result
                  if not math.isfinite(float(r["value"][1]))]
    assert len(queries) > 40 and (empty, wrong) == ([], [])


def test_recording_rules_have_values_and_nothing_alerts(prometheus, traffic):
    rules = yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"][0]["rules"]
    for rule in rules:
        wait_until(lambda: query(prometheus, rule["record"]), rule["record"], 60)
    assert query(prometheus, 'ALERTS{alertstate="firing"}') == []


def test_each_metric_that_is_used_exists(server):
    """A renamed metric would leave boards and alerts silently empty."""
    port, _ = server
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {KEY}"})
    text = urllib.request.urlopen(request, timeout=10).read().decode()
    known = set(re.findall(r"^(?:# TYPE )?([a-z_:A-Z0-9]+)[{ ]", text, re.M))
    files = [FOLDER / "rules.yml", FOLDER / "alerts.yml", BOARD]
    used = {name for file in files
            for name in re.findall(r"\b((?:vllm|osprey):[a-z0-9_]+|process_\w+|http_requests_total)\b",
                                   re.sub(r"instance:osprey_\w+:\w+", "", file.read_text()))}
    assert len(used) > 30 and used - known == set()

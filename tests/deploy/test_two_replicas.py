"""docs/tutorial-two-sparks.md: its nginx configuration in front of two servers on this machine."""
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import urllib.request

import pytest

from conftest import ROOT
from machine import wait_until

KEY = "the-same-key-on-both"
UNPACKED = ROOT / "build/setup/programs/nginx/usr/sbin/nginx"


def nginx_program():
    found = shutil.which("nginx") or next((str(p) for p in (UNPACKED, pathlib.Path("/usr/sbin/nginx"))
                                           if p.exists()), None)
    if not found:
        pytest.skip("needs nginx (make test-deploy unpacks it)")
    return found


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Replica:
    def __init__(self):
        self.process = subprocess.Popen([ROOT / "build/osprey", "serve", "--host", "0.0.0.0", "--port", "0", "--api-key",
                                         KEY, "--max-model-len", "4096", "-q"], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().strip().rsplit(":", 1)[1])

    def done(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=10) as answer:
            return json.load(answer)["requests_done"]


def ask(port):
    body = json.dumps({"messages": [{"role": "user", "content": "What is the capital of France?"}]}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body, {
        "Content-Type": "application/json", "Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


@pytest.fixture
def sparks():
    both = [Replica(), Replica()]
    yield both
    for one in both:
        one.process.kill()
        one.process.wait()


@pytest.fixture
def nginx(sparks, tmp_path):
    """The configuration of the tutorial, with the ports of the two servers."""
    text = (ROOT / "docs/tutorial-two-sparks.md").read_text()
    conf = re.search(r"```nginx\n(.*?)```", text, re.S)[1]
    port = free_port()
    for old, new in (("127.0.0.1:8000", f"127.0.0.1:{sparks[0].port}"), ("spark-b:8000", f"127.0.0.1:{sparks[1].port}"),
                     ("listen 8080", f"listen 127.0.0.1:{port}")):
        assert old in conf
        conf = conf.replace(old, new)
    names = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    temp = "".join(f"{n}_temp_path {tmp_path}/{n};\n" for n in names)
    whole = (f"daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;\n"
             f"events {{}}\nhttp {{\naccess_log off;\n{temp}{conf}}}\n")
    (tmp_path / "nginx.conf").write_text(whole)
    words = [nginx_program(), "-p", tmp_path, "-e", tmp_path / "error.log", "-c", tmp_path / "nginx.conf"]
    checked = subprocess.run([*words, "-t"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)

    def listens():
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0
    wait_until(listens, "nginx listens", 30)
    yield port
    process.terminate()
    process.wait(30)


def test_one_client_stays_and_moves_when_its_server_stops(nginx, sparks):
    assert [ask(nginx) for _ in range(4)] == ["Paris"] * 4
    used = [one.done() for one in sparks]
    assert sorted(used) == [0, 4]  # one address, one server
    first, second = (sparks if used[0] else sparks[::-1])
    first.process.send_signal(signal.SIGTERM)
    assert [ask(nginx) for _ in range(4)] == ["Paris"] * 4  # while it drains, and after
    assert first.process.wait(60) == 0
    assert ask(nginx) == "Paris" and second.done() >= 1

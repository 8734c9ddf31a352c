"""Linters over deploy/: Dockerfiles, compose files, YAML, JSON, shell scripts, the Slurm job."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import urllib.request

import pytest
import yaml

from conftest import ROOT
from machine import run, wait_until

DEPLOY = ROOT / "deploy"
BIN = pathlib.Path(sys.executable).parent
SCRIPTS = [p for p in sorted([*DEPLOY.rglob("*"), *ROOT.glob("tools/*.sh")])
           if p.is_file() and re.match(rb"#!.*\b(ba)?sh\b", p.read_bytes()[:64])]


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("docker/Dockerfile*")), ids=lambda p: p.name)
def test_hadolint(path):
    run([BIN / "hadolint", path])


@pytest.mark.parametrize("name", ["compose.yml", "compose.dev.yml"])
def test_compose_schema(name):
    run([BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "docker" / name])


@pytest.mark.parametrize("name", ["compose.yml", "compose.dev.yml"])
def test_compose_files_exist(name):
    """Paths are relative to the repository (--project-directory)."""
    config = yaml.safe_load((DEPLOY / "docker" / name).read_text())
    for service in config["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in config.get("volumes", {}) or (ROOT / source).exists(), source
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).exists()


def test_compose_stops_later_than_the_drain():
    config = yaml.safe_load((DEPLOY / "docker/compose.yml").read_text())
    assert int(config["services"]["osprey"]["stop_grace_period"].rstrip("s")) > 30 + 5


def test_compose_environment_is_options():
    """Each OSPREY_ variable is an option of serve."""
    options = run([ROOT / "build/osprey", "help", "serve"])
    files = [*DEPLOY.glob("docker/*"), *DEPLOY.glob("slurm/*")]
    names = {n for file in files for n in re.findall(r"\bOSPREY_([A-Z_]+)\b", file.read_text())}
    names -= {"IMAGE", "URL", "RANK_TOKEN"}  # of compose; of osprey status; of ranks
    assert len(names) >= 5
    for name in names:
        assert f"--{name.lower().replace('_', '-')} " in options, name


def test_yamllint():
    run([BIN / "yamllint", "-s", "deploy", ".yamllint.yml"], cwd=ROOT)  # finds .yamllint.yml


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.json")), ids=lambda p: p.name)
def test_json(path):
    json.loads(path.read_text())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_shellcheck(path):
    if not shutil.which("shellcheck"):
        pytest.skip("needs shellcheck")
    run(["shellcheck", "--exclude=SC1091", path])  # files of other systems


def test_systemd_unit(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / "osprey.service"
    text = (DEPLOY / "systemd/osprey.service.in").read_text()
    unit.write_text(text.replace("@PREFIX@", "/usr").replace("@SYSCONFDIR@", "/etc"))
    output = run(["systemd-analyze", "security", "--offline=true", "--threshold=25", "--no-pager", unit])
    print(output.splitlines()[-1])
    verify = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    problems = [line for line in verify.stderr.splitlines()  # neither is installed here
                if "/usr/bin/osprey is not executable" not in line and "man osprey(1)" not in line]
    assert problems == []


def test_slurm_job(tmp_path):
    """The script as Slurm runs it: URL and key in files, and a drain when the time ends."""
    env = {**os.environ, "SLURM_JOB_ID": "7", "OSPREY": str(ROOT / "build/osprey"), "OSPREY_DEVICE": "cpu"}
    env.pop("OSPREY_API_KEY", None)
    job = subprocess.Popen(["bash", DEPLOY / "slurm/osprey.sbatch", "--max-num-seqs", "2", "-q"], cwd=tmp_path, env=env,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    url_file, key_file = tmp_path / "osprey-7.url", tmp_path / "osprey-7.key"
    wait_until(lambda: url_file.exists() and url_file.read_text().endswith("\n"), "the URL", 60)
    assert key_file.stat().st_mode & 0o077 == 0
    port = url_file.read_text().strip().rsplit(":", 1)[1]
    body = json.dumps({"prompt": "The capital of France is", "max_tokens": 1500, "ignore_eos": True, "stream": True})
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body.encode(), {
        "Content-Type": "application/json", "Authorization": f"Bearer {key_file.read_text().strip()}"})
    answer = urllib.request.urlopen(request, timeout=60)
    answer.readline()
    job.send_signal(signal.SIGTERM)  # --signal=B:TERM@120 goes to the script
    assert answer.read().rstrip().endswith(b"data: [DONE]")
    assert job.wait(60) == 0, job.stdout.read()
    assert not url_file.exists() and not (tmp_path / "osprey-7.pipe").exists()

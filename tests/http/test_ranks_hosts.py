"""Two hosts: network namespaces of this machine with a cable between them, a real sshd on the second one, and mpirun
over ssh. Needs root, ip, sshd, ssh and mpirun; skipped where one is missing."""

import os
import re
import shutil
import signal
import stat
import subprocess
import time

import pytest

from conftest import PROGRAM, Server
from test_ranks import EIGHT_HEADS, NANO, QUESTION, TOLD_S, answer, ranks
from test_worker import children, health, is_gone, wait_until

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
A, B, FROM_HERE, TO_A = "10.199.77.1", "10.199.77.2", "10.199.78.1", "10.199.78.2"


def can_run():
    if os.geteuid() != 0 or not os.path.exists(SSHD):
        return False
    if any(shutil.which(name) is None for name in ("ip", "ssh", "ssh-keygen", "mpirun", "unshare")):
        return False
    made = subprocess.run(["ip", "netns", "add", "osp-probe"], capture_output=True).returncode == 0
    subprocess.run(["ip", "netns", "del", "osp-probe"], capture_output=True)
    return made


pytestmark = pytest.mark.skipif(not can_run(), reason="needs root, network namespaces, sshd and mpirun")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def ssh_key(folder, name):
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Gives the path of a program that runs osprey on the first host, and its environment."""
    folder = tmp_path_factory.mktemp("hosts")
    names = [f"osp-a-{os.getpid()}", f"osp-b-{os.getpid()}"]
    sshd = None
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "osp-ab", "netns", names[0], "type", "veth", "peer", "name", "osp-ba", "netns", names[1])
        ip("link", "add", "osp-0a", "type", "veth", "peer", "name", "osp-a0", "netns", names[0])
        for where, device, address in (
            (names[0], "osp-ab", A),
            (names[1], "osp-ba", B),
            (names[0], "osp-a0", TO_A),
        ):
            ip("-n", where, "addr", "add", f"{address}/24", "dev", device)
            ip("-n", where, "link", "set", device, "up")
        ip("addr", "add", f"{FROM_HERE}/24", "dev", "osp-0a")
        ip("link", "set", "osp-0a", "up")
        sshd = start_sshd(folder, names[1])
        yield wrapper(folder, names[0]), agent(folder)
    finally:
        if sshd is not None:
            sshd.kill()
            sshd.wait()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", "osp-0a"], capture_output=True)


def start_sshd(folder, namespace):
    host, user = ssh_key(folder, "host"), ssh_key(folder, "user")
    keys = folder / "keys"
    shutil.copy(f"{user}.pub", keys)
    os.makedirs("/run/sshd", exist_ok=True)
    options = [
        f"ListenAddress={B}",
        f"HostKey={host}",
        f"AuthorizedKeysFile={keys}",
        "StrictModes=no",
        "UsePAM=no",
        "PidFile=none",
        "PermitRootLogin=yes",
    ]
    words = " ".join(f"-o {option}" for option in options)
    command = f"hostname osp-b; exec {SSHD} -D -e -f /dev/null {words}"
    log = open(folder / "sshd.log", "w")
    return subprocess.Popen(
        ["ip", "netns", "exec", namespace, "unshare", "--uts", "sh", "-c", command], stderr=log, stdout=log
    )


def wrapper(folder, namespace):
    path = folder / "osprey-on-a"
    path.write_text(
        "#!/bin/sh\n"
        f"exec ip netns exec {namespace} unshare --uts sh -c 'hostname osp-a; exec \"$0\" \"$@\"' {PROGRAM} \"$@\"\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def agent(folder):
    ssh = f"ssh -i {folder}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    return {"OMPI_MCA_plm_rsh_agent": ssh}


@pytest.fixture
def start(hosts):
    program, environment = hosts
    running = []

    def begin(*options):
        running.append(Server("--host", TO_A, *options, program=program, environment=environment))
        return running[-1]

    yield begin
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def ranks_on_b():
    """Process ids of ranks whose host name is osp-b."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and b"--osprey-rank" in open(f"/proc/{name}/cmdline", "rb").read():
                if os.readlink(f"/proc/{name}/exe") == os.path.realpath(PROGRAM):
                    found.append(int(name))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("options, n", [(NANO, 2), (EIGHT_HEADS, 4)], ids=["2 ranks", "4 ranks"])
def test_two_hosts(start, start_server, options, n):
    one = start_server(*options)
    want = answer(one, QUESTION)
    server = start(*options, *ranks(n), "--hosts", f"{A},{B}")
    assert any("TCP connections between them" in line for line in server.log), server.log
    assert answer(server, QUESTION) == want

    others = ranks_on_b()
    assert len(others) == n - 1
    began = time.monotonic()
    os.kill(others[0], signal.SIGKILL)
    wait_until(lambda: health(server)[1]["restarts"] == 1, "a restart", TOLD_S)
    assert time.monotonic() - began < TOLD_S
    assert any(re.search(r"rank \d \(osp-[ab], process \d+\) has ended", line) for line in server.log), server.log
    wait_until(lambda: health(server)[0] == 200, "200 again")
    assert answer(server, QUESTION) == want
    others += ranks_on_b()
    worker = children(server.process.pid)
    assert server.stop() == 0, server.log
    wait_until(lambda: all(is_gone(pid) for pid in others + worker), "no rank is left", 10)


def test_a_host_that_does_not_answer(hosts):
    program, environment = hosts
    result = subprocess.run(
        [program, "serve", *NANO, *ranks(2), "--hosts", f"{A},10.199.77.99", "--port", "0"],
        env={**os.environ, "OMPI_MCA_plm_rsh_agent": environment["OMPI_MCA_plm_rsh_agent"] + " -o ConnectTimeout=2"},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert result.returncode == 1
    assert re.search(r"rank 1 has not joined: mpirun ended with exit status \d+", result.stderr), result.stderr

"""The Debian package in a booted Debian 12: lintian, install, use, upgrade, remove, purge."""
import json
import re
import shutil
import time

import pytest

from machine import run, wait_until

QUESTION = json.dumps({"messages": [{"role": "user", "content": "What is the capital of France?"}]})
URL = "http://127.0.0.1:8000"
EXPOSURE_MAX = 2.5
WATCHDOG_S = 4


def ask(machine):
    return machine.sh(f"curl -sS {URL}/v1/chat/completions -H 'Content-Type: application/json' -d '{QUESTION}'")


def wait_active(machine):
    wait_until(lambda: machine.call("systemctl is-active osprey").stdout.strip() == "active", "osprey is active")


@pytest.fixture(scope="module")
def second_package(package, version, tmp_path_factory):
    """The same files as revision 2, with another default configuration."""
    folder = tmp_path_factory.mktemp("second")
    run(["dpkg-deb", "-R", package, folder / "tree"])
    control = folder / "tree/DEBIAN/control"
    control.write_text(control.read_text().replace(f"Version: {version}-1", f"Version: {version}-2"))
    conf = folder / "tree/etc/osprey/serve.conf"
    conf.write_text(conf.read_text() + "# new in revision 2\n")
    path = folder / f"osprey_{version}-2_amd64.deb"
    run(["dpkg-deb", "--root-owner-group", "-b", folder / "tree", path])
    return path


def copy_in(machine, package):
    shutil.copy(package, machine.root / "root" / package.name)
    return f"/root/{package.name}"


def test_lintian_finds_nothing(package):
    changes = package.with_suffix(".changes")
    run(["lintian", "--allow-root", "--fail-on", "error,warning", "--display-info", changes])


# The tests below are the life of one installation, in this order.

def test_install_starts_the_service(machine, package):
    machine.sh(f"dpkg -i {copy_in(machine, package)}")
    wait_active(machine)
    assert '"content":"Paris"' in ask(machine)
    assert machine.property("Type") == "notify"
    idle = "osprey-nano: 0 running, 0 waiting"  # sent a second after the answer at the latest
    wait_until(lambda: machine.property("StatusText") == idle, idle)
    assert machine.call("systemctl is-enabled osprey").stdout.strip() == "enabled"


def test_service_runs_as_its_own_user_without_rights(machine):
    pid = machine.property("MainPID")
    status = machine.sh(f"cat /proc/{pid}/status")
    assert machine.sh("getent passwd osprey").split(":")[5:7] == ["/var/lib/osprey", "/usr/sbin/nologin\n"]
    assert machine.sh("id -u osprey").strip() == re.search(r"Uid:\t(\d+)", status)[1]
    assert re.search(r"CapBnd:\t0+\n", status) and re.search(r"NoNewPrivs:\t1\n", status)
    assert re.search(r"Seccomp:\t2\n", status)
    assert "NOTIFY_SOCKET" in machine.sh(f"tr '\\0' '\\n' </proc/{pid}/environ")  # as it was started
    exposure = machine.sh("systemd-analyze security --no-pager osprey").splitlines()[-1]
    assert float(re.search(r"level for osprey.service: ([0-9.]+)", exposure)[1]) <= EXPOSURE_MAX


def test_plugin_is_found_and_misses_the_driver(machine, package, version):
    plugin = package.with_name(f"osprey-cuda_{version}-1_amd64.deb")
    if not plugin.exists():
        pytest.skip("only with DEB_BUILD_PROFILES=pkg.osprey.cuda")
    machine.sh(f"dpkg -i {copy_in(machine, plugin)}")
    done = machine.call("osprey validate --device cuda")
    assert done.returncode == 1 and "no driver is loaded" in done.stderr
    machine.sh("dpkg -P osprey-cuda && ! [ -e /usr/lib/osprey ]")


def test_manual_page_and_completion(machine):
    assert "osprey serve" in machine.sh("man -l /usr/share/man/man1/osprey.1.gz | cat")
    machine.sh("bash -c 'source /usr/share/bash-completion/completions/osprey && complete -p osprey'")


def test_hung_server_is_restarted_by_the_watchdog(machine):
    machine.sh("mkdir -p /etc/systemd/system/osprey.service.d && printf "
               f"'[Service]\\nWatchdogSec={WATCHDOG_S}\\nTimeoutAbortSec=2\\nRestartSec=100ms\\n' "
               ">/etc/systemd/system/osprey.service.d/test.conf"
               " && systemctl daemon-reload && systemctl restart osprey")
    wait_active(machine)
    pid = machine.property("MainPID")
    begin = time.monotonic()
    while time.monotonic() - begin < 2 * WATCHDOG_S:  # a server that works is left alone
        assert machine.property("MainPID") == pid
        time.sleep(0.5)
    machine.sh(f"kill -STOP {pid}")
    wait_until(lambda: machine.property("MainPID") not in ("0", pid), "another process", 6 * WATCHDOG_S)
    wait_active(machine)
    assert machine.property("NRestarts") == "1"
    assert "Watchdog timeout" in machine.sh("journalctl -u osprey --no-pager")
    machine.sh("rm -r /etc/systemd/system/osprey.service.d && systemctl daemon-reload && systemctl restart osprey")
    wait_active(machine)


def test_wrong_configuration_fails_once(machine):
    machine.sh("cp /etc/osprey/serve.conf /root/saved && echo 'no-such-option: 1' >>/etc/osprey/serve.conf")
    assert machine.call("systemctl restart osprey").returncode != 0
    wait_until(lambda: machine.property("ActiveState") == "failed", "osprey has failed")
    assert machine.property("ExecMainStatus") == "2" and machine.property("NRestarts") == "0"
    assert "no-such-option" in machine.sh("journalctl -u osprey --no-pager -n 20")
    machine.sh("cp /root/saved /etc/osprey/serve.conf && systemctl restart osprey")
    wait_active(machine)


def test_upgrade_keeps_the_configuration_and_finishes_answers(machine, second_package):
    machine.sh("sed -i 's/^log-format: json/log-format: plain/' /etc/osprey/serve.conf && systemctl restart osprey")
    wait_active(machine)
    before = machine.property("MainPID")
    body = json.dumps({"prompt": "The capital of France is", "max_tokens": 3000, "stream": True, "ignore_eos": True})
    stream = machine.start(f"curl -sSN {URL}/v1/completions -H 'Content-Type: application/json' -d '{body}' "
                           ">/root/stream.txt")
    wait_until(lambda: json.loads(machine.sh(f"curl -s {URL}/health"))["running"] == 1, "the stream runs")
    machine.sh(f"dpkg --force-confold -i {copy_in(machine, second_package)}", timeout_s=180)
    assert stream.wait(60) == 0, stream.stdout.read()
    output = machine.sh("cat /root/stream.txt")
    assert output.rstrip().endswith("data: [DONE]"), output[-500:]
    wait_active(machine)
    assert machine.property("MainPID") != before
    assert machine.sh("dpkg-query -W -f '${Version}' osprey").endswith("-2")
    conf = machine.sh("cat /etc/osprey/serve.conf")
    assert "log-format: plain" in conf and "new in revision 2" not in conf
    assert "new in revision 2" in machine.sh("cat /etc/osprey/serve.conf.dpkg-dist")
    assert '"content":"Paris"' in ask(machine)


def test_remove_stops_the_service_and_keeps_the_configuration(machine):
    machine.sh("dpkg --remove osprey", timeout_s=180)
    assert machine.call("pidof osprey").returncode != 0
    assert machine.call("test -e /usr/bin/osprey -o -e /lib/systemd/system/osprey.service").returncode != 0
    assert "log-format: plain" in machine.sh("cat /etc/osprey/serve.conf")
    assert machine.call("test -d /var/lib/osprey").returncode == 0


def test_purge_leaves_nothing(machine):
    machine.sh("dpkg --purge osprey")
    left = machine.sh("find / -xdev -path /proc -prune -o -path /sys -prune -o -path /root -prune -o "
                      "-path /var/log -prune -o -path /run -prune -o -name '*osprey*' -print")
    assert left == "", left

"""A Debian 12 that boots with systemd in a container of its own: a folder, systemd-nspawn, and no
network but its loopback. Needs root."""
import os
import pathlib
import shlex
import subprocess
import time

BOOT_S = 90
STOP_S = 60


def run(words, timeout_s=300, **more):
    """Runs a command; its output is in the error when it fails."""
    done = subprocess.run([str(w) for w in words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=timeout_s, **more)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def wait_until(condition, what, limit_s=60):
    """Waits until condition() is true; gives its value."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"not reached in {limit_s} s: {what}")


def debian_root(cache, name, packages, *options):
    """The tarball of a Debian 12 with these packages, made once by mmdebstrap."""
    path = pathlib.Path(cache) / f"{name}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.tar")
        run(["mmdebstrap", "--variant=minbase", "--mode=root", '--aptopt=APT::Install-Recommends "false"',
             *([f"--include={','.join(packages)}"] if packages else []), *options, "bookworm", part],
            timeout_s=900)
        part.rename(path)
    return path


class Machine:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.log = open(f"{root}.boot.log", "wb")
        self.process = subprocess.Popen(
            ["systemd-nspawn", "--register=no", "--keep-unit", "--quiet", "--private-network", "--console=pipe",
             f"--directory={root}", "--boot"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)
        self.init = wait_until(self._find_init, "the container's first process", BOOT_S)
        wait_until(self._is_running, "systemd is running", BOOT_S)

    def _find_init(self):
        """The process id of the container's systemd, the child of systemd-nspawn."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        words = children.read_text().split() if children.exists() else []
        comm = pathlib.Path(f"/proc/{words[0]}/comm") if words else None
        return int(words[0]) if comm and comm.exists() and comm.read_text().strip() == "systemd" else None

    def _is_running(self):
        state = self.call("systemctl is-system-running")
        return state.stdout.strip() in ("running", "degraded")

    def call(self, command, timeout_s=120):
        """Runs a shell command in the machine; any exit status."""
        words = ["nsenter", f"--target={self.init}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup",
                 f"--root=/proc/{self.init}/root", "--wdns=/", "/bin/sh", "-c", command]
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout_s, env=env)

    def sh(self, command, timeout_s=120):
        done = self.call(command, timeout_s)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, command):
        """Starts a command; gives the process."""
        return subprocess.Popen(
            ["nsenter", f"--target={self.init}", "--mount", "--net", "--pid", f"--root=/proc/{self.init}/root",
             "--wdns=/", "/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def property(self, name, unit="osprey"):
        return self.sh(f"systemctl show --value -p {name} {shlex.quote(unit)}").strip()

    def stop(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, 15)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

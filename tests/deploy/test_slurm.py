"""The Slurm job in a real Slurm: Debian's slurmctld and slurmd in a booted Debian 12, with a device
file in the place of a GPU."""
import os
import shutil

import pytest

from conftest import CACHE, ROOT
from machine import Machine, debian_root, run, wait_until

SLURM_CONF = """ClusterName=test
SlurmctldHost={host}
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmUser=root
ReturnToService=2
KillWait=60
NodeName={host} CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=65536 Gres=gpu:1 State=UNKNOWN
SlurmdParameters=config_overrides
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory, package):
    if os.geteuid() != 0 or not shutil.which("systemd-nspawn"):
        pytest.skip("needs root and systemd-nspawn")
    tar = debian_root(CACHE, "bookworm-slurm",
                      ["systemd", "systemd-sysv", "dbus", "curl", "munge", "slurmctld", "slurmd", "slurm-client",
                       "libedit2", "libjansson4", "libssl3", "libuv1"])
    root = tmp_path_factory.mktemp("slurm") / "root"
    root.mkdir()
    run(["tar", "-C", root, "-xf", tar])
    (root / "etc/hostname").write_text("node\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n192.0.2.1 node\n")
    (root / "etc/slurm/slurm.conf").write_text(SLURM_CONF.format(host="node"))
    (root / "etc/slurm/gres.conf").write_text("NodeName=node Name=gpu File=/dev/zero\n")
    shutil.copy(package, root / "root/osprey.deb")
    shutil.copy(ROOT / "deploy/slurm/osprey.sbatch", root / "root")
    running = Machine(root)
    # Slurm resolves no name while loopback is the only interface.
    network = ["nsenter", f"--target={running.init}", "--net", "ip"]
    run([*network, "link", "add", "net0", "type", "bridge"])
    run([*network, "address", "add", "192.0.2.1/24", "dev", "net0"])
    run([*network, "link", "set", "net0", "up"])
    running.sh("hostname node; mkdir -p /var/lib/slurm/slurmctld /var/lib/slurm/slurmd; systemctl restart munge; "
               "systemctl restart slurmctld slurmd", timeout_s=120)
    running.sh("dpkg -i /root/osprey.deb && systemctl stop osprey", timeout_s=120)
    yield running
    running.stop()
    run(["rm", "-rf", root])


STREAM = "/root/stream.txt"


def submit(machine, *options):
    """Submits the job; its number and the shell command of a request that streams into STREAM."""
    wait_until(lambda: "idle" in machine.call("sinfo -h -o %T").stdout, "the node is idle", 60)
    out = machine.sh(f"cd /root && rm -f {STREAM} && OSPREY_DEVICE=cpu sbatch {' '.join(options)} osprey.sbatch "
                     "--max-num-seqs 2")
    job = out.split()[-1]
    log = f"cat /root/osprey-{job}.log"
    url = wait_until(lambda: machine.call(f"cat /root/osprey-{job}.url").stdout.strip()
                     or machine.call(f"squeue -h -j {job}").stdout.strip() == "" and "no job", "the job's URL", 120)
    assert url.startswith("http://node:"), machine.call(log).stdout
    ask = (f"curl -sS http://127.0.0.1:{url.rsplit(':', 1)[1]}/v1/completions "
           f"-H \"Authorization: Bearer $(cat /root/osprey-{job}.key)\" "
           "-H 'Content-Type: application/json' -d '{\"prompt\": \"The capital of France is\", \"max_tokens\": 2000, "
           f"\"ignore_eos\": true, \"stream\": true}}' >{STREAM}")
    return job, ask


def cancel_in_mid_stream(machine, job, ask):
    stream = machine.start(ask)
    wait_until(lambda: machine.call(f"grep -c data: {STREAM}").stdout.strip() not in ("", "0"), "a first token")
    machine.sh(f"scancel --batch --signal=TERM {job}")  # what --signal=B:TERM@120 sends
    assert stream.wait(90) == 0, machine.sh(f"cat /root/osprey-{job}.log")
    assert machine.sh(f"tail -n 3 {STREAM}").strip().endswith("data: [DONE]")
    wait_until(lambda: machine.call(f"squeue -h -j {job}").stdout.strip() == "", "the job has ended", 60)
    assert machine.call(f"test -e /root/osprey-{job}.url").returncode != 0


def test_job_serves_and_drains_when_it_is_canceled(machine):
    job, ask = submit(machine)
    assert "gpu:1" in machine.sh(f"scontrol show job {job} -d")
    cancel_in_mid_stream(machine, job, ask)


def test_tasks_of_a_job_are_ranks(machine):
    """Two tasks without a GPU; the drain leaves rank 1 alone until the stream has ended."""
    job, ask = submit(machine, "--gpus=0", "--ntasks=2", "--cpus-per-task=2")
    details = machine.sh(f"scontrol show job {job} -d")
    assert "gpu:1" not in details and "NumTasks=2" in details
    assert "2 ranks: " in machine.sh(f"cat /root/osprey-{job}.log")
    cancel_in_mid_stream(machine, job, ask)
    assert "JobState=COMPLETED" in machine.sh(f"scontrol show job {job}")

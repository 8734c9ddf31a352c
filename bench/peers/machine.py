"""What the run took place on, and how calm it was: metadata, room on disk and in memory, the probe of
the memory's speed, and the share of the CPUs that other processes took meanwhile."""

import json
import os
import platform
import shutil
import statistics
import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path

# Beyond these a turn is called disturbed: share of all CPUs that others took, pages read from the disk.
CALM = 0.03
DISK_PAGES_MAX = 16


def meminfo():
    lines = Path("/proc/meminfo").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}


def cpuinfo(key):
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.split(":")[0].strip() == key:
            return line.split(":", 1)[1].strip()
    return ""


def output_of(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def describe(root):
    return {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "host_cpu": cpuinfo("model name") or platform.processor(),
        "cpu_flags": (cpuinfo("flags") or cpuinfo("Features")).split(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "caches": output_of("lscpu", "--caches=NAME,ONE-SIZE,ALL-SIZE").splitlines(),
        "kernel": platform.release(),
        "memory_bytes": meminfo()["MemTotal"],
        "huge_pages": Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text().strip(),
        "load_average": os.getloadavg(),
        "osprey_commit": output_of("git", "-C", str(root), "rev-parse", "HEAD"),
        "osprey_changed": bool(output_of("git", "-C", str(root), "status", "--porcelain",
                                         "--untracked-files=no")),
        "compiler": output_of("cc", "--version").partition("\n")[0],
    }


def need_room(folder, disk_bytes, memory_bytes):
    """Refuses, with the figures, before anything is written."""
    free, available = shutil.disk_usage(folder).free, meminfo()["MemAvailable"]
    if free < disk_bytes:
        raise SystemExit(f"peers: {folder} has {free / 1e9:.1f} GB free, needs "
                         f"{disk_bytes / 1e9:.1f} (fewer --layers, or another --folder)")
    if available < memory_bytes:
        raise SystemExit(f"peers: {available / 1e9:.1f} GB of memory are available, needs "
                         f"{memory_bytes / 1e9:.1f} (fewer --layers)")


def read_bandwidth(folder, threads):
    """GB/s of reading alone, one figure a pass."""
    return json.loads(output_of(str(folder / "read_bandwidth"), str(threads)))["gb_s"]


def ticks():
    """Busy time of all CPUs, and all time, in seconds; stolen time counts as busy."""
    fields = [int(w) for w in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    idle = fields[3] + fields[4]
    hertz = os.sysconf("SC_CLK_TCK")
    return (sum(fields) - idle) / hertz, sum(fields) / hertz


class Others:
    """Between enter and exit: the share of all CPUs that went to anything but one worker, the worker's
    own processor time, and how often it had to wait for a page from the disk."""

    def __init__(self, worker=None):
        self.worker, self.share, self.own_seconds, self.n_disk_pages = worker, 0.0, 0.0, 0

    def __enter__(self):
        self.own, self.began = self.used(), ticks()
        return self

    def __exit__(self, *_):
        busy, total = (b - a for a, b in zip(self.began, ticks()))
        self.own_seconds, self.n_disk_pages = (b - a for a, b in zip(self.own, self.used()))
        self.share = max(0.0, busy - self.own_seconds) / total if total > 0 else 0.0

    def used(self):
        return self.worker.used() if self.worker else (0.0, 0)

    def disturbed(self):
        return self.share > CALM or self.n_disk_pages > DISK_PAGES_MAX


def others_now(seconds=2.0):
    with Others() as others:
        time.sleep(seconds)
    return others.share


def median(values):
    return statistics.median(values) if values else 0.0

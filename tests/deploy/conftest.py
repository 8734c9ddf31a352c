"""Fixtures of the deployment tests: `make test-deploy` (docs/testing.md)."""
import os
import pathlib
import shutil

import pytest

from machine import Machine, debian_root, run

ROOT = pathlib.Path(__file__).parents[2]
CACHE = ROOT / "build/deploy"


@pytest.fixture(scope="session")
def make():
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return lambda *words: run(["make", "-j2", *words], cwd=ROOT, env=env, timeout_s=1800)


@pytest.fixture(scope="session")
def version():
    return (ROOT / "include/osprey.h").read_text().split('#define OSP_VERSION "')[1].split('"')[0]


@pytest.fixture(scope="session")
def package(make, version):
    """The .deb that `make deb` builds from the last commit, or the one that $OSPREY_DEB names."""
    if "OSPREY_DEB" in os.environ:
        return pathlib.Path(os.environ["OSPREY_DEB"]).resolve()
    make("deb")
    return ROOT / f"dist/deb/osprey_{version}-1_amd64.deb"


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A booted Debian 12 that has the libraries of the package, and not the package."""
    if os.geteuid() != 0 or not shutil.which("systemd-nspawn"):
        pytest.skip("needs root and systemd-nspawn")
    tar = debian_root(CACHE, "bookworm-systemd",
                      ["systemd", "systemd-sysv", "dbus", "curl", "ca-certificates", "man-db", "libcurl4",
                       "libedit2", "libjansson4", "libssl3", "libuv1"])
    root = tmp_path_factory.mktemp("machine") / "root"
    root.mkdir()
    run(["tar", "-C", root, "-xf", tar])
    running = Machine(root)
    yield running
    running.stop()
    run(["rm", "-rf", root])

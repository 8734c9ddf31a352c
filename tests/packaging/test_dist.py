"""`make dist`: the tarball of the last commit, equal wherever it is made."""
import hashlib
import os
import pathlib
import subprocess
import tarfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def git(*words, **more):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True, **more).stdout.strip()


def is_checkout():
    return subprocess.run(["git", "rev-parse", "-q", "--verify", "HEAD"], cwd=ROOT, capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not is_checkout(), reason="needs a git checkout")


def dist(folder, out, umask):
    """Runs the script in a checkout, as the Makefile does."""
    subprocess.run(["sh", "-c", f"umask {umask} && tools/dist.sh 1.2.3 '{out}'"], cwd=folder, check=True,
                   capture_output=True, env={**os.environ, "TZ": "Asia/Tokyo"})
    return out / "osprey-1.2.3.tar.gz"


@pytest.fixture(scope="module")
def tarball(tmp_path_factory):
    return dist(ROOT, tmp_path_factory.mktemp("dist"), "0022")


def test_same_bytes_from_another_clone(tarball, tmp_path):
    git("clone", "-q", "--no-local", "--depth=1", f"file://{ROOT}", str(tmp_path / "clone"))
    second = dist(tmp_path / "clone", tmp_path / "b", "0077")
    hashes = {hashlib.sha256(p.read_bytes()).hexdigest() for p in (tarball, second)}
    assert len(hashes) == 1


def test_content(tarball):
    with tarfile.open(tarball) as tar:
        members = {m.name: m for m in tar.getmembers()}
        commit = tar.extractfile("osprey-1.2.3/tools/commit").read().decode().strip()
    assert git("rev-parse", "HEAD").startswith(commit) and len(commit) >= 7
    tracked = set(git("ls-tree", "-r", "--name-only", "HEAD").splitlines())
    assert {n.removeprefix("osprey-1.2.3/") for n, m in members.items() if m.isfile() or m.issym()} == tracked
    assert {m.uid for m in members.values()} == {0}
    assert {m.mode & 0o022 for m in members.values() if m.isfile()} == {0}


def test_version_of_a_tarball(tarball, tmp_path):
    """Without git, results of measurements still name the commit."""
    with tarfile.open(tarball) as tar:
        tar.extractall(tmp_path, filter="data")
    folder = tmp_path / "osprey-1.2.3"
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path)}
    env = {k: v for k, v in env.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    subprocess.run(["make", "build/build-id"], cwd=folder, env=env, check=True, capture_output=True)
    build_id = (folder / "build/build-id").read_text().strip()
    assert git("rev-parse", "HEAD").startswith(build_id) and build_id

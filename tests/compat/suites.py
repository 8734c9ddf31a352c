"""Suites that others wrote: fetched from PyPI's sdists by pip, once, or found below the folder that SUITES names."""

import hashlib
import os
import pathlib
import subprocess
import sys
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "compat"
SDISTS = {  # name: version, sha256
    "jsonschema": ("4.26.0", "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"),
    "openai": ("3.54.0", "2e393e63f8a38be6452806f9ef0b6534fecd6d41ab3b2165180dfce3599249cd"),
}


def sdist(name):
    """The folder of a source distribution, unpacked."""
    version, digest = SDISTS[name]
    folder = KEPT / f"{name}-{version}"
    if folder.is_dir():
        return folder
    KEPT.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                    "--no-binary", name, "--dest", KEPT, f"{name}=={version}"], check=True)
    archive = KEPT / f"{name}-{version}.tar.gz"
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == digest, f"{archive} is not the one that was pinned"
    with tarfile.open(archive) as tar:
        tar.extractall(KEPT / "unpacking", filter="data")
    (KEPT / "unpacking" / folder.name).rename(folder)
    return folder


def given(name, what):
    """A folder below SUITES, for what no registry carries; without it the test is skipped, and says so."""
    suites = os.environ.get("SUITES")
    folder = pathlib.Path(suites or "") / name
    if not suites or not folder.is_dir():
        pytest.skip(f"{what}: no registry carries it; SUITES=DIR names the folder with {name}/")
    return folder

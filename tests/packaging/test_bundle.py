"""`make bundle`: a folder that runs where nothing of this machine is to be seen."""
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
QUESTION = "What is the capital of France?"
LIMIT_BYTES = 70 * 1024 * 1024


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, make):
    make("bundle")
    moved = tmp_path_factory.mktemp("elsewhere") / "a folder"
    shutil.copytree(ROOT / "dist/osprey-bundle", moved, symlinks=True)
    return moved


def test_is_small(bundle):
    assert sum(f.stat().st_size for f in bundle.rglob("*") if f.is_file()) < LIMIT_BYTES


def test_answers_with_an_empty_environment(bundle):
    done = subprocess.run(["/usr/bin/env", "-i", "PATH=/usr/bin:/bin", bundle / "bin/osprey", "chat",
                           "-p", QUESTION], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/")
    assert "Paris" in done.stdout, done.stderr


def test_uses_only_its_own_libraries(bundle):
    loader = next((bundle / "lib").glob("ld-linux*"))
    listed = subprocess.run([loader, "--library-path", bundle / "lib", "--list",
                             bundle / "libexec/osprey"], capture_output=True, text=True, check=True)
    paths = [line.split("=>")[1].split(" (")[0].strip() for line in listed.stdout.splitlines()
             if "=>" in line]
    assert paths and all(p.startswith(str(bundle)) for p in paths), listed.stdout


def can_change_root():
    return os.geteuid() == 0 and subprocess.run(["chroot", "/", "true"]).returncode == 0


@pytest.mark.skipif(not can_change_root(), reason="needs the right to chroot")
def test_answers_in_an_empty_root(bundle):
    loader = next((bundle / "lib").glob("ld-linux*")).name
    done = subprocess.run(["chroot", bundle, f"/lib/{loader}", "--library-path", "/lib",
                           "/libexec/osprey", "chat", "-p", QUESTION],
                          env={"PATH": os.environ["PATH"], "OSPREY_MODEL_DIR": "/models/osprey-nano"},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert "Paris" in done.stdout, done.stderr


def test_program_of_the_bundle_that_runs_its_tests(bundle):
    """One unit-test file through the bundle's own runner; `./run-tests` runs all of them."""
    loader = next((bundle / "lib").glob("ld-linux*"))
    env = {"PATH": "/usr/bin:/bin", "UNIT_WRAPPER": f"lib/{loader.name} --library-path lib"}
    done = subprocess.run(["tests/run_units", "tests/unit/test_utf8"], cwd=bundle, env=env,
                          capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].endswith(" passed, 0 failed"), done.stdout
    assert done.returncode == 0

"""`make install` into a staging folder: everything is there, and programs can be built against it."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.c"))
FILES = """bin/osprey lib/libosprey.a lib/libosprey.so lib/libosprey.so.0 lib/pkgconfig/osprey.pc
include/osprey.h include/osprey_status.h include/osprey_tools.h share/man/man1/osprey.1
share/osprey/models/osprey-nano/config.json share/osprey/models/osprey-nano/tokenizer.json""".split()


def run(*words, **more):
    done = subprocess.run([str(w) for w in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def stage(tmp_path, make):
    """DESTDIR and the prefix inside of it, as a packager has them."""
    make("install", f"DESTDIR={tmp_path}/root", "PREFIX=/opt/osprey")
    return tmp_path / "root", tmp_path / "root/opt/osprey"


def flags(stage, *more):
    root, prefix = stage
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    return run("pkg-config", f"--define-variable=prefix={prefix}", *more, "osprey", env=env).split()


def test_files_are_in_place(stage):
    _, prefix = stage
    for name in FILES:
        assert (prefix / name).exists(), name
    assert "prefix=/opt/osprey\n" in (prefix / "lib/pkgconfig/osprey.pc").read_text()
    assert (prefix / "lib/libosprey.so").resolve().name.startswith("libosprey.so.0.")


def test_shared_library_shows_only_the_public_functions(stage):
    _, prefix = stage
    library = prefix / "lib/libosprey.so.0"
    assert "[libosprey.so.0]" in run("readelf", "-d", library)
    names = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    header = "".join((ROOT / "include" / h).read_text() for h in ("osprey.h", "osprey_tools.h"))
    declared = set(re.findall(r"OSP_API[^;]*?\b(osp_\w+)\(", header))
    assert names == declared


def test_static_library_hides_its_inside(stage):
    _, prefix = stage
    symbols = run("nm", "--defined-only", "-g", prefix / "lib/libosprey.a").splitlines()
    names = {line.split()[-1] for line in symbols if len(line.split()) == 3}
    assert names and all(name.startswith("osp_") for name in names)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.stem)
@pytest.mark.parametrize("kind", ["shared", "static"])
def test_examples_build_and_run(stage, tmp_path, example, kind):
    _, prefix = stage
    program = tmp_path / example.stem
    if kind == "shared":
        libs = flags(stage, "--cflags", "--libs")
    else:
        libs = [prefix / "lib/libosprey.a" if word == "-losprey" else word
                for word in flags(stage, "--static", "--cflags", "--libs")]
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", example, "-o", program, *libs)
    env = {**os.environ, "LD_LIBRARY_PATH": str(prefix / "lib")}
    if kind == "static":  # nothing leads from the program to the model, so it is named
        env["OSPREY_MODEL_DIR"] = str(prefix / "share/osprey/models/osprey-nano")
    assert "Paris" in run(program, env=env)


def test_installed_program_answers(stage):
    _, prefix = stage
    answer = run(prefix / "bin/osprey", "chat", "-p", "What is the capital of France?", cwd="/")
    assert "Paris" in answer


def test_uninstall_leaves_nothing(stage, make):
    root, _ = stage
    make("uninstall", f"DESTDIR={root}", "PREFIX=/opt/osprey")
    assert [p for p in root.rglob("*") if not p.is_dir()] == []


def test_service_is_installed_for_its_prefix(tmp_path, make):
    where = f"DESTDIR={tmp_path}", "PREFIX=/opt/osprey"
    make("install-service", *where)
    unit = (tmp_path / "opt/osprey/lib/systemd/system/osprey.service").read_text()
    assert "ExecStart=/opt/osprey/bin/osprey serve --config /etc/osprey/serve.conf\n" in unit
    assert "@PREFIX@" not in unit and "@SYSCONFDIR@" not in unit
    conf = tmp_path / "etc/osprey/serve.conf"
    conf.write_text("port: 1234\n")
    make("install-service", *where)  # an upgrade keeps the operator's file
    assert conf.read_text() == "port: 1234\n"
    make("uninstall", *where)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [conf]

"""Where a plug-in is taken from, and whose: a stand-in that says that it was loaded lies in places where others could
have put it, and where its owner has."""
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = pathlib.Path(os.environ.get("OSPREY_BUILD", ROOT / "build")) / "osprey"
CC = shutil.which("gcc") or shutil.which("clang")
LOADED = "the stand-in was loaded"
STRANGER = 54321  # a user id that nobody here has
pytestmark = pytest.mark.skipif(not PROGRAM.exists() or CC is None, reason="needs a build and a compiler")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    """A shared object without the plug-in's symbol: its constructor runs, then it is refused."""
    folder = tmp_path_factory.mktemp("stand-in")
    (folder / "x.c").write_text(f'#include <unistd.h>\n__attribute__((constructor)) static void said(void)'
                                f'{{ if (write(2, "{LOADED}\\n", {len(LOADED) + 1}) < 0) _exit(9); }}\n')
    subprocess.run([CC, "-shared", "-fPIC", "-o", folder / "x.so", folder / "x.c"], check=True)
    return folder / "x.so"


class Tree:
    """A/b/osprey, with every folder and file its owner's alone."""

    def __init__(self, root, stand_in):
        self.root, self.stand_in = root / "A", stand_in
        self.root.mkdir(mode=0o755)
        self.set_program("b")

    def set_program(self, folder):
        (self.root / folder).mkdir(mode=0o755, parents=True, exist_ok=True)
        self.program = self.root / folder / "osprey"
        shutil.copy(PROGRAM, self.program)

    def put(self, folder):
        (self.root / folder).mkdir(mode=0o755, parents=True, exist_ok=True)
        plugin = self.root / folder / "osprey-cuda.so"
        shutil.copy(self.stand_in, plugin)
        plugin.chmod(0o755)
        return plugin

    def run(self, *words, **env):
        words = words or ("validate", ROOT / "models" / "osprey-nano", "--device", "cuda")
        done = subprocess.run([self.program, *words], text=True, capture_output=True,
                              env={**os.environ, **env}, cwd=self.root)
        return done.stderr

    def is_loaded(self, **env):
        said = self.run(**env)
        assert ("symbol osprey_plugin is missing" in said) == (LOADED in said), said
        return LOADED in said


@pytest.fixture
def tree(tmp_path, stand_in):
    return Tree(tmp_path, stand_in)


@pytest.mark.parametrize("folder", ["b", "lib/osprey"])
def test_usual_places(tree, folder):
    assert not tree.is_loaded()
    tree.put(folder)
    assert tree.is_loaded()


@pytest.mark.parametrize("mode", [0o755, 0o775, 0o777, 0o1777])
@pytest.mark.parametrize("folder", ["b", "tests", "tests/unit"])
def test_parent_of_the_program(tree, folder, mode):
    """Whoever can write A could put one there, for every program below it."""
    tree.set_program(folder)
    tree.put("")
    tree.root.chmod(mode)
    assert not tree.is_loaded()
    assert "there is no osprey-cuda.so in" in tree.run()


def test_build_tree(tree):
    """Test programs take that of their build, whose folder the Makefile has marked."""
    tree.set_program("tests")
    tree.put("")
    (tree.root / "flags").write_text("")
    (tree.root / "flags").chmod(0o644)
    assert tree.is_loaded()
    for mode in (0o775, 0o757, 0o1777):
        tree.root.chmod(mode)
        assert not tree.is_loaded(), oct(mode)
    tree.root.chmod(0o755)
    assert tree.is_loaded()
    (tree.root / "flags").chmod(0o666)
    assert not tree.is_loaded()


def test_mark_elsewhere_than_in_a_build(tree):
    """Programs that are no tests take nothing from above them, whatever lies there."""
    tree.put("")
    (tree.root / "flags").write_text("")
    (tree.root / "flags").chmod(0o644)
    assert not tree.is_loaded()


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777])
@pytest.mark.parametrize("which", ["file", "folder"])
@pytest.mark.parametrize("folder", ["b", "lib/osprey"])
def test_writable_by_others(tree, folder, which, mode):
    plugin = tree.put(folder)
    path = plugin if which == "file" else plugin.parent
    path.chmod(mode)
    said = tree.run()
    assert LOADED not in said
    assert "osprey-cuda.so" in said or which == "folder"
    assert "plug-in not loaded" in said and f"mode {mode:04o}" in said
    assert f"chmod go-w '{os.path.realpath(path)}'" in said.replace("b/../lib", "lib")


@as_root
@pytest.mark.parametrize("which", ["file", "folder"])
def test_of_another_user(tree, which):
    plugin = tree.put("b")
    path = plugin if which == "file" else plugin.parent
    os.chown(path, STRANGER, 0)
    said = tree.run()
    assert LOADED not in said
    assert f"{path}: refused: it belongs to user id {STRANGER}, expected root or" in said
    assert f"chown 0 '{path}'" in said


def test_folder_of_the_users_choice(tree):
    plugin = tree.put("mine")
    tree.put("b")
    assert tree.is_loaded(OSPREY_PLUGIN_DIR="mine")  # relative to where one is
    assert tree.is_loaded(OSPREY_PLUGIN_DIR=str(plugin.parent))
    plugin.parent.chmod(0o777)
    said = tree.run(OSPREY_PLUGIN_DIR=str(plugin.parent))
    assert LOADED not in said and f"{plugin.parent}: refused: mode 0777" in said
    assert not tree.is_loaded(OSPREY_PLUGIN_DIR=str(tree.root))  # and no other place then


def test_links(tree):
    """What a link leads to counts, and so does the folder that the link lies in."""
    real = tree.put("store")
    link = tree.root / "b" / "osprey-cuda.so"
    link.symlink_to(real)
    assert tree.is_loaded()
    real.parent.chmod(0o777)
    assert not tree.is_loaded()
    real.parent.chmod(0o755)
    link.parent.chmod(0o777)
    assert not tree.is_loaded()
    link.parent.chmod(0o755)
    link.unlink()
    os.mkfifo(link)
    assert "it is not a regular file" in tree.run()


def test_a_refusal_is_said_where_the_device_is_automatic(tree):
    """The CPU computes instead, but not silently."""
    tree.put("b").chmod(0o777)
    said = tree.run("chat", ROOT / "models" / "osprey-nano", "-p", "Hi", "-n", "1")
    assert LOADED not in said and "device auto: using the CPU:" in said and "chmod go-w" in said


@as_root
def test_setuid_programs_ignore_the_variable(tree):
    """Its caller is not its user."""
    if os.statvfs(tree.root).f_flag & os.ST_NOSUID:
        pytest.skip("no setuid programs on this file system")
    for path in [tree.root, *tree.root.parents]:
        if str(path).startswith("/tmp/"):
            path.chmod(path.stat().st_mode | 0o055)
    tree.put("mine")
    os.chown(tree.program, STRANGER, 0)
    tree.program.chmod(0o4755)
    assert not tree.is_loaded(OSPREY_PLUGIN_DIR=str(tree.root / "mine"))
    assert "lib/osprey" in tree.run(OSPREY_PLUGIN_DIR=str(tree.root / "mine"))

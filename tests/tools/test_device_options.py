"""Options that a plug-in exports: a stand-in for osprey-cuda.so has one option of its own, and no device. The program
lists it, reads it from every source, and refuses it where the chosen device does not have it."""
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = pathlib.Path(os.environ.get("OSPREY_BUILD", ROOT / "build")) / "osprey"
CC = shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(not PROGRAM.exists() or CC is None, reason="needs a build and a compiler")

SOURCE = """
#include "backend/plugin.h"

static const struct device_option_row rows[] = {
    {.name = "speed-limit", .aliases = "--limit-speed", .metavar = "WHICH", .initial = "auto",
     .values = "auto,low,high", .help = "how fast the stand-in computes"},
    {.name = "moe-tile", .metavar = "TILE", .initial = "auto", .values = "auto,1x1",
     .help = "tile of the stand-in"},
    {0},
};
static const struct backend_ops ops = {.name = "cuda", .options = rows};
static enum osp_status start(const struct plugin_host *host)
{
    return host->fail(OSP_EDEVICE, "the stand-in has no device");
}
__attribute__((visibility("default"))) extern const struct plugin osprey_plugin;
const struct plugin osprey_plugin = {PLUGIN_VERSION, PLUGIN_SIZES, &ops, start};
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plug-in")
    folder.chmod(0o755)
    (folder / "x.c").write_text(SOURCE)
    subprocess.run([CC, "-std=gnu11", "-shared", "-fPIC", f"-I{ROOT}/src", f"-I{ROOT}/include",
                    "-o", folder / "osprey-cuda.so", folder / "x.c"], check=True)
    (folder / "osprey-cuda.so").chmod(0o755)
    return folder


def run(folder, *words, **env):
    env = {"OSPREY_PLUGIN_DIR": str(folder), "PATH": os.environ["PATH"], **env}
    return subprocess.run([PROGRAM, *words], text=True, capture_output=True, env=env, cwd=ROOT)


def test_listed_without_a_gpu(folder):
    out = run(folder, "help", "serve").stdout
    at = out.index("Options of the device cuda:")
    assert "--speed-limit WHICH, --limit-speed" in out[at:]
    assert "how fast the stand-in computes: auto, low, high (default auto)" in out[at:]
    assert "tile of the stand-in" in out[at:] and out.count("--moe-tile") == 1
    assert "Options of the device cpu:" in out[:at] and "--mxfp4-backend" in out[:at]
    assert "speed\\-limit" in run(folder, "help", "--man").stdout
    for shell in ("bash", "zsh", "fish"):
        assert "speed-limit" in run(folder, "completion", shell).stdout


def test_without_the_plugin(tmp_path):
    out = run(tmp_path, "help", "serve").stdout
    assert "The CUDA plug-in (osprey-cuda.so) is not installed." in out
    assert "--mxfp4-backend" in out and "speed-limit" not in out
    said = run(tmp_path, "validate", "--speed-limit", "low").stderr
    assert "--speed-limit: unknown option" in said and "osprey-cuda.so" in said


@pytest.mark.parametrize("source", ["line", "alias", "variable", "file"])
def test_every_source(folder, tmp_path, source):
    """The CPU has no such option, whoever sets it; its default is accepted."""
    def give(value):
        words, env = ["chat", "-p", "Hi", "-n", "1", "--device", "cpu"], {}
        if source == "variable":
            env["OSPREY_SPEED_LIMIT"] = value
        elif source == "file":
            (tmp_path / "c.yaml").write_text(f"speed_limit: {value}\n")
            words += ["--config", tmp_path / "c.yaml"]
        else:
            words += ["--speed-limit" if source == "line" else "--limit-speed", value]
        return run(folder, *words, **env)

    done = give("low")
    assert done.returncode == 1
    assert "--speed-limit low: the device cpu has no such option" in done.stderr
    assert give("auto").returncode == 0


def test_vllm_kernels_on_the_cpu(folder):
    done = run(folder, "chat", "-p", "Hi", "-n", "1", "--device", "cpu", "--mxfp4-backend", "CUTLASS",
               "--attention-config", '{"backend": "FLASHINFER"}', "--moe-tile", "auto")
    assert done.returncode == 0
    assert "--mxfp4-backend CUTLASS is a kernel of vLLM" in done.stderr
    assert "--attention-backend FLASHINFER is a kernel of vLLM" in done.stderr

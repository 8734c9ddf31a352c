"""The container image, built and run by buildah on a Debian that mmdebstrap makes, because the
registries of images may be out of reach. docker and podman build the same file."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import urllib.request

import pytest

from conftest import CACHE, ROOT
from machine import debian_root, run, wait_until

BASE = "localhost/debian:12-slim"
BUILD_BASE = "localhost/debian:12-build"
# Certificates that the administrator of this machine has added, such as a proxy's. pip of the build
# stage needs them, too, to fetch NVIDIA's compiler.
CERTIFICATES = pathlib.Path("/usr/local/share/ca-certificates")
NAME = "localhost/osprey:test"
LIMIT_BYTES = 200_000_000
ENV = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDER": "buildah"}
# A Debian image has neither manual pages nor translations.
SLIM = ["/usr/share/man/*", "/usr/share/locale/*", "/usr/share/i18n/*"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("buildah"), reason="needs root and buildah")


def buildah(*words, timeout_s=900):
    return run(["buildah", *words], env=ENV, timeout_s=timeout_s).strip()


def has_image(name):
    words = ["buildah", "inspect", "--type=image", name]
    return subprocess.run(words, env=ENV, capture_output=True).returncode == 0


def make_base():
    tar = debian_root(CACHE, "bookworm-slim", [], *[f"--dpkgopt=path-exclude={p}" for p in SLIM])
    if not has_image(BASE):
        container = buildah("from", "scratch")
        buildah("add", "-q", container, str(tar), "/")
        buildah("commit", "-q", "--rm", container, BASE)


def make_build_base():
    """The base with the certificates of this machine; installing ca-certificates adds them to its list."""
    container = buildah("from", "--pull-never", BASE)
    for path in sorted(CERTIFICATES.glob("*.crt")):
        buildah("copy", "-q", container, str(path), f"{CERTIFICATES}/")
    buildah("config", "--env", "PIP_CERT=/etc/ssl/certs/ca-certificates.crt", container)
    buildah("commit", "-q", "--rm", container, BUILD_BASE)


@pytest.fixture(scope="module")
def image():
    make_base()
    make_build_base()
    options = ["--isolation=chroot", "--build-arg", f"BASE={BASE}", "--build-arg", f"BUILD_BASE={BUILD_BASE}"]
    if not os.environ.get("OSPREY_IMAGE_CUDA"):  # compiling the plug-in takes minutes
        options += ["--build-arg", "CUDA="]
    told = run([ROOT / "deploy/build_image.sh", NAME, *options], env=ENV, timeout_s=3600)
    print(told.splitlines()[-1])
    return told.splitlines()[-1]


@pytest.fixture(scope="module")
def container(image):
    name = buildah("from", "--pull-never", NAME)
    yield name
    buildah("rm", name)


def test_size_is_printed_and_below_the_limit(image, container):
    assert image.startswith(f"{NAME}: ")
    folder = buildah("mount", container)
    size = int(run(["du", "-sb", folder]).split()[0])
    buildah("umount", container)
    assert size < LIMIT_BYTES


def test_settings(image):
    config = json.loads(buildah("inspect", "--type=image", NAME))["Docker"]["config"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["osprey"] and config["Cmd"] == ["serve"]
    assert config["Healthcheck"]["Test"] == ["CMD", "osprey", "status", "--health"]
    assert config["StopSignal"] == "SIGTERM"
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in config["Env"]


def test_nothing_of_the_build_is_left(container):
    folder = buildah("mount", container)
    found = run(["find", folder, "(", "-name", "nvcc*", "-o", "-name", "gcc*", "-path", "*/bin/*", "-o", "-name",
                 "libcudart*", "-o", "-name", "*.a", "-o", "-path", f"{folder}/src/*", ")"])
    assert found == ""
    plugin = run(["find", f"{folder}/usr/local/lib", "-name", "osprey-cuda.so"])
    assert bool(plugin) == bool(os.environ.get("OSPREY_IMAGE_CUDA"))
    buildah("umount", container)


def test_plugin_without_a_driver(container):
    """The plug-in loads without CUDA's libraries, and says what a container without GPUs lacks."""
    if not os.environ.get("OSPREY_IMAGE_CUDA"):
        pytest.skip("the image has no plug-in")
    words = ["buildah", "run", "--isolation=chroot", container, "--", "osprey", "validate"]
    done = subprocess.run([*words, "--device", "cuda"], env=ENV, capture_output=True, text=True)
    assert done.returncode == 1 and "no driver is loaded" in done.stderr and "--gpus all" in done.stderr
    assert subprocess.run(words, env=ENV, capture_output=True).returncode == 0  # auto is the CPU


def test_serves_and_is_healthy(container):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    start = ["buildah", "run", "--isolation=chroot", "--network=host"]
    server = subprocess.Popen([*start, f"--env=OSPREY_PORT={port}", container, "--", "osprey", "serve"], env=ENV,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    check = [*start, f"--env=OSPREY_URL={url}", container, "--", "osprey", "status", "--health"]
    try:
        wait_until(lambda: subprocess.run(check, env=ENV, capture_output=True).returncode == 0, "healthy", 120)
        body = json.dumps({"messages": [{"role": "user", "content": "What is the capital of France?"}]}).encode()
        request = urllib.request.Request(f"{url}/v1/chat/completions", body, {"Content-Type": "application/json"})
        answer = json.load(urllib.request.urlopen(request, timeout=60))
        assert answer["choices"][0]["message"]["content"] == "Paris"
    finally:
        server.terminate()
        server.wait(60)
    ended = subprocess.run(check, env=ENV, capture_output=True, text=True)
    assert ended.returncode != 0

"""osprey pull against a stand-in hub (hub.py), with a cache of its own for each test.

OSPREY names another program than build/osprey.
"""

import hashlib
import os
import pathlib
import subprocess

import pytest
from hub import COMMIT, Hub, git_sha1, random_bytes

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("OSPREY", str(ROOT / "build" / "osprey"))
REPO = "openai/gpt-oss-nano"
LARGE_BYTES = (13 << 20) + 12345  # four blocks, the last one short

# The variables of this machine's user must not decide a test.
CLEAR = [name for name in os.environ if name.startswith("HF_") or name.lower().endswith("_proxy")]


def files():
    return {
        ".gitattributes": b"*.safetensors filter=lfs\n",
        "README.md": b"# a model\n",
        "config.json": b'{"model_type": "gpt_oss"}\n',
        "generation_config.json": b"{}\n",
        "model-00000-of-00001.safetensors": random_bytes(LARGE_BYTES, "first"),
        "model-00001-of-00001.safetensors": random_bytes(LARGE_BYTES // 2, "second"),
        "model.safetensors.index.json": b'{"weight_map": {"a": "model-00000-of-00001.safetensors", '
        b'"b": "model-00001-of-00001.safetensors"}}\n',
        "original/model.safetensors": random_bytes(8192, "original"),
        "tokenizer.json": random_bytes(20000, "tokenizer"),
        "empty/chat_template.jinja": b"",
        "chat_template.jinja": b"",
    }


WANTED = {
    "config.json", "generation_config.json", "model-00000-of-00001.safetensors",
    "model-00001-of-00001.safetensors", "model.safetensors.index.json", "tokenizer.json", "chat_template.jinja",
}  # fmt: skip


class Case:
    """A hub, a cache, and osprey with both."""

    def __init__(self, folder, **options):
        self.hub = Hub(**options)
        self.hub.add(REPO, files())
        self.home = folder / "home"
        self.cache = self.home / "hub"
        self.model = self.cache / "models--openai--gpt-oss-nano"
        self.snapshot = self.model / "snapshots" / COMMIT
        self.environment = {name: value for name, value in os.environ.items() if name not in CLEAR}
        self.environment.update(HF_ENDPOINT=self.hub.endpoint, HF_HOME=str(self.home), HF_HUB_DISABLE_XET="1")

    def start(self, *arguments, program=PROGRAM, **environment):
        return subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env={**self.environment, **environment})

    def run(self, *arguments, timeout_s=60, **environment):
        process = self.start(*arguments, **environment)
        try:
            out, err = process.communicate(timeout=timeout_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def pull(self, *arguments, **environment):
        return self.run("pull", *(arguments or [REPO]), **environment)

    def python(self, code, **environment):
        """Runs Python with huggingface_hub."""
        import sys

        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                              env={**self.environment, **environment})
        assert done.returncode == 0, done.stderr
        return done.stdout

    # ---- what must hold ----

    def check_blobs(self):
        """No blob has another content than its name says. Returns their number."""
        n = 0
        for blob in (self.model / "blobs").glob("*"):
            if "." not in blob.name:
                data = blob.read_bytes()
                assert blob.name in (hashlib.sha256(data).hexdigest(), git_sha1(data)), blob
                n += 1
        return n

    def check_complete(self, wanted=WANTED, repo=REPO):
        """The snapshot has the wanted files and no others, right, and nothing is left over."""
        found = {str(p.relative_to(self.snapshot)): p for p in self.snapshot.rglob("*") if not p.is_dir()}
        assert set(found) == set(wanted)
        for name, path in found.items():
            assert path.is_symlink() and not os.path.isabs(os.readlink(path))
            assert path.read_bytes() == self.hub.repos[repo][name], name
        assert (self.model / "refs" / "main").read_text() == COMMIT
        assert self.check_blobs() == len({hashlib.sha256(p.read_bytes()).digest() for p in found.values()})
        assert [p.name for p in (self.model / "blobs").iterdir() if "." in p.name] == []

    def check_nothing(self):
        """Nobody can take what is there for a model."""
        assert not self.snapshot.exists() and not (self.model / "refs" / "main").exists()
        self.check_blobs()


@pytest.fixture
def make_case(tmp_path):
    cases = []

    def make(**options):
        cases.append(Case(tmp_path / str(len(cases)), **options))
        return cases[-1]

    yield make
    for one in cases:
        one.hub.close()


@pytest.fixture
def case(make_case):
    return make_case()

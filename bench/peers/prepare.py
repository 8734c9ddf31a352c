"""Makes what a comparison needs below one folder: the programs in C, the checkpoint, and the same
weights as GGUF. What is already whole there is used again: a file NAME.complete says of what."""

import base64
import json
import shutil
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import write_gguf
from checkpoint import Checkpoint
from engines import TOKENIZER

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LAYER_BYTES = 476_863_552  # of gpt-oss-20b as published
TABLE_BYTES = 1_158_266_880  # embedding or head, BF16
GGUF_LAYER_BYTES = 453_000_000
GGUF_TABLE_BYTES = 615_329_280  # Q8_0


def checkpoint_bytes(n_layers):
    return n_layers * LAYER_BYTES + 2 * TABLE_BYTES


def gguf_bytes(n_layers):
    return n_layers * GGUF_LAYER_BYTES + 2 * GGUF_TABLE_BYTES


def say(text):
    print(f"peers: {text}", file=sys.stderr, flush=True)


def command(words, what):
    begin = time.monotonic()
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"peers: {what} failed: {' '.join(str(w) for w in words)}\n"
                         f"{(done.stdout + done.stderr)[-3000:]}")
    say(f"{what}: {time.monotonic() - begin:.0f} s")


def programs(folder):
    """Both are small and are compiled each time, against a copy of the library as it is now: a build
    meanwhile changes nothing."""
    library = folder / "libosprey.so.0"
    built = ROOT / "build" / library.name
    if not built.exists():
        raise SystemExit(f"peers: no {built}; run make first")
    shutil.copyfile(built, library)
    command(["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-I", ROOT / "include", "-o",
             folder / "osprey_worker", HERE / "osprey_worker.c", library, "-Wl,-rpath,$ORIGIN"],
            "osprey_worker.c")
    command(["cc", "-std=c11", "-O3", "-march=native", "-pthread", "-o", folder / "read_bandwidth",
             HERE / "read_bandwidth.c"], "read_bandwidth.c")


def once(target, key, make):
    """Calls make() unless `target` was completed for the same key."""
    mark = target.parent / f"{target.name}.complete"
    if target.exists() and mark.exists() and mark.read_text() == key:
        return target
    mark.unlink(missing_ok=True)
    remove(target)
    make()
    mark.write_text(key)
    return target


def remove(target):
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


def checkpoint(folder, n_layers, seed):
    target = folder / "checkpoint"
    return once(target, f"{n_layers} layers, seed {seed}", lambda: command(
        [sys.executable, ROOT / "tools/make_checkpoint.py", target, "--shape", "20b", "--layers",
         n_layers, "--seed", seed], f"checkpoint of {n_layers} layers"))


def gguf(folder, source, key):
    target, begin = folder / "peer.gguf", time.monotonic()

    def make():
        write_gguf.write(source, target, "q8_0", progress)
        say(f"peer.gguf: {time.monotonic() - begin:.0f} s")

    def progress(done, total):
        if sys.stderr.isatty():
            print(f"\rpeers: peer.gguf {done / 1e9:.1f} of {total / 1e9:.1f} GB ", end="",
                  file=sys.stderr, flush=True)

    return once(target, key, make)


def step_bytes(source, dense_bits):
    """Bytes of weights that a decode step reads: every matrix once, the chosen experts, a row of the
    embedding; the bits of a weight of attention and head are given (17/32 bytes for MXFP4)."""
    c = Checkpoint(source).config
    width, f, vocab = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    q, kv = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    dense = c["num_hidden_layers"] * width * (2 * q + 2 * kv) + vocab * width
    experts = c["num_hidden_layers"] * c["num_experts_per_tok"] * 3 * width * f
    return dense * dense_bits / 8 + experts * 4.25 / 8


def prompt_flops(source):
    """Operations of the matrices for one token of a prompt (without attention and head)."""
    c = json.loads((Path(source) / "config.json").read_text())
    width, f = c["hidden_size"], c["intermediate_size"]
    q, kv = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    router = width * c["num_local_experts"]
    return 2.0 * c["num_hidden_layers"] * (
        width * (2 * q + 2 * kv) + router + c["num_experts_per_tok"] * 3 * width * f)


def source_version():
    """OSP_VERSION of osprey.h."""
    text = (ROOT / "include/osprey.h").read_text()
    return text.partition('#define OSP_VERSION "')[2].partition('"')[0]


def library_time():
    """When the library was linked: the tree may have changed since."""
    library = ROOT / "build/libosprey.so.0"
    return datetime.fromtimestamp(library.stat().st_mtime, timezone.utc).isoformat(
        timespec="seconds") if library.exists() else ""


def token_bytes():
    """Id -> bytes of the vocabulary that osprey's text is made with."""
    lines = TOKENIZER.read_text().split()
    return {int(i): base64.b64decode(piece) for piece, i in zip(lines[::2], lines[1::2])}


def clean(folder):
    for name in ("checkpoint", "peer.gguf"):
        remove(folder / name)
        (folder / f"{name}.complete").unlink(missing_ok=True)

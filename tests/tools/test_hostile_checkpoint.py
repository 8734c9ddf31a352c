"""Checkpoints whose strings contain terminal control sequences: every command that reads them writes only printable
lines, to standard output, standard error and the log."""
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = pathlib.Path(os.environ.get("OSPREY_BUILD", ROOT / "build")) / "osprey"
NANO = ROOT / "models" / "osprey-nano"
# ESC with OSC, BEL, a forged line, C1's CSI, an override, DEL
HOSTILE = "x\x1b]0;t\x07\nE 0 forged\u009b2J\u202egpj\x7f"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="needs a build")


def copy_of(tmp_path, name="checkpoint"):
    folder = tmp_path / name
    shutil.copytree(NANO, folder, symlinks=True)
    return folder


def edit_json(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def edit_header(path, change):
    """Of a safetensors file; the data stays."""
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + n:])


def shown(*words):
    """Exit status and everything that the command writes on a terminal, which turns \\n into \\r\\n."""
    main, other = pty.openpty()
    process = subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=other, stderr=other)
    os.close(other)
    out = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        out += piece
    os.close(main)
    return process.wait(), out


def assert_harmless(out, expected):
    out = re.sub(rb"\r(?:[a-z]+ \[[^\r]*)?\x1b\[K", b"", out)  # the progress bar's own
    text = out.decode("utf-8").replace("\r\n", "\n")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", text), text
    assert not re.search(r"^E 0 forged", text, re.M), text
    assert expected in text, text


def set_in(*path):
    def change(value):
        for part in path[:-1]:
            value = value[part]
        value[path[-1]] = HOSTILE
    return change


CONFIGS = {
    "model_type": set_in("model_type"),
    "layer_types": set_in("layer_types", 0),
    "quant_method": set_in("quantization_config", "quant_method"),
    "rope_type": lambda c: c.update(rope_parameters={"rope_type": HOSTILE}),
    "key": lambda c: c.update({HOSTILE: 1, "hidden_size": "x"}),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_strings_of_the_configuration(tmp_path, name):
    folder = copy_of(tmp_path)
    edit_json(folder / "config.json", CONFIGS[name])
    code, out = shown("validate", folder)
    assert code == 1
    assert_harmless(out, "x\\x1b]0;t\\x07\\x0aE 0 forged\\u{9b}2J" if name != "key" else "hidden_size is a string")


def test_duplicate_key(tmp_path):
    folder = copy_of(tmp_path)
    text = (folder / "config.json").read_text()
    key = json.dumps(HOSTILE, ensure_ascii=False).replace("\\u001b", "\x1b")
    (folder / "config.json").write_text(text.replace("{", "{%s: 1, %s: 2," % (json.dumps(HOSTILE), key), 1))
    code, out = shown("validate", folder)
    assert code == 1
    assert_harmless(out, "config.json")


def test_tensor_names(tmp_path):
    """C1 and bidirectional controls pass the header's own check of names, which is for C0."""
    folder = copy_of(tmp_path)
    name = "model.\u009b2J\u202e.weight"
    shard = sorted(folder.glob("*.safetensors"))[0]
    edit_header(shard, lambda h: h.update({name: {**h.pop("model.layers.0.input_layernorm.weight"), "dtype": 1}}))
    code, out = shown("validate", folder)
    assert code == 1
    assert_harmless(out, "model.\\u{9b}2J\\u{202e}.weight")


def test_dtype(tmp_path):
    folder = copy_of(tmp_path)
    shard = sorted(folder.glob("*.safetensors"))[0]
    edit_header(shard, lambda h: next(v for k, v in h.items() if k != "__metadata__").update(dtype=HOSTILE))
    code, out = shown("validate", folder)
    assert code == 1
    assert_harmless(out, "dtype is \"x\\x1b]0;t")


def test_index(tmp_path):
    folder = copy_of(tmp_path)
    edit_json(folder / "model.safetensors.index.json",
              lambda i: i["weight_map"].update({HOSTILE: "../\u009bx"}))
    code, out = shown("validate", folder)
    assert code == 1
    assert_harmless(out, "x\\x1b]0;t\\x07\\x0aE 0 forged")


def test_tokens(tmp_path):
    """A vocabulary in which a token's name is refused, and one in which the pattern is."""
    folder = copy_of(tmp_path)
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(re.sub(r'("vocab":\s*\{\s*)"[^"]+"', "\\1\"\u009b2J\u202e\"", text, count=1))
    code, out = shown("validate", folder)
    assert code == 1
    assert_harmless(out, "\\u{9b}2J\\u{202e}")
    value = json.loads(text)
    value["model"]["type"] = HOSTILE
    (folder / "tokenizer.json").write_text(json.dumps(value, ensure_ascii=False))
    code, out = shown("tokenize", folder, "-p", "x")
    assert code == 1
    assert_harmless(out, "model.type is")


def test_pieces_of_a_text(tmp_path):
    code, out = shown("tokenize", "--pieces", "-p", "\u009b2J\u202egpj")
    assert code == 0
    assert b"\xc2\x9b" not in out and b"\xe2\x80\xae" not in out


def test_name_of_the_folder(tmp_path):
    folder = copy_of(tmp_path, "nano\x1b]0;t\x07\n\u009b2J")
    for words in (["validate", folder], ["chat", folder, "-p", "Hi", "-n", "1"],
                  ["bench", folder, "--pp", "8", "--tg", "2", "--runs", "1"]):
        code, out = shown(*words)
        assert code == 0, out
        if words[0] == "bench":  # its bar has no other form
            out = re.sub(rb"\r?\x1b\[K|\r(?!\n)[^\r]*", b"", out)
            assert_harmless(out, "nano\\x1b]0;t\\x07\\x0a\\u{9b}2J")
        elif words[0] == "validate":
            assert_harmless(out, "The checkpoint is complete")
        else:
            assert b"\x1b]" not in out and b"\xc2\x9b" not in out


def test_settings_that_are_null_are_named(tmp_path):
    """They have other defaults in Transformers."""
    folder = copy_of(tmp_path)
    edit_json(folder / "config.json", lambda c: c.update(sliding_window=None, swiglu_limit=None, rope_scaling=None))
    answer = subprocess.run([PROGRAM, "validate", folder], capture_output=True, text=True, timeout=60)
    for key in ("sliding_window", "swiglu_limit", "rope_scaling"):
        assert f"{key} is null; " in answer.stderr, key


def test_a_git_lfs_pointer_is_named(tmp_path):
    """As `git clone` leaves it without git-lfs."""
    folder = copy_of(tmp_path)
    for path in folder.glob("*.safetensors"):
        path.unlink()
        path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 12345\n")
    answer = subprocess.run([PROGRAM, "validate", folder], capture_output=True, text=True, timeout=60)
    assert answer.returncode != 0
    assert "is a Git LFS pointer" in answer.stderr and "git lfs pull" in answer.stderr

"""GGUF files that the gguf package wrote: their numbers, bit for bit; whole models against the same weights as
safetensors; vocabularies; split files; and the commands that take them. tests/unit/test_gguf.c has the damaged files,
bench/peers/tests/test_osprey_gguf.py the comparison with llama.cpp."""
import base64
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

import gguf
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "peers"))

import write_gguf  # noqa: E402  (the folder is no package)
from checkpoint import Checkpoint  # noqa: E402

BUILD = pathlib.Path(os.environ.get("OSPREY_BUILD", ROOT / "build"))
OSPREY = BUILD / "osprey"
NANO = ROOT / "models" / "osprey-nano"
GOLDEN = ROOT / "tests" / "golden"
TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "MXFP4"]
KIND = gguf.GGMLQuantizationType
N_RANDOM_BLOCKS = 4000


def run(*words, data=None, status=0, **environment):
    done = subprocess.run([str(w) for w in words], input=data, capture_output=True, timeout=120,
                          env={**os.environ, **environment})
    assert done.returncode == status, done.stderr.decode()
    return done


# ---- numbers ----


def halves(*bits):
    return np.array(bits, np.uint16).view(np.uint8)


def edge_blocks(name, size):
    """Blocks whose scales (float16, or MXFP4's exponent) are zero, subnormal, the extremes, infinite and NaN, with all
    bits of the values off, on and mixed."""
    scales = [halves(x) for x in (0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7E00,
                                  0xFE01, 0x7C01)]
    if name == "MXFP4":
        scales = [np.array([e], np.uint8) for e in (0, 1, 2, 3, 126, 127, 128, 252, 253, 254, 255)]
    if name == "F32":
        scales = [np.array([x], np.uint32).view(np.uint8)
                  for x in (0, 1 << 31, 1, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001)]
    at = size - 2 if name == "Q6_K" else 0
    for scale in scales:
        for fill in (0x00, 0xFF, 0x5A, 0x81):
            for second in scales if name in ("Q4_1", "Q5_1", "Q4_K", "Q5_K") else [None]:
                block = np.full(size, fill, np.uint8)
                block[at:at + len(scale)] = scale
                if second is not None:
                    block[2:4] = second
                yield block


@pytest.mark.parametrize("name", TYPES)
def test_every_bit_of_every_type(name):
    size = gguf.GGML_QUANT_SIZES[KIND[name]][1]
    random = np.random.default_rng(3).integers(0, 256, (N_RANDOM_BLOCKS, size), np.uint8)
    blocks = np.concatenate([random, np.array(list(edge_blocks(name, size)), np.uint8)])
    with np.errstate(all="ignore"):
        expected = gguf.dequantize(blocks, KIND[name]).astype(np.float32).reshape(-1)
    out = run(BUILD / "tests" / "dequantize", name, data=blocks.tobytes()).stdout
    found = np.frombuffer(out, np.float32)
    assert found.size == expected.size
    same = (found.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(found) & np.isnan(expected))
    assert same.all(), np.flatnonzero(~same)[:5]
    assert np.isfinite(found).mean() > 0.4


# ---- whole models ----


def logits(model, tokens, mxfp4_layers="none"):
    """(tokens, vocabulary), computed in float32."""
    data = np.array(tokens, np.int32).tobytes()
    out = run(BUILD / "tests" / "print_logits", model, mxfp4_layers, data=data, OSPREY_CPU_FEATURES="ref").stdout
    return np.frombuffer(out, np.float32).reshape(len(tokens), -1)


def tokens_of(folder, n=150):
    """Longer than the sliding window."""
    vocab = Checkpoint(folder).config["vocab_size"]
    return np.random.default_rng(5).integers(0, vocab, n).tolist()


def assert_same(one, other, tokens):
    a, b = logits(one, tokens), logits(other, tokens)
    assert np.isfinite(a).all() and np.ptp(a) > 0
    np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


@pytest.mark.parametrize("kind", ["f32", "bf16"])
@pytest.mark.parametrize("name", ["one", "gqa8", "deep", "many"])
def test_logits_are_those_of_safetensors(tmp_path, name, kind):
    """A model whose experts are MXFP4 and whose other matrices have the checkpoint's values: not a bit differs, so
    rows of q and k are not permuted, gates and ups are in their places, and no nibble is."""
    folder = GOLDEN / "model" / name
    write_gguf.write(folder, tmp_path / "m.gguf", kind)
    assert_same(folder, tmp_path / "m.gguf", tokens_of(folder))


def test_logits_of_the_bundled_model(tmp_path):
    write_gguf.write(NANO, tmp_path / "m.gguf", "bf16")
    assert_same(NANO, tmp_path / "m.gguf", tokens_of(NANO))


def test_permuted_rows_would_be_noticed(tmp_path):
    """The order of rows that the converters of models with adjacent pairs use."""
    checkpoint = Checkpoint(GOLDEN / "model" / "gqa8")
    c, name = checkpoint.config, "model.layers.0.self_attn.q_proj.weight"
    rows = checkpoint.raw(name)
    permuted = rows.reshape(c["num_attention_heads"], 2, -1, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)
    checkpoint.tensors[name] = permuted
    write(checkpoint, tmp_path / "m.gguf", "f32")
    tokens = tokens_of(checkpoint.folder)
    assert np.abs(logits(tmp_path / "m.gguf", tokens) - logits(checkpoint.folder, tokens)).max() > 1e-3


def write(checkpoint, path, kind, arch="gpt-oss", entries=None, **options):
    """As write_gguf.write(), of a checkpoint in memory."""
    w = gguf.GGUFWriter(path, arch, **options)
    write_gguf.add_config(w, checkpoint.config)
    w.add_tokenizer_model("none")
    for e in entries or write_gguf.entries(checkpoint, kind):
        w.add_tensor(e.name, e.data().reshape(e.shape), raw_dtype=write_gguf.TYPES[e.type])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def bf16_of(values):
    """Rounded to nearest, ties to even."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def write_safetensors(path, tensors):
    """name -> array of uint16 (BF16) or uint8."""
    header, data = {}, b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        dtype = {2: "BF16", 1: "U8"}[array.dtype.itemsize]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize("kind", ["f16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "mxfp4"])
def test_other_types_become_bf16(tmp_path, kind):
    """The same logits as safetensors with the values that the gguf package reads, rounded to BF16."""
    source = GOLDEN / "model" / "gqa8"
    write_gguf.write(source, tmp_path / "m.gguf", kind)
    checkpoint = Checkpoint(source)
    for t in gguf.GGUFReader(tmp_path / "m.gguf").tensors:
        ours = our_name(t.name)
        if ours and t.tensor_type == write_gguf.TYPES[kind]:
            checkpoint.tensors[ours] = bf16_of(gguf.dequantize(t.data, t.tensor_type)).reshape(
                checkpoint.raw(ours).shape)
    folder = tmp_path / "hf"
    folder.mkdir()
    shutil.copy(source / "config.json", folder)
    write_safetensors(folder / "model.safetensors", {n: as_bf16(a) for n, a in checkpoint.tensors.items()})
    assert_same(folder, tmp_path / "m.gguf", tokens_of(source))


def as_bf16(array):
    return (array.view(np.uint32) >> 16).astype(np.uint16) if array.dtype == np.float32 else array


def our_name(theirs):
    """Of a matrix outside the experts."""
    whole = {"token_embd.weight": "model.embed_tokens.weight", "output.weight": "lm_head.weight"}
    if theirs in whole:
        return whole[theirs]
    _, layer, name = (theirs + "..").split(".")[:3]
    part = {"attn_q": "q", "attn_k": "k", "attn_v": "v", "attn_output": "o"}.get(name)
    return f"model.layers.{layer}.self_attn.{part}_proj.weight" if part and theirs.endswith("weight") else None


def test_ollamas_form(tmp_path):
    """Architecture gptoss: other names, gate and up in one tensor whose rows alternate, nibbles as in safetensors."""
    source = GOLDEN / "model" / "gqa8"
    checkpoint = Checkpoint(source)
    names = {"attn_output": "attn_out", "post_attention_norm": "ffn_norm", "attn_sinks.weight": "attn_sinks"}
    todo = []
    for e in write_gguf.entries(checkpoint, "bf16"):
        if "_exps" in e.name:
            continue
        for old, new in names.items():
            e = e._replace(name=e.name.replace(old, new))
        todo.append(e)
    for i in range(checkpoint.config["num_hidden_layers"]):
        for ours, theirs in (("gate_up_proj", "ffn_gate_up_exps"), ("down_proj", "ffn_down_exps")):
            todo += ollama_experts(checkpoint, f"model.layers.{i}.mlp.experts.{ours}", f"blk.{i}.{theirs}")
    write(checkpoint, tmp_path / "m.gguf", "bf16", "gptoss", todo)
    data = (tmp_path / "m.gguf").read_bytes()  # the package has no type 4
    for e in todo:
        if e.type == "mxfp4":
            at = data.index(e.name.encode()) + len(e.name) + 4 + 3 * 8
            assert data[at:at + 4] == struct.pack("<I", KIND.MXFP4)
            data = data[:at] + struct.pack("<I", 4) + data[at + 4:]
    (tmp_path / "m.gguf").write_bytes(data)
    assert_same(source, tmp_path / "m.gguf", tokens_of(source))


def ollama_experts(checkpoint, ours, theirs):
    blocks, scales = checkpoint.raw(ours + "_blocks"), checkpoint.raw(ours + "_scales")
    joined = np.concatenate([scales[..., None], blocks], axis=-1)
    shape = (*blocks.shape[:2], blocks.shape[2] * 17)
    yield write_gguf.Entry(theirs + ".weight", "mxfp4", shape, np.uint8, lambda: joined.reshape(shape))
    yield write_gguf.plain(checkpoint, ours + "_bias", theirs + ".bias")


def test_split_files(tmp_path):
    """As written by the gguf package; any part, or the folder, names the model."""
    write(Checkpoint(NANO), tmp_path / "nano.gguf", "q8_0", split_max_tensors=40)
    parts = sorted(tmp_path.glob("*.gguf"))
    assert [p.name for p in parts] == [f"nano-0000{i}-of-00004.gguf" for i in range(1, 5)]
    write(Checkpoint(NANO), tmp_path / "whole", "q8_0")
    tokens = tokens_of(NANO, 20)
    for model in (parts[0], parts[2], tmp_path):
        assert_same(tmp_path / "whole", model, tokens)
    parts[1].unlink()
    done = run(OSPREY, "validate", parts[0], status=1)
    assert "part 2 of 4 is missing" in done.stderr.decode()


# ---- vocabularies ----


def byte_letters():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


@pytest.fixture(scope="module")
def o200k(tmp_path_factory):
    """A GGUF with the vocabulary of gpt-oss and no tensors, as llama.cpp's converter writes it, from the .tiktoken
    file. Merges are every split of every token into two tokens, in the order of ids."""
    letters = byte_letters()
    lines = (GOLDEN / "tokenizer" / "o200k_base.tiktoken").read_text().split()
    pieces = {int(i): base64.b64decode(p) for p, i in zip(lines[::2], lines[1::2])}
    ids = {p: i for i, p in pieces.items()}
    names = {199998: "startoftext", 199999: "endoftext", 200002: "return", 200003: "constrain", 200005: "channel",
             200006: "start", 200007: "end", 200008: "message", 200012: "call", 200018: "endofprompt"}
    control = {i: f"<|{names.get(i, f'reserved_{i}')}|>" for i in range(199998, 200019)}

    def text(piece):
        return "".join(letters[b] for b in piece)

    tokens, kinds = [], []
    for i in range(201088):
        kind = gguf.TokenType.NORMAL if i in pieces else gguf.TokenType.CONTROL
        tokens.append(text(pieces[i]) if i in pieces else control.get(i, f"[PAD{i}]"))
        kinds.append(kind if i in pieces or i in control else gguf.TokenType.UNUSED)
    merges = [f"{text(p[:k])} {text(p[k:])}" for i, p in sorted(pieces.items()) for k in range(1, len(p))
              if p[:k] in ids and p[k:] in ids]
    assert len(merges) == 446_189
    path = tmp_path_factory.mktemp("o200k") / "vocabulary.gguf"
    w = gguf.GGUFWriter(path, "gpt-oss")
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-4o")
    w.add_token_list(tokens)
    w.add_token_types(kinds)
    w.add_token_merges(merges)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    return path


def encode(vocabulary, strings, mode):
    data = b"".join(struct.pack("<I", len(s)) + s for s in strings)
    out = run(BUILD / "tests" / "check_tokenizer", vocabulary, mode, data=data).stdout
    at, found = 0, []
    for _ in strings:
        n = int.from_bytes(out[at:at + 4], "little")
        found.append(list(struct.unpack_from(f"<{n}i", out, at + 4)))
        at += 4 + 4 * n
    return found


def test_published_vectors(o200k):
    vectors = json.loads((GOLDEN / "tokenizer" / "tokenizer_vectors.json").read_text())
    vectors.update(json.loads((GOLDEN / "tokenizer" / "long_vectors.json").read_text()))
    assert len(vectors) > 100
    assert encode(o200k, [text.encode() for text in vectors], "ids") == list(vectors.values())


def test_control_tokens(o200k):
    plain = GOLDEN / "tokenizer" / "o200k_base.tiktoken"
    strings = [f"a<|{name}|>b".encode() for name in ("start", "end", "message", "channel", "constrain", "return", "call",
                                                     "endoftext", "startoftext", "endofprompt", "reserved_200018",
                                                     "reserved_201087", "nothing")]
    assert encode(o200k, strings, "specials") == encode(plain, strings, "specials")


def test_bundled_vocabulary(tmp_path):
    path = tmp_path / "m.gguf"
    write_gguf.write(NANO, path, "q8_0", tokenizer=NANO / "tokenizer.json")
    strings = ["The capital of France is Paris.\n".encode(), "naïve \U0001F600 <|end|>".encode()]
    for mode in ("ids", "specials"):
        assert encode(path, strings, mode) == encode(NANO / "tokenizer.json", strings, mode)


# ---- commands ----


@pytest.fixture(scope="module")
def nano(tmp_path_factory):
    """A folder with one file."""
    folder = tmp_path_factory.mktemp("models") / "nano"
    folder.mkdir()
    write_gguf.write(NANO, folder / "osprey-nano-Q8_0.gguf", "q8_0", tokenizer=NANO / "tokenizer.json")
    return folder


def test_validate(nano):
    for model in (nano, nano / "osprey-nano-Q8_0.gguf"):
        report = json.loads(run(OSPREY, "validate", model, "--read-all", "--json").stdout)
        assert report["layout"] == "gguf"
        assert report["types"] == "97 F32, 34 Q8_0, 24 MXFP4"
        assert report["mxfp4_layers"] == "moe"
        assert report["n_tensors"] == 155
    theirs = json.loads(run(OSPREY, "validate", NANO, "--json").stdout)
    assert theirs["types"] == "123 BF16, 32 U8"
    for same in ("n_parameters", "n_active_parameters", "embed_bytes", "head_bytes", "n_token_ids"):
        assert report[same] == theirs[same]


def test_chat_and_quantise(nano, tmp_path):
    """The same answer from the file, from its copy as safetensors, and from one with every matrix as MXFP4."""
    words = ("What is the capital of France?", "--temperature", "0", "--seed", "1")
    gguf_file = nano / "osprey-nano-Q8_0.gguf"
    assert "Paris" in run(OSPREY, "chat", gguf_file, *words).stdout.decode()
    run(OSPREY, "quantize", gguf_file, tmp_path / "hf", "--mxfp4-layers", "moe")
    assert_same(gguf_file, tmp_path / "hf", tokens_of(NANO, 40))
    assert "Paris" in run(OSPREY, "chat", tmp_path / "hf", *words).stdout.decode()
    text = "A naïve <|end|> \"quoted\" \\ text\n".encode()
    assert encode(tmp_path / "hf", [text], "specials") == encode(NANO, [text], "specials")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["eos_token_id"] == [2031] and config["rope_scaling"]["truncate"] is False
    run(OSPREY, "quantize", gguf_file, tmp_path / "all")
    report = json.loads(run(OSPREY, "validate", tmp_path / "all", "--json").stdout)
    assert report["mxfp4_layers"] == "moe,qkv,o,lm_head,embed"


def test_mxfp4_layers_on_load(nano, tmp_path):
    """--mxfp4-layers converts what is not MXFP4 yet: the same bits as osprey quantize."""
    run(OSPREY, "quantize", nano, tmp_path / "all")
    tokens = tokens_of(NANO, 40)
    np.testing.assert_array_equal(logits(nano, tokens, "all"), logits(tmp_path / "all", tokens))
    assert np.abs(logits(nano, tokens, "all") - logits(nano, tokens)).max() > 0
    out = run(OSPREY, "bench", nano, "--mxfp4-layers", "all", "--pp", "16", "--tg", "4", "--runs", "1")
    assert b"nano" in out.stdout


@pytest.mark.parametrize("which", ["all", "one layer"])
def test_experts_of_another_type(tmp_path, which):
    """Q8_0 experts (of fine-tunes), or of one layer only: then all become BF16. The same logits as a BF16 re-release
    with these values, whose experts are transposed."""
    source = GOLDEN / "model" / "gqa8"
    checkpoint = Checkpoint(source)
    todo, values = [], {}
    for e in write_gguf.entries(checkpoint, "bf16"):
        if e.type == "mxfp4":
            data = e.data().reshape(e.shape)
            if which == "all" or e.name.startswith("blk.0."):
                data = gguf.quantize(gguf.dequantize(data, KIND.MXFP4), KIND.Q8_0)
                e = write_gguf.Entry(e.name, "q8_0", data.shape, np.uint8, lambda data=data: data)
            values[e.name] = bf16_of(gguf.dequantize(data, write_gguf.TYPES[e.type]))
        todo.append(e)
    write(checkpoint, tmp_path / "m.gguf", "bf16", entries=todo)
    folder = tmp_path / "hf"
    folder.mkdir()
    config = dict(checkpoint.config)
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {n: as_bf16(a) for n, a in checkpoint.tensors.items() if not n.endswith(("_blocks", "_scales"))}
    for i in range(config["num_hidden_layers"]):
        gate, up, down = (values[f"blk.{i}.ffn_{name}_exps.weight"] for name in ("gate", "up", "down"))
        both = np.stack([gate, up], axis=2).reshape(gate.shape[0], -1, gate.shape[2])
        tensors[f"model.layers.{i}.mlp.experts.gate_up_proj"] = both.swapaxes(1, 2)
        tensors[f"model.layers.{i}.mlp.experts.down_proj"] = down.swapaxes(1, 2)
    write_safetensors(folder / "model.safetensors", tensors)
    assert_same(folder, tmp_path / "m.gguf", tokens_of(source, 60))


def test_quantise_does_not_replace_its_source(nano, tmp_path):
    """The folder of the GGUF file looks like a checkpoint, so --force would replace it."""
    shutil.copy(nano / "osprey-nano-Q8_0.gguf", tmp_path / "m.gguf")
    shutil.copy(NANO / "config.json", tmp_path)
    done = run(OSPREY, "quantize", tmp_path / "m.gguf", tmp_path, "--force", status=2)
    assert "output folder is the source checkpoint" in done.stderr.decode()
    assert (tmp_path / "m.gguf").exists()


def test_two_models_in_a_folder(nano, tmp_path):
    for name in ("a-Q4_K_M.gguf", "b-Q8_0.gguf"):
        (tmp_path / name).symlink_to(nano / "osprey-nano-Q8_0.gguf")
    done = run(OSPREY, "validate", tmp_path, status=1)
    assert "has 2 GGUF models" in done.stderr.decode() and "a-Q4_K_M.gguf, b-Q8_0.gguf" in done.stderr.decode()


def test_hugging_face_cache(nano, tmp_path):
    """Files of a snapshot are links to blobs: names count, also those of parts."""
    write(Checkpoint(NANO), tmp_path / "nano.gguf", "q8_0", split_max_tensors=100)
    snapshot = tmp_path / "hub" / "models--ggml-org--nano-GGUF" / "snapshots" / "abc"
    blobs = tmp_path / "hub" / "models--ggml-org--nano-GGUF" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs.parent / "refs").mkdir()
    (blobs.parent / "refs" / "main").write_text("abc")
    for i, part in enumerate(sorted(tmp_path.glob("*.gguf"))):
        part.rename(blobs / f"blob{i}")
        (snapshot / part.name).symlink_to(blobs / f"blob{i}")
    report = json.loads(run(OSPREY, "validate", "ggml-org/nano-GGUF", "--json", "--tokenizer", NANO,
                            HF_HUB_CACHE=str(tmp_path / "hub")).stdout)
    assert report["n_files"] == 2 and report["layout"] == "gguf"


def test_no_vocabulary(tmp_path):
    write_gguf.write(NANO, tmp_path / "m.gguf", "q8_0")
    done = run(OSPREY, "validate", tmp_path / "m.gguf", status=1)
    assert "has no vocabulary" in done.stderr.decode() and "--tokenizer" in done.stderr.decode()
    run(OSPREY, "validate", tmp_path / "m.gguf", "--tokenizer", NANO / "tokenizer.json")

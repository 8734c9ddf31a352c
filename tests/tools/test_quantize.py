"""`osprey quantize` against the rounding rule of docs/quantization.md, computed in exact fractions from
nothing but the format's definition; and the folder that it writes."""
import json
import pathlib
import signal
import struct
import subprocess
from fractions import Fraction

import pytest

ROOT = pathlib.Path(__file__).parents[2]
OSPREY = ROOT / "build" / "osprey"
GOLDEN = ROOT / "tests" / "golden" / "checkpoints"

E2M1 = [Fraction(n, 2) for n in (0, 1, 2, 3, 4, 6, 8, 12)]
BLOCK, SCALE_MAX = 32, 252


def power(exponent):
    return Fraction(2) ** exponent


def bf16_magnitude(bits):
    exponent, mantissa = bits >> 7 & 255, bits & 127
    if exponent == 0:
        return mantissa * power(-133)
    return (128 + mantissa) * power(exponent - 134)


def nearest(value):
    """The e2m1 code nearest to a value; of two, the even one."""
    return min(range(8), key=lambda code: (abs(E2M1[code] - value), code % 2))


def rounded(values, scale):
    """Codes at this scale, and the sum of the squared errors."""
    unit = power(scale - 127)
    codes = [nearest(v / unit) for v in values]
    return codes, sum((E2M1[c] * unit - v) ** 2 for c, v in zip(codes, values))


def quantize_block(bits):
    """(scale, nibbles) of 32 BF16 numbers, by the rule of docs/quantization.md."""
    values = [bf16_magnitude(b) for b in bits]
    scale = 0
    while scale < SCALE_MAX and max(values) > 6 * power(scale - 127):
        scale += 1
    codes, error = rounded(values, scale)
    if scale > 0:
        finer, finer_error = rounded(values, scale - 1)
        if finer_error < error:
            scale, codes = scale - 1, finer
    return scale, [c | (b >> 12 & 8) for c, b in zip(codes, bits)]


def read_tensors(folder):
    """name -> (dtype, shape, bytes), of all shards."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        n = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + n])
        for name, t in header.items():
            if name != "__metadata__":
                begin, end = t["data_offsets"]
                tensors[name] = t["dtype"], t["shape"], data[8 + n + begin:8 + n + end]
    return tensors


def quantize(*words):
    return subprocess.run([OSPREY, "quantize", *map(str, words)], capture_output=True, text=True,
                          timeout=120)


def check_matrix(bf16, blocks, scales, n_blocks_max):
    """Compares the written matrix with the rule, at up to n_blocks_max blocks spread over it."""
    n_blocks = len(scales)
    assert len(bf16) == 64 * n_blocks and len(blocks) == 16 * n_blocks
    step = max(1, n_blocks // n_blocks_max)
    for b in range(0, n_blocks, step):
        bits = struct.unpack("<32H", bf16[64 * b:64 * b + 64])
        scale, nibbles = quantize_block(bits)
        found = [blocks[16 * b + i // 2] >> (4 * (i % 2)) & 15 for i in range(BLOCK)]
        assert (scales[b], found) == (scale, nibbles), f"block {b}"


def transposed(bf16, shape):
    """(experts, columns, rows) as (experts, rows, columns)."""
    n, columns, rows = shape
    v = struct.unpack(f"<{n * columns * rows}H", bf16)
    order = ((e * columns + c) * rows + r for e in range(n) for r in range(rows)
             for c in range(columns))
    return struct.pack(f"<{len(v)}H", *(v[i] for i in order))


@pytest.mark.parametrize("layout", ["hf", "transformers5", "bf16"])
def test_blocks_are_rounded_as_documented(tmp_path, layout):
    out = tmp_path / "out"
    assert quantize(GOLDEN / layout, out).returncode == 0
    before, after = read_tensors(GOLDEN / layout), read_tensors(out)
    n_checked = 0
    for name, (dtype, shape, data) in before.items():
        if name + "_blocks" not in after:
            assert after[name] == (dtype, shape, data)
            continue
        if len(shape) == 3:
            data, shape = transposed(data, shape), [shape[0], shape[2], shape[1]]
        groups = shape[:-1] + [shape[-1] // 32]
        assert after[name + "_blocks"][:2] == ("U8", groups + [16])
        assert after[name + "_scales"][:2] == ("U8", groups)
        check_matrix(data, after[name + "_blocks"][2], after[name + "_scales"][2], 20)
        n_checked += 1
    assert n_checked == (14 if layout == "bf16" else 10)


def test_the_bundled_model_is_rounded_as_documented(tmp_path):
    out = tmp_path / "out"
    assert quantize(ROOT / "models" / "osprey-nano", out).returncode == 0
    before, after = read_tensors(ROOT / "models" / "osprey-nano"), read_tensors(out)
    matrices = [name for name in before if name + "_blocks" in after]
    assert len(matrices) == 8 * 4 + 2
    for name in matrices:
        check_matrix(before[name][2], after[name + "_blocks"][2], after[name + "_scales"][2], 8)


def test_validate_names_layers_and_bytes(tmp_path):
    out = tmp_path / "out"
    assert quantize(ROOT / "models" / "osprey-nano", out, "--mxfp4-layers", "o,lm_head").returncode == 0
    done = subprocess.run([OSPREY, "validate", out, "--json"], capture_output=True, text=True,
                          timeout=60, check=True)
    report, tensors = json.loads(done.stdout), read_tensors(out)
    assert report["mxfp4_layers"] == "moe,o,lm_head"
    for part, word in [("head_bytes", "lm_head"), ("attn_bytes", "self_attn"),
                       ("experts_bytes", "mlp.experts"), ("embed_bytes", "embed_tokens")]:
        assert report[part] == sum(len(t[2]) for name, t in tensors.items() if word in name)


def test_config_lists_what_is_mxfp4(tmp_path):
    assert quantize(GOLDEN / "hf", tmp_path / "a", "--mxfp4-layers", "o,embed").returncode == 0
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    before = json.loads((GOLDEN / "hf" / "config.json").read_text())
    quantization = config.pop("quantization_config")
    del before["quantization_config"]
    assert config == before
    assert quantization == {
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.mlp.router", "model.layers.*.self_attn.q_proj",
            "model.layers.*.self_attn.k_proj", "model.layers.*.self_attn.v_proj", "lm_head"],
        "osprey_mxfp4_modules": ["model.layers.*.self_attn.o_proj", "model.embed_tokens"],
    }


def test_experts_that_stay_bf16_are_listed(tmp_path):
    assert quantize(GOLDEN / "bf16", tmp_path / "a", "--mxfp4-layers", "qkv").returncode == 0
    q = json.loads((tmp_path / "a" / "config.json").read_text())["quantization_config"]
    assert "model.layers.*.mlp.experts" in q["modules_to_not_convert"]
    assert "model.layers.1.mlp.experts.down_proj" in read_tensors(tmp_path / "a")


def test_errors_are_one_line_and_a_status(tmp_path):
    for words, code, fragment in [
        (["IN"], 2, "needs two arguments"),
        ([GOLDEN / "hf", tmp_path / "x", "--mxfp4-layers", "qvk"], 2, '"qvk" is unknown'),
        ([GOLDEN / "hf", tmp_path / "x", "--mxfp4-layers", "moe"], 2, "nothing to do"),
        ([GOLDEN / "hf", GOLDEN / "hf", "--force"], 2, "output folder is the source checkpoint"),
        ([tmp_path / "none", tmp_path / "x"], 1, "no such folder"),
    ]:
        done = quantize(*words)
        assert done.returncode == code, done.stderr
        assert fragment in done.stderr and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_signal_leaves_nothing(tmp_path):
    """Sent when the first file appears; the command may already have finished."""
    out = tmp_path / "out"
    running = subprocess.Popen([OSPREY, "quantize", ROOT / "models" / "osprey-nano", out,
                                "--shard-size", "1M"], stderr=subprocess.PIPE, text=True)
    while running.poll() is None and not list(tmp_path.iterdir()):
        pass
    running.send_signal(signal.SIGTERM)
    _, message = running.communicate(timeout=60)
    left = [p.name for p in tmp_path.iterdir()]
    assert (running.returncode, left) in [(128 + signal.SIGTERM, []), (0, ["out"])], message

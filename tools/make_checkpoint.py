#!/usr/bin/env python3
"""Writes a gpt-oss checkpoint with generated weights in any layout that osprey reads.

    tools/make_checkpoint.py FOLDER --shape tiny --layout hf
    tools/make_checkpoint.py FOLDER --shape 20b --layout hf     (13.8 GB, about a minute)
    tools/make_checkpoint.py FOLDER --shape 20b --layers 12     (8.0 GB)

Needs only Python. The weights are pseudo-random with the standard deviations of a trained model, so
that activations stay finite; the same seed gives the same bytes. The model's output is meaningless.
The small checkpoints are test data (tests/golden/checkpoints), the large one is for
`make test-large`.

Layouts: hf (published: MXFP4 experts, shards that cut layers, index), single (one file, no index),
transformers5 (rope_parameters, list of eos ids, no layer_types, F32 norms, biases and sinks),
bf16 (re-release with transposed experts of the same values), original (openai's own names).
"""

import argparse
import json
import os
import random
import struct
import zlib

SHAPES = {
    "tiny": dict(layers=2, experts=3, active=2, width=32, expert_width=32, heads=4, kv_heads=2,
                 head_width=16, vocab=64, window=8, context=4096,
                 cuts=["model.layers.0.mlp.experts.gate_up_proj_scales",
                       "model.layers.1.self_attn.q_proj.weight"]),
    "20b": dict(layers=24, experts=32, active=4, width=2880, expert_width=2880, heads=64, kv_heads=8,
                head_width=64, vocab=201088, window=128, context=131072,
                cuts=["model.layers.18.self_attn.q_proj.weight",
                      "model.layers.6.mlp.experts.gate_up_proj_blocks"]),
}
LAYOUTS = ["hf", "single", "transformers5", "bf16", "original"]
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]
SCALE_BYTES = bytes([118, 119, 119, 120])  # 2^-9 to 2^-7: values of about 0.01, as in trained experts
POOL_VALUES = 1 << 20
CHUNK_BYTES = 1 << 24
BYTES = {"BF16": 2, "F32": 4, "U8": 1}


def bf16_bytes(values):
    """Rounded to nearest even, little-endian."""
    out = bytearray()
    for v in values:
        bits = struct.unpack("<I", struct.pack("<f", v))[0]
        out += struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    return bytes(out)


class Values:
    """Bytes of a tensor, from pools of random values at an offset that its name determines."""

    def __init__(self, seed, n_pool):
        rng = random.Random(seed)
        self.seed = seed
        normal = [rng.gauss(0, 1) for _ in range(n_pool)]
        self.pools = {
            "matrix": bf16_bytes(0.02 * v for v in normal),
            "vector": bf16_bytes(0.1 * v for v in normal),
            "norm": bf16_bytes(1 + 0.1 * v for v in normal),
            "sink": bf16_bytes(normal),
            "blocks": rng.randbytes(2 * n_pool),
            "scales": bytes(rng.choice(SCALE_BYTES) for _ in range(2 * n_pool)),
        }

    def chunks(self, tensor):
        """The tensor's bytes in pieces."""
        if tensor.kind == "dequantised":
            yield self.dequantised(tensor)
            return
        if tensor.kind == "joined":
            for part in tensor.parts:
                yield from self.chunks(part)
            return
        pool = self.pools[tensor.kind]
        at = 2 * (zlib.crc32(f"{self.seed}/{tensor.key}".encode()) % (len(pool) // 2))
        left = tensor.count() * (1 if tensor.kind in ("blocks", "scales") else 2)
        while left > 0:
            piece = pool[at:at + min(left, CHUNK_BYTES)]
            at = (at + len(piece)) % len(pool)
            left -= len(piece)
            yield widened(piece) if tensor.dtype == "F32" else piece

    def dequantised(self, tensor):
        """BF16 experts (E, columns, rows) with the values of the MXFP4 tensor of the same name."""
        n_experts, columns, rows = tensor.shape
        parts = mxfp4_pair(tensor.key, tensor.key, [n_experts, rows, columns], "_blocks", "_scales")
        blocks, scales = (b"".join(self.chunks(t)) for t in parts)
        out = bytearray(2 * len(blocks) * 2)
        for e in range(n_experts):
            for r in range(rows):
                for c in range(columns):
                    i = (e * rows + r) * columns + c
                    nibble = blocks[i // 2] >> (4 * (i % 2)) & 15
                    value = E2M1[nibble] * 2.0 ** (scales[i // 32] - 127)
                    at = 2 * ((e * columns + c) * rows + r)
                    out[at:at + 2] = bf16_bytes([value])
        return bytes(out)


def widened(bf16):
    """BF16 as F32: two zero bytes below."""
    return b"".join(b"\0\0" + bf16[i:i + 2] for i in range(0, len(bf16), 2))


class Tensor:
    """Name in the file, key of its values (the same in all layouts), shape."""

    def __init__(self, name, key, dtype, kind, shape, parts=()):
        self.name, self.key, self.dtype, self.kind, self.shape = name, key, dtype, kind, shape
        self.parts = parts  # of a joined tensor: those whose bytes it has, one behind the other

    def count(self):
        n = 1
        for dim in self.shape:
            n *= dim
        return n

    def size(self):
        return self.count() * BYTES[self.dtype]


def mxfp4_pair(name, key, shape, blocks_suffix, scales_suffix):
    n_experts, rows, columns = shape
    groups = [n_experts, rows, columns // 32]
    return [
        Tensor(name + blocks_suffix, key + "_blocks", "U8", "blocks", groups + [16]),
        Tensor(name + scales_suffix, key + "_scales", "U8", "scales", groups),
    ]


def hf_layer(s, i, layout):
    p = f"model.layers.{i}."
    small = "F32" if layout == "transformers5" else "BF16"
    q, kv = s["heads"] * s["head_width"], s["kv_heads"] * s["head_width"]
    c, e, f = s["width"], s["experts"], s["expert_width"]

    def matrix(name, shape):
        return Tensor(p + name, p + name, "BF16", "matrix", shape)

    def vector(name, shape, kind="vector"):
        return Tensor(p + name, p + name, small, kind, shape)

    def experts(name, shape):
        if layout == "bf16":
            return [Tensor(p + name, p + name, "BF16", "dequantised", [shape[0], shape[2], shape[1]])]
        return mxfp4_pair(p + name, p + name, shape, "_blocks", "_scales")

    yield vector("input_layernorm.weight", [c], "norm")
    yield vector("self_attn.sinks", [s["heads"]], "sink")
    yield vector("self_attn.o_proj.bias", [c])
    yield matrix("self_attn.o_proj.weight", [c, q])
    for name, rows in (("q", q), ("k", kv), ("v", kv)):
        yield matrix(f"self_attn.{name}_proj.weight", [rows, c])
        yield vector(f"self_attn.{name}_proj.bias", [rows])
    yield vector("post_attention_layernorm.weight", [c], "norm")
    yield matrix("mlp.router.weight", [e, c])
    yield vector("mlp.router.bias", [e])
    yield vector("mlp.experts.gate_up_proj_bias", [e, 2 * f])
    yield vector("mlp.experts.down_proj_bias", [e, c])
    yield from experts("mlp.experts.gate_up_proj", [e, 2 * f, c])
    yield from experts("mlp.experts.down_proj", [e, c, f])


def original_layer(s, i):
    p, k = f"block.{i}.", f"model.layers.{i}."
    q, kv = s["heads"] * s["head_width"], s["kv_heads"] * s["head_width"]
    c, e, f = s["width"], s["experts"], s["expert_width"]
    heads = (("q", q), ("k", kv), ("v", kv))

    def joined(name, ending, kind, columns):
        parts = [plain("", f"self_attn.{n}_proj.{ending}", kind, [rows] + columns) for n, rows in heads]
        return Tensor(p + name, "", "BF16", "joined", [q + 2 * kv] + columns, parts)

    def plain(name, key, kind, shape):
        return Tensor(p + name, k + key, "BF16", kind, shape)

    yield plain("attn.norm.scale", "input_layernorm.weight", "norm", [c])
    yield joined("attn.qkv.weight", "weight", "matrix", [c])
    yield joined("attn.qkv.bias", "bias", "vector", [])
    yield plain("attn.sinks", "self_attn.sinks", "sink", [s["heads"]])
    yield plain("attn.out.weight", "self_attn.o_proj.weight", "matrix", [c, q])
    yield plain("attn.out.bias", "self_attn.o_proj.bias", "vector", [c])
    yield plain("mlp.norm.scale", "post_attention_layernorm.weight", "norm", [c])
    yield plain("mlp.gate.weight", "mlp.router.weight", "matrix", [e, c])
    yield plain("mlp.gate.bias", "mlp.router.bias", "vector", [e])
    yield from mxfp4_pair(p + "mlp.mlp1_weight", k + "mlp.experts.gate_up_proj", [e, 2 * f, c],
                          ".blocks", ".scales")
    yield plain("mlp.mlp1_bias", "mlp.experts.gate_up_proj_bias", "vector", [e, 2 * f])
    yield from mxfp4_pair(p + "mlp.mlp2_weight", k + "mlp.experts.down_proj", [e, c, f],
                          ".blocks", ".scales")
    yield plain("mlp.mlp2_bias", "mlp.experts.down_proj_bias", "vector", [e, c])


def tensors(s, layout):
    """All tensors in the published order: layers sorted as strings, then the rest."""
    original = layout == "original"
    small = "F32" if layout == "transformers5" else "BF16"
    table = [s["vocab"], s["width"]]
    for i in sorted(range(s["layers"]), key=str):
        yield from original_layer(s, i) if original else hf_layer(s, i, layout)
    yield Tensor("embedding.weight" if original else "model.embed_tokens.weight", "embed", "BF16",
                 "matrix", table)
    yield Tensor("norm.scale" if original else "model.norm.weight", "norm", small, "norm", [s["width"]])
    yield Tensor("unembedding.weight" if original else "lm_head.weight", "head", "BF16", "matrix", table)


def write_shard(path, shard, values):
    header, at = {}, 0
    for t in shard:
        header[t.name] = {"dtype": t.dtype, "shape": t.shape, "data_offsets": [at, at + t.size()]}
        at += t.size()
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for t in shard:
            for chunk in values.chunks(t):
                out.write(chunk)


def cut(all_tensors, firsts):
    """The shards; each tensor of `firsts` begins one. (The bf16 layout has no scales.)"""
    firsts = [n if any(t.name == n for t in all_tensors) else n[:-len("_scales")] for n in firsts]
    shards = [[]]
    for t in all_tensors:
        if t.name in firsts:
            shards.append([])
        shards[-1].append(t)
    return shards


def write_json(folder, name, content):
    with open(os.path.join(folder, name), "w") as out:
        json.dump(content, out, indent=2)
        out.write("\n")


def hf_config(s, layout):
    rope = dict(beta_fast=32.0, beta_slow=1.0, factor=s["context"] / 4096 if s["context"] > 4096 else 32.0,
                original_max_position_embeddings=4096, rope_type="yarn", truncate=False)
    config = dict(
        architectures=["GptOssForCausalLM"], model_type="gpt_oss", attention_bias=True,
        attention_dropout=0.0, hidden_act="silu", num_hidden_layers=s["layers"],
        num_local_experts=s["experts"], num_experts_per_tok=s["active"], hidden_size=s["width"],
        intermediate_size=s["expert_width"], num_attention_heads=s["heads"],
        num_key_value_heads=s["kv_heads"], head_dim=s["head_width"], vocab_size=s["vocab"],
        sliding_window=s["window"], max_position_embeddings=s["context"], rms_norm_eps=1e-05,
        swiglu_limit=7.0, tie_word_embeddings=False, initializer_range=0.02, use_cache=True)
    if layout == "transformers5":
        config.update(rope_parameters=dict(rope, rope_theta=150000.0), dtype="bfloat16",
                      swiglu_alpha=1.702, eos_token_id=eos_ids(s), transformers_version="5.0.0")
    else:
        kinds = ["sliding_attention", "full_attention"]
        config.update(rope_scaling=rope, rope_theta=150000, experts_per_token=s["active"],
                      initial_context_length=4096, eos_token_id=eos_ids(s)[0],
                      layer_types=[kinds[i % 2] for i in range(s["layers"])],
                      transformers_version="4.55.0.dev0")
    if layout != "bf16":
        config["quantization_config"] = dict(
            quant_method="mxfp4",
            modules_to_not_convert=["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                    "model.embed_tokens", "lm_head"])
    return config


def eos_ids(s):
    return [200002, 199999, 200012] if s["vocab"] > 200012 else [s["vocab"] - 2, s["vocab"] - 1]


def original_config(s):
    return dict(
        num_hidden_layers=s["layers"], num_experts=s["experts"], experts_per_token=s["active"],
        vocab_size=s["vocab"], hidden_size=s["width"], intermediate_size=s["expert_width"],
        swiglu_limit=7.0, head_dim=s["head_width"], num_attention_heads=s["heads"],
        num_key_value_heads=s["kv_heads"], sliding_window=s["window"], initial_context_length=4096,
        rope_theta=150000, rope_scaling_factor=32.0, rope_ntk_alpha=1, rope_ntk_beta=32)


def write_index(folder, names, shards):
    total = sum(t.size() for shard in shards for t in shard)
    places = {t.name: name for name, shard in zip(names, shards) for t in shard}
    write_json(folder, "model.safetensors.index.json",
               {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))})


def write_checkpoint(folder, shape, layout, seed, n_layers):
    s = dict(SHAPES[shape], layers=n_layers or SHAPES[shape]["layers"])
    os.makedirs(folder, exist_ok=True)
    values = Values(seed, POOL_VALUES if shape != "tiny" else 1 << 14)
    one_file = layout in ("single", "original")
    shards = cut(list(tensors(s, layout)), [] if one_file else s["cuts"])
    last = len(shards) - 1
    names = ["model.safetensors"] if one_file else [
        f"model-{i:05d}-of-{last:05d}.safetensors" for i in range(len(shards))]
    if not one_file:
        write_index(folder, names, shards)
    if layout == "original":
        write_json(folder, "config.json", original_config(s))
    else:
        write_json(folder, "config.json", hf_config(s, layout))
        write_json(folder, "generation_config.json", dict(do_sample=True, eos_token_id=eos_ids(s)))
    for name, shard in zip(names, shards):
        write_shard(os.path.join(folder, name), shard, values)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--layout", choices=LAYOUTS, default="hf")
    parser.add_argument("--layers", type=int, default=0, help="default: those of the shape")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.layout == "bf16" and args.shape != "tiny":
        parser.error("the layout bf16 is for --shape tiny")
    write_checkpoint(args.folder, args.shape, args.layout, args.seed, args.layers)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes a gpt-oss checkpoint as GGUF, the file of llama.cpp, with the same weights.

    write_gguf.py CHECKPOINT FILE.gguf              attention, embedding and head as Q8_0
    write_gguf.py CHECKPOINT FILE.gguf --dense f32  the same values exactly (for tests)
    write_gguf.py CHECKPOINT FILE.gguf --tokenizer tokenizer.json

The experts stay MXFP4: same scales and codes, only the nibbles lie in another order. Norms, biases,
sinks and the router become F32, as in the GGUF files that llama.cpp's own converter makes. Without
--tokenizer there is no vocabulary in the file ("none"): prompts are token ids.
"""

import argparse
import json
from collections import namedtuple
from pathlib import Path

import gguf
import numpy as np
from checkpoint import Checkpoint

TYPES = {t.name.lower(): t for t in gguf.GGMLQuantizationType}
# Those that the gguf package can quantise to.
DENSE = ["q8_0", "f32", "f16", "bf16", "q5_1", "q5_0", "q4_1", "q4_0", "mxfp4"]
ROWS_AT_ONCE = 512  # 6 MB of float32 at a width of 2,880: stays in the caches

# One tensor of the file: its type, shape as bytes or values, and a function that gives the array.
Entry = namedtuple("Entry", "name type shape dtype data")


def mxfp4(blocks, scales):
    """(..., G, 16) blocks and (..., G) scales -> (..., G * 17) bytes: scale, then 16 pairs.

    A published byte holds elements 2k and 2k + 1, low nibble first; here byte j holds j and j + 16."""
    first, second = blocks[..., :8], blocks[..., 8:]
    out = np.empty(blocks.shape[:-1] + (17,), np.uint8)
    out[..., 0] = scales
    out[..., 1::2] = (first & 15) | (second << 4)
    out[..., 2::2] = (first >> 4) | (second & 0xF0)
    return out.reshape(*blocks.shape[:-2], -1)


def quantised(checkpoint, name, kind):
    rows = checkpoint.raw(name).shape[0]
    parts = [gguf.quantize(checkpoint.f32(name, slice(at, at + ROWS_AT_ONCE)), TYPES[kind])
             for at in range(0, rows, ROWS_AT_ONCE)]
    return np.concatenate(parts)


def plain(checkpoint, ours, theirs, take=slice(None)):
    """Widened to F32; `take` picks along the last axis."""
    shape = checkpoint.raw(ours)[..., take].shape
    return Entry(theirs, "f32", shape, np.float32,
                 lambda: np.ascontiguousarray(checkpoint.f32(ours)[..., take]))


def dense(checkpoint, ours, theirs, kind):
    rows, columns = checkpoint.raw(ours).shape
    if kind == "f32":
        return plain(checkpoint, ours, theirs)
    if kind == "f16":
        return Entry(theirs, kind, (rows, columns), np.float16,
                     lambda: checkpoint.f32(ours).astype(np.float16))
    values, size = gguf.GGML_QUANT_SIZES[TYPES[kind]]
    return Entry(theirs, kind, (rows, columns // values * size), np.uint8,
                 lambda: quantised(checkpoint, ours, kind))


def experts(checkpoint, ours, theirs, take=slice(None)):
    """`take` picks rows: the published gate_up has gate in the even and up in the odd ones."""
    blocks, scales = checkpoint.raw(ours + "_blocks"), checkpoint.raw(ours + "_scales")
    n_experts, rows, groups = scales[:, take].shape
    return Entry(theirs, "mxfp4", (n_experts, rows, groups * 17), np.uint8,
                 lambda: mxfp4(blocks[:, take], scales[:, take]))


def layer(checkpoint, i, kind):
    ours, theirs = f"model.layers.{i}.", f"blk.{i}."
    even, odd = slice(0, None, 2), slice(1, None, 2)

    for a, b in (("input_layernorm.weight", "attn_norm.weight"),
                 ("post_attention_layernorm.weight", "post_attention_norm.weight"),
                 ("self_attn.sinks", "attn_sinks.weight"),
                 ("mlp.router.weight", "ffn_gate_inp.weight"),
                 ("mlp.router.bias", "ffn_gate_inp.bias"),
                 ("mlp.experts.down_proj_bias", "ffn_down_exps.bias")):
        yield plain(checkpoint, ours + a, theirs + b)
    for a, b in (("q", "q"), ("k", "k"), ("v", "v"), ("o", "output")):
        yield dense(checkpoint, f"{ours}self_attn.{a}_proj.weight", f"{theirs}attn_{b}.weight", kind)
        yield plain(checkpoint, f"{ours}self_attn.{a}_proj.bias", f"{theirs}attn_{b}.bias")
    gate_up = ours + "mlp.experts.gate_up_proj"
    for name, rows in (("gate", even), ("up", odd)):
        yield experts(checkpoint, gate_up, f"{theirs}ffn_{name}_exps.weight", rows)
        yield plain(checkpoint, gate_up + "_bias", f"{theirs}ffn_{name}_exps.bias", rows)
    yield experts(checkpoint, ours + "mlp.experts.down_proj", theirs + "ffn_down_exps.weight")


def entries(checkpoint, kind):
    head = "lm_head.weight" if checkpoint.has("lm_head.weight") else "model.embed_tokens.weight"

    yield dense(checkpoint, "model.embed_tokens.weight", "token_embd.weight", kind)
    for i in range(checkpoint.config["num_hidden_layers"]):
        yield from layer(checkpoint, i, kind)
    yield plain(checkpoint, "model.norm.weight", "output_norm.weight")
    yield dense(checkpoint, head, "output.weight", kind)


def check(c):
    """What the architecture in llama.cpp takes for granted."""
    kinds = c.get("layer_types") or []
    if any(kind.startswith("sliding") != (i % 2 == 0) for i, kind in enumerate(kinds)):
        raise SystemExit("config.json: layer_types must alternate, sliding first")
    if c.get("swiglu_limit", 7.0) != 7.0:
        raise SystemExit(f"config.json: swiglu_limit is {c['swiglu_limit']}, must be 7")


def add_vocabulary(w, path, n_tokens):
    """The lists of a tokenizer.json; ids that it does not define are named and marked as unused."""
    tokenizer = json.loads(Path(path).read_text())
    names = {i: piece for piece, i in tokenizer["model"]["vocab"].items()}
    control = {t["id"]: t["content"] for t in tokenizer["added_tokens"]}
    tokens, kinds = [], []
    for i in range(n_tokens):
        kind = gguf.TokenType.NORMAL if i in names else gguf.TokenType.CONTROL
        tokens.append(names.get(i) or control.get(i) or f"[PAD{i}]")
        kinds.append(kind if i in names or i in control else gguf.TokenType.UNUSED)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-4o")
    w.add_token_list(tokens)
    w.add_token_types(kinds)
    w.add_token_merges([m if isinstance(m, str) else " ".join(m)
                        for m in tokenizer["model"]["merges"]])
    ids = {text: i for i, text in control.items()}
    w.add_bos_token_id(ids["<|startoftext|>"])
    w.add_eos_token_id(ids["<|return|>"])
    w.add_pad_token_id(ids["<|endoftext|>"])


def add_config(w, c):
    rope = c.get("rope_scaling") or c["rope_parameters"]

    w.add_name("generated weights")
    w.add_file_type(gguf.LlamaFileType.MOSTLY_MXFP4_MOE)
    w.add_vocab_size(c["vocab_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_expert_feed_forward_length(c["intermediate_size"])
    w.add_expert_count(c["num_local_experts"])
    w.add_expert_used_count(c["num_experts_per_tok"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_key_length(c["head_dim"])
    w.add_value_length(c["head_dim"])
    w.add_sliding_window(c["sliding_window"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_dimension_count(c["head_dim"])
    w.add_rope_freq_base(float(c.get("rope_theta") or rope["rope_theta"]))
    w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    w.add_rope_scaling_factor(float(rope["factor"]))
    w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    w.add_rope_scaling_yarn_beta_fast(float(rope["beta_fast"]))
    w.add_rope_scaling_yarn_beta_slow(float(rope["beta_slow"]))


def write(folder, path, kind="q8_0", progress=lambda done, total: None, tokenizer=None, split_max_tensors=0):
    """Gives the bytes of all tensors. One tensor is in memory at a time. split_max_tensors: of each part
    of a split model, PATH-00001-of-00002.gguf and so on; 0: one file."""
    checkpoint = Checkpoint(folder)
    check(checkpoint.config)
    todo = list(entries(checkpoint, kind))
    w = gguf.GGUFWriter(path, "gpt-oss", split_max_tensors=split_max_tensors)
    add_config(w, checkpoint.config)
    if tokenizer:
        add_vocabulary(w, tokenizer, checkpoint.config["vocab_size"])
    else:
        w.add_tokenizer_model("none")
    sizes = [int(np.prod(e.shape)) * np.dtype(e.dtype).itemsize for e in todo]
    for e, size in zip(todo, sizes):
        w.add_tensor_info(e.name, e.shape, np.dtype(e.dtype), size, raw_dtype=TYPES[e.type])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    for i, e in enumerate(todo):
        w.write_tensor_data(e.data())
        progress(sum(sizes[:i + 1]), sum(sizes))
    w.close()
    return sum(sizes)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("file")
    parser.add_argument("--dense", choices=DENSE, default="q8_0")
    parser.add_argument("--tokenizer", help="the tokenizer.json of the model")
    args = parser.parse_args()
    n_bytes = write(args.checkpoint, args.file, args.dense, tokenizer=args.tokenizer)
    print(f"{n_bytes:,} bytes of tensors")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes tests/golden/model for tests/check_golden.c: small gpt-oss checkpoints in the published
layout, and the results of Hugging Face Transformers for them, in float32 with eager attention.

    python tools/golden/make_golden.py              # everything
    python tools/golden/make_golden.py nano         # only the vectors of the bundled model
    python tools/golden/make_golden.py gqa8 tf5     # only these

Needs torch, transformers, safetensors and tokenizers; `make test` needs none of them. The checkpoints
are written by this file (weights from a seeded generator) and read back by Transformers' own loader,
so that names, layout, MXFP4 and YaRN come from an independent implementation.

Vectors, little-endian, one file a checkpoint:
    8 bytes "OSPGOLD1", int32 vocab, int32 n_prompts, then for each prompt
    int32 n_tokens, int32 n_rows, int32 token[n_tokens], int32 row[n_rows] (positions with logits),
    float32 logits[n_rows][vocab], int32 argmax[n_tokens], float32 top_margin[n_tokens],
    float32 router_margin[n_tokens] (least gap, over the layers, between the last chosen expert and
    the first that was not; 1e30 when all are chosen)
"""
import json
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, Mxfp4Config
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssTopKRouter

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "model"
NANO = ROOT / "models" / "osprey-nano"
SHORT = (1, 127, 128, 129, 130)
WINDOW = 128


@dataclass
class Shape:
    """One generated configuration."""

    layers: int
    width: int  # C
    expert_width: int  # F
    heads: int
    kv_heads: int
    head_width: int
    experts: int
    active: int
    vocab: int
    prompts: tuple
    seed: int
    shards: int = 1
    mxfp4: bool = True  # else bf16 experts, stored (experts, in, out)
    transformers5: bool = False  # the keys that version 5 writes
    layer_types: list = field(default_factory=list)  # empty: alternating, sliding first
    tied: bool = False  # lm_head is the embedding


SHAPES = {
    "one": Shape(1, 64, 32, 2, 2, 32, 3, 1, 96, (*SHORT, 700), 1),
    "gqa8": Shape(2, 96, 64, 8, 1, 32, 5, 2, 257, (1, 128, 130, 5000), 2),
    "odd": Shape(3, 160, 96, 3, 3, 64, 7, 3, 300, (127, 129, 700), 3, shards=2),
    "deep": Shape(8, 64, 64, 4, 2, 32, 4, 4, 128, (*SHORT, 700), 4, shards=3),
    "wide": Shape(2, 192, 32, 6, 2, 64, 9, 4, 512, (1, 129, 700, 5000), 5, shards=2),
    "bf16": Shape(4, 64, 64, 2, 2, 64, 5, 2, 200, (128, 130, 700), 6, mxfp4=False,
                  transformers5=True),
    "tf5": Shape(5, 128, 64, 4, 1, 64, 11, 4, 384, (127, 130, 5000), 7, shards=4,
                 transformers5=True),
    "many": Shape(2, 64, 96, 16, 2, 32, 32, 4, 333, (*SHORT, 700), 8),
    "full": Shape(3, 96, 32, 3, 1, 64, 6, 3, 111, (1, 130, 700), 9, tied=True,
                  layer_types=["full_attention", "full_attention", "sliding_attention"]),
}


def config_of(s: Shape) -> dict:
    types = s.layer_types or [("sliding_attention", "full_attention")[i % 2] for i in range(s.layers)]
    yarn = {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "rope_type": "yarn",
            "original_max_position_embeddings": 4096, "truncate": False}
    c = {
        "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "attention_bias": True,
        "attention_dropout": 0.0, "hidden_act": "silu", "initializer_range": 0.02,
        "num_hidden_layers": s.layers, "num_local_experts": s.experts,
        "num_experts_per_tok": s.active, "hidden_size": s.width,
        "intermediate_size": s.expert_width, "num_attention_heads": s.heads,
        "num_key_value_heads": s.kv_heads, "head_dim": s.head_width, "vocab_size": s.vocab,
        "max_position_embeddings": 131072, "sliding_window": WINDOW, "swiglu_limit": 7.0,
        "rms_norm_eps": 1e-05, "tie_word_embeddings": s.tied, "output_router_logits": False,
        "router_aux_loss_coef": 0.9, "use_cache": True, "pad_token_id": 0,
    }
    if s.transformers5:
        c |= {"rope_parameters": yarn | {"rope_theta": 150000.0}, "eos_token_id": [s.vocab - 1],
              "dtype": "bfloat16", "transformers_version": "5.0.0"}
    else:
        c |= {"rope_scaling": yarn, "rope_theta": 150000, "eos_token_id": s.vocab - 1,
              "initial_context_length": 4096, "experts_per_token": s.active,
              "transformers_version": "4.55.0"}
    if s.layer_types or not s.transformers5:
        c["layer_types"] = types
    if s.mxfp4:
        c["quantization_config"] = {
            "quant_method": "mxfp4",
            "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                       "model.embed_tokens", "lm_head"]}
    return c


class Weights:
    """Seeded tensors whose scales keep activations near 1, so that every part of a layer matters."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def normal(self, *shape, std=1.0, mean=0.0):
        return torch.from_numpy(self.rng.normal(mean, std, shape).astype(np.float32)).bfloat16()

    def blocks(self, experts: int, rows: int, columns: int, std: float):
        """Every code of e2m1, with scales that vary by powers of two around `std`."""
        n = columns // 32
        codes = self.rng.integers(0, 256, (experts, rows, n, 16), dtype=np.uint8)
        middle = 127 + round(np.log2(std / 2.93))  # 2.93: root mean square of the 16 codes
        scales = self.rng.integers(middle - 1, middle + 2, (experts, rows, n)).astype(np.uint8)
        return torch.from_numpy(codes), torch.from_numpy(scales)


def tensors_of(s: Shape) -> dict:
    w = Weights(s.seed)
    q, kv, c, f = s.heads * s.head_width, s.kv_heads * s.head_width, s.width, s.expert_width
    out = {}
    for i in range(s.layers):
        p = f"model.layers.{i}."
        out[p + "input_layernorm.weight"] = w.normal(c, std=0.2, mean=1.0)
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            out[p + f"self_attn.{name}_proj.weight"] = w.normal(rows, c, std=c**-0.5)
            out[p + f"self_attn.{name}_proj.bias"] = w.normal(rows, std=0.3)
        out[p + "self_attn.o_proj.weight"] = w.normal(c, q, std=q**-0.5)
        out[p + "self_attn.o_proj.bias"] = w.normal(c, std=0.1)
        out[p + "self_attn.sinks"] = w.normal(s.heads, std=1.5, mean=2.0)
        out[p + "post_attention_layernorm.weight"] = w.normal(c, std=0.2, mean=1.0)
        out[p + "mlp.router.weight"] = w.normal(s.experts, c, std=c**-0.5)
        out[p + "mlp.router.bias"] = w.normal(s.experts, std=0.5)
        e = p + "mlp.experts."
        if s.mxfp4:
            for name, rows, columns in (("gate_up", 2 * f, c), ("down", c, f)):
                std = (3.0 if name == "gate_up" else 1.0) * columns**-0.5  # 3: some pass the clamp
                blocks, scales = w.blocks(s.experts, rows, columns, std)
                out[e + name + "_proj_blocks"], out[e + name + "_proj_scales"] = blocks, scales
        else:
            out[e + "gate_up_proj"] = w.normal(s.experts, c, 2 * f, std=3.0 * c**-0.5)
            out[e + "down_proj"] = w.normal(s.experts, f, c, std=f**-0.5)
        out[e + "gate_up_proj_bias"] = w.normal(s.experts, 2 * f, std=0.5)
        out[e + "down_proj_bias"] = w.normal(s.experts, c, std=0.2)
    out["model.embed_tokens.weight"] = w.normal(s.vocab, c, std=3.0 * c**-0.5 if s.tied else 1.0)
    out["model.norm.weight"] = w.normal(c, std=0.2, mean=1.0)
    if not s.tied:
        out["lm_head.weight"] = w.normal(s.vocab, c, std=2.0 * c**-0.5)
    return out


def write_checkpoint(folder: Path, s: Shape):
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.safetensors*"):
        old.unlink()
    (folder / "config.json").write_text(json.dumps(config_of(s), indent=1) + "\n")
    tensors = tensors_of(s)
    if s.shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names, weight_map = sorted(tensors), {}
    for i in range(s.shards):  # cut anywhere, also between blocks and their scales
        part = names[len(names) * i // s.shards:len(names) * (i + 1) // s.shards]
        file = f"model-{i:05d}-of-{s.shards - 1:05d}.safetensors"
        save_file({n: tensors[n] for n in part}, folder / file, metadata={"format": "pt"})
        weight_map |= {n: file for n in part}
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=1) + "\n")


def load(folder: Path):
    config = json.loads((folder / "config.json").read_text())
    more = {"quantization_config": Mxfp4Config(dequantize=True)} if "quantization_config" in config \
        else {}
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager",
        **more).eval()
    rope = model.config.rope_parameters
    assert rope["rope_type"] == "yarn" and rope["truncate"] is False, rope
    assert model.config._attn_implementation == "eager"
    assert all(p.dtype == torch.float32 for p in model.parameters())
    return model


def router_margins(model, n_tokens: int):
    """Collects the smallest router margin of each position while the model runs."""
    least = torch.full((n_tokens,), 1e30)

    def look(module, _args, output):
        z = output[0].reshape(n_tokens, -1).sort(dim=-1, descending=True).values
        if module.top_k < z.shape[1]:
            gap = z[:, module.top_k - 1] - z[:, module.top_k]
            torch.minimum(least, gap, out=least)

    hooks = [m.register_forward_hook(look) for m in model.modules() if isinstance(m, GptOssTopKRouter)]
    return least, hooks


def rows_kept(n: int, most: int) -> list:
    """All positions of a short prompt; of a long one the edges of window and pages, and a sample."""
    if n <= most:
        return list(range(n))
    edges = {0, 1, 62, 63, 64, 65, 126, 127, 128, 129, 130, 191, 192, 255, 256, 4095, 4096, 4097,
             n - 2, n - 1}
    rows = {r for r in edges if r < n}
    spread = [int(r) for r in np.linspace(2, n - 3, most)]
    while len(rows) < most:
        rows.add(spread.pop(len(spread) // 2))
    return sorted(rows)


def vectors_of(model, tokens: list, most_rows: int) -> bytes:
    n = len(tokens)
    margins, hooks = router_margins(model, n)
    with torch.no_grad():
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
    for hook in hooks:
        hook.remove()
    top = logits.topk(2, dim=-1).values
    rows = rows_kept(n, most_rows)
    return b"".join((
        struct.pack("<ii", n, len(rows)), np.asarray(tokens, "<i4").tobytes(),
        np.asarray(rows, "<i4").tobytes(), logits[rows].numpy().astype("<f4").tobytes(),
        logits.argmax(-1).numpy().astype("<i4").tobytes(),
        (top[:, 0] - top[:, 1]).numpy().astype("<f4").tobytes(),
        margins.numpy().astype("<f4").tobytes()))


def write_vectors(name: str, folder: Path, prompts: list, most_rows: int):
    model = load(folder)
    parts = [vectors_of(model, tokens, most_rows) for tokens in prompts]
    path = GOLDEN / f"{name}.vectors"
    path.write_bytes(b"OSPGOLD1" + struct.pack("<ii", model.config.vocab_size, len(parts))
                     + b"".join(parts))
    print(f"{name}: prompts of {[len(p) for p in prompts]} tokens, {path.stat().st_size} bytes")


def make_generated(name: str):
    s = SHAPES[name]
    folder = GOLDEN / name
    write_checkpoint(folder, s)
    rng = np.random.default_rng(1000 + s.seed)
    write_vectors(name, folder, [rng.integers(0, s.vocab, n).tolist() for n in s.prompts], 48)


def nano_prompts() -> list:
    """Conversations that the bundled model was trained for, concatenated and cut to each length."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(NANO / "tokenizer.json"))
    text = "\n".join(line for line in (NANO / "eval.jsonl").read_text().splitlines())
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert len(ids) > 12000
    starts = {1: 0, 127: 300, 128: 900, 129: 1500, 130: 2100, 700: 2700, 5000: 4000}
    return [ids[start:start + n] for n, start in starts.items()]


def main():
    torch.set_num_threads(2)
    names = sys.argv[1:] or [*SHAPES, "nano"]
    for name in names:
        if name == "nano":
            write_vectors("nano", NANO, nano_prompts(), 24)
        else:
            make_generated(name)


main()

"""Exports a training checkpoint as a model folder in the published layout of gpt-oss.

    python3 tools/nano/export.py --checkpoint build/nano [--out models/osprey-nano]

Experts become MXFP4 blocks and scales, everything else BF16. The shards are cut inside layers, and the
blocks and the scales of one projection may lie in different files, as in the published checkpoints.
"""

import argparse
import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file

import checkpoint
import mxfp4
import tokenizer
from model import Shape

N_SHARDS = 3


def tensors_of(p, shape):
    """The tensors by published name, in file order: layers sorted as strings, then the three others."""
    out = {}
    for i in sorted(range(shape.layers), key=str):
        layer = {
            "input_layernorm.weight": p["norm1"][i],
            "post_attention_layernorm.weight": p["norm2"][i],
            "self_attn.sinks": p["sinks"][i],
            "mlp.router.weight": p["router"][i],
            "mlp.router.bias": p["router_bias"][i],
            "mlp.experts.gate_up_proj_bias": p["b1"][i],
            "mlp.experts.down_proj_bias": p["b2"][i],
        }
        for letter in "qkvo":
            layer[f"self_attn.{letter}_proj.weight"] = p["w" + letter][i]
            layer[f"self_attn.{letter}_proj.bias"] = p["b" + letter][i]
        for name, w in (("gate_up_proj", p["w1"][i]), ("down_proj", p["w2"][i])):
            layer[f"mlp.experts.{name}_blocks"], layer[f"mlp.experts.{name}_scales"] = mxfp4.pack(w)
        for name in sorted(layer):
            t = layer[name]
            out[f"model.layers.{i}.{name}"] = (t if t.dtype == torch.uint8 else t.bfloat16()).contiguous()
    return out | {
        "model.embed_tokens.weight": p["embed"].bfloat16(),
        "model.norm.weight": p["normf"].bfloat16(),
        "lm_head.weight": p["head"].bfloat16(),
    }


def size_bytes(tensor):
    return tensor.numel() * tensor.element_size()


def cut(tensors):
    """Cuts into shards of about equal size, each but the last ending after the blocks of an expert matrix."""
    total, shards = sum(map(size_bytes, tensors.values())), [{}]
    for name, tensor in tensors.items():
        done = sum(size_bytes(t) for s in shards for t in s.values())
        shards[-1][name] = tensor
        if name.endswith("_blocks") and len(shards) < N_SHARDS and done > total * len(shards) / N_SHARDS:
            shards.append({})
    return shards


def config(shape, special_ids):
    s, end, pad = shape, special_ids["<|return|>"], special_ids["<|endoftext|>"]
    return {
        "architectures": ["GptOssForCausalLM"],
        "attention_bias": True,
        "attention_dropout": 0.0,
        "eos_token_id": end,
        "experts_per_token": s.experts_per_token,
        "head_dim": s.head_dim,
        "hidden_act": "silu",
        "hidden_size": s.hidden,
        "initial_context_length": s.rope_original,
        "initializer_range": 0.02,
        "intermediate_size": s.intermediate,
        "layer_types": [("sliding_attention", "full_attention")[i % 2] for i in range(s.layers)],
        "max_position_embeddings": int(s.rope_original * s.rope_factor),
        "model_type": "gpt_oss",
        "num_attention_heads": s.heads,
        "num_experts_per_tok": s.experts_per_token,
        "num_hidden_layers": s.layers,
        "num_key_value_heads": s.kv_heads,
        "num_local_experts": s.experts,
        "output_router_logits": False,
        "pad_token_id": pad,
        "quantization_config": {
            "modules_to_not_convert": [
                "model.layers.*.self_attn",
                "model.layers.*.mlp.router",
                "model.embed_tokens",
                "lm_head",
            ],
            "quant_method": "mxfp4",
        },
        "rms_norm_eps": s.norm_eps,
        "rope_scaling": {
            "beta_fast": s.beta_fast,
            "beta_slow": s.beta_slow,
            "factor": s.rope_factor,
            "original_max_position_embeddings": s.rope_original,
            "rope_type": "yarn",
            "truncate": False,
        },
        "rope_theta": int(s.rope_theta),
        "router_aux_loss_coef": 0.9,
        "sliding_window": s.window,
        "swiglu_limit": s.swiglu_limit,
        "tie_word_embeddings": False,
        "transformers_version": "4.55.0",
        "use_cache": True,
        "vocab_size": s.vocab,
    }


def generation_config(special_ids):
    stop = [special_ids[t] for t in ("<|return|>", "<|endoftext|>", "<|call|>")]
    return {
        "bos_token_id": special_ids["<|startoftext|>"],
        "do_sample": True,
        "eos_token_id": stop,
        "pad_token_id": special_ids["<|endoftext|>"],
        "transformers_version": "4.55.0",
    }


def export(checkpoint_folder, tokenizer_folder, out):
    out.mkdir(parents=True, exist_ok=True)
    shape, special_ids = Shape(), tokenizer.load(tokenizer_folder).special_ids
    tensors = tensors_of(checkpoint.load(checkpoint_folder), shape)
    shards, places = cut(tensors), {}
    for n, shard in enumerate(shards):
        file = f"model-{n:05d}-of-{len(shards) - 1:05d}.safetensors"
        save_file(shard, out / file, metadata={"format": "pt"})
        places |= {name: file for name in shard}
    write = lambda name, data: (out / name).write_text(json.dumps(data, indent=2) + "\n")
    total = sum(map(size_bytes, tensors.values()))
    write(
        "model.safetensors.index.json",
        {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))},
    )
    write("config.json", config(shape, special_ids))
    write("generation_config.json", generation_config(special_ids))
    if out.resolve() != pathlib.Path(tokenizer_folder).resolve():
        for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
            shutil.copy(pathlib.Path(tokenizer_folder) / name, out / name)


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=pathlib.Path, default=root / "build/nano")
    parser.add_argument("--tokenizer", type=pathlib.Path, default=root / "models/osprey-nano")
    parser.add_argument("--out", type=pathlib.Path, default=root / "models/osprey-nano")
    args = parser.parse_args()
    export(args.checkpoint, args.tokenizer, args.out)


if __name__ == "__main__":
    main()

"""Eagle3 draft heads in every published layout, with random weights for osprey-nano, and the formulas of their forward
pass in NumPy."""
import json
import math
import pathlib
import struct

import numpy as np

NANO = pathlib.Path(__file__).resolve().parents[2] / "models" / "osprey-nano"
WIDTH, VOCAB, LAYERS = 320, 2048, 8
YARN = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "beta_fast": 32.0,
        "beta_slow": 1.0, "truncate": False}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
SHAPE = {"hidden_size": WIDTH, "intermediate_size": 384, "num_attention_heads": 8, "num_key_value_heads": 2,
         "head_dim": 64, "num_hidden_layers": 1, "rms_norm_eps": 1e-5, "hidden_act": "silu",
         "max_position_embeddings": 4096, "vocab_size": VOCAB}
FLAT = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", **SHAPE}

# A layout: config.json, the prefix of the layer, and what the head has of its own. state ids are boundaries.
LAYOUTS = {
    "nvidia-v3": dict(
        config={**FLAT, "rope_theta": 150000, "rope_scaling": YARN, "draft_vocab_size": VOCAB,
                "eagle_aux_hidden_state_layer_ids": [4, 6, 8], "norm_before_fc": True},
        prefix="midlayer.", norm="all"),
    "nvidia-long-context": dict(
        config={**FLAT, "rope_theta": 500000.0, "rope_scaling": LLAMA3, "draft_vocab_size": None,
                "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 6], "use_aux_hidden_state": True,
                                 "use_input_layernorm_in_first_layer": True, "use_last_layernorm": True,
                                 "use_mtp_layernorm": False, "next_layer_regular": True}},
        prefix="midlayer."),
    "nvidia-short-context": dict(
        config={**FLAT, "rope_theta": 10000, "rope_scaling": None,
                "eagle_config": {"use_aux_hidden_state": False, "return_hidden_post_norm": True}},
        prefix="layers.0.", output=True, no_fc=True),
    "nvidia-throughput": dict(
        config={**FLAT, "rope_theta": 150000, "rope_scaling": YARN, "draft_vocab_size": 1024,
                "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 5], "use_aux_hidden_state": True}},
        prefix="midlayer.", head=1024, d2t="offsets", t2d=True),
    "lmsys": dict(
        config={**FLAT, "draft_vocab_size": 512},
        prefix="midlayer.", head=512, d2t="offsets", embed=True, t2d=True),
    "redhat": dict(
        config={"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": 640,
                "transformer_layer_config": {**SHAPE, "rope_theta": 10000.0}, "norm_before_residual": True,
                "norm_before_fc": True, "target_hidden_size": WIDTH},
        prefix="layers.0.", norm="all", head=640, d2t="offsets", embed=True, residual=True, vocab_on_top=True),
    "specforge": dict(
        config={**FLAT, "draft_vocab_size": 512, "rope_theta": 1000000, "fc_norm": True, "norm_output": True,
                "eagle_aux_hidden_state_layer_ids": [1, 3, 5, 0]},
        prefix="layers.0.", root="model.", norm="each", head=512, d2t="ids", output=True, shards=2),
}
DEFAULT_STATES = [2, 4, 5]


def bf16(x):
    """Rounded to BF16, as float32."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def write_safetensors(path, tensors):
    """float32 arrays are written as BF16; int64 as I64, bool as BOOL."""
    header, data = {}, b""
    for name, array in tensors.items():
        if array.dtype == np.float32:
            kind, raw = "BF16", (array.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        else:
            kind, raw = {"int64": "I64", "bool": "BOOL"}[array.dtype.name], array.tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_target(name):
    """A BF16 matrix of osprey-nano."""
    index = json.loads((NANO / "model.safetensors.index.json").read_text())["weight_map"]
    raw = (NANO / index[name]).read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    entry = json.loads(raw[8:8 + n])[name]
    first, end = (8 + n + offset for offset in entry["data_offsets"])
    bits = np.frombuffer(raw[first:end], np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32).reshape(entry["shape"])


class Head:
    """A generated head: its files, and its formulas."""

    def __init__(self, layout, seed=1):
        self.layout, self.name = LAYOUTS[layout], layout
        self.rng = np.random.default_rng(seed)
        config = self.layout["config"]
        nested = config.get("eagle_config", {})
        shape = config.get("transformer_layer_config", config)
        self.eps, self.shape = shape["rms_norm_eps"], shape
        ids = config.get("eagle_aux_hidden_state_layer_ids") or nested.get("eagle_aux_hidden_state_layer_ids")
        self.states = ["final"] if self.layout.get("no_fc") else ids or DEFAULT_STATES
        self.weights, self.target_ids = self._weights(), None
        if "d2t" in self.layout:
            # runs of neighbouring ids, as the most frequent ones are
            chosen = np.sort(self.rng.choice(VOCAB // 4, self.layout["head"] // 4, replace=False))
            self.target_ids = (4 * chosen[:, None] + np.arange(4)).ravel().astype(np.int64)

    def _weights(self):
        n, f = len(self.states), self.shape["intermediate_size"]
        matrix = lambda rows, columns: bf16(self.rng.normal(size=(rows, columns)) / math.sqrt(columns))
        norm = lambda size: bf16(self.rng.uniform(0.5, 1.5, size))
        w = {"input_layernorm": norm(WIDTH), "hidden_norm": norm(WIDTH), "self_attn.q_proj": matrix(512, 2 * WIDTH),
             "self_attn.k_proj": matrix(128, 2 * WIDTH), "self_attn.v_proj": matrix(128, 2 * WIDTH),
             "self_attn.o_proj": matrix(WIDTH, 512), "post_attention_layernorm": norm(WIDTH),
             "mlp.gate_proj": matrix(f, WIDTH), "mlp.up_proj": matrix(f, WIDTH), "mlp.down_proj": matrix(WIDTH, f)}
        w = {self.layout["prefix"] + name: array for name, array in w.items()}
        w["norm"] = norm(WIDTH)
        if not self.layout.get("no_fc"):
            w["fc"] = matrix(WIDTH, n * WIDTH)
        if self.layout.get("norm") == "all":
            w["input_norm"] = norm(n * WIDTH)
        for i in range(n if self.layout.get("norm") == "each" else 0):
            w[f"fc_norm.{i}"] = norm(WIDTH)
        if self.layout.get("embed"):
            w["embed_tokens"] = matrix(VOCAB, WIDTH)
        if "head" in self.layout:
            w["lm_head"] = matrix(self.layout["head"], WIDTH)
        return w

    def tensors(self):
        root = self.layout.get("root", "")
        out = {f"{root}{name}.weight": array for name, array in self.weights.items()}
        if self.target_ids is not None:
            offsets = self.target_ids - np.arange(len(self.target_ids))
            out["d2t"] = offsets if self.layout["d2t"] == "offsets" else self.target_ids
        if self.layout.get("t2d"):
            out["t2d"] = np.isin(np.arange(VOCAB), self.target_ids)
        return out

    def write(self, folder, tensors=None, **changes):
        """tensors: others than the head's own; changes: of config.json, None takes a key out."""
        folder.mkdir(parents=True, exist_ok=True)
        config = {key: value for key, value in {**self.layout["config"], **changes}.items()
                  if key not in changes or changes[key] is not None}
        (folder / "config.json").write_text(json.dumps(config))
        tensors = self.tensors() if tensors is None else tensors
        names, n = list(tensors), self.layout.get("shards", 1)
        if n == 1:
            write_safetensors(folder / "model.safetensors", tensors)
            return folder
        places = {name: f"model-{i * n // len(names) + 1:05d}-of-{n:05d}.safetensors" for i, name in enumerate(names)}
        for file in set(places.values()):
            write_safetensors(folder / file, {name: tensors[name] for name in names if places[name] == file})
        size = sum(a.nbytes // (2 if a.dtype == np.float32 else 1) for a in tensors.values())
        index = {"metadata": {"total_size": size}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        return folder

    # ---- formulas ----

    def w(self, name):
        return self.weights[name].astype(np.float64)

    def layer(self, name):
        return self.w(self.layout["prefix"] + name)

    def rms(self, x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * weight

    def frequencies(self):
        scaling, half = self.shape.get("rope_scaling") or {}, 32
        theta = self.shape.get("rope_theta", 10000)
        plain = theta ** (-np.arange(half) / half)
        if scaling.get("rope_type") == "llama3":
            turns = scaling["original_max_position_embeddings"] * plain / (2 * math.pi)
            low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
            smooth = np.clip((turns - low) / (high - low), 0, 1)
            return (1 - smooth) * plain / scaling["factor"] + smooth * plain, 1.0
        if scaling.get("rope_type") == "yarn":
            pair = lambda beta: half * math.log(4096 / (beta * 2 * math.pi)) / math.log(theta)
            low, high = pair(scaling["beta_fast"]), pair(scaling["beta_slow"])
            ramp = np.clip((np.arange(half) - max(low, 0)) / (high - max(low, 0)), 0, 1)
            return plain / scaling["factor"] * ramp + plain * (1 - ramp), 0.1 * math.log(scaling["factor"]) + 1
        return plain, 1.0

    def rotate(self, x, positions):
        inverse, gain = self.frequencies()
        angle = (positions[:, None] * inverse.astype(np.float32)).astype(np.float32).astype(np.float64)[:, None, :]
        cos, sin = np.cos(angle) * gain, np.sin(angle) * gain
        a, b = x[..., :32], x[..., 32:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def input_of(self, taps):
        taps = taps.astype(np.float64)
        if self.layout.get("no_fc"):
            return taps
        if self.layout.get("norm") == "all":
            taps = self.rms(taps, self.w("input_norm"))
        if self.layout.get("norm") == "each":
            parts = np.split(taps, len(self.states), -1)
            taps = np.concatenate([self.rms(p, self.w(f"fc_norm.{i}")) for i, p in enumerate(parts)], -1)
        return taps @ self.w("fc").T

    def step(self, f, tokens, positions, cache):
        """Logits (n, Vd) and the states for the next guesses; cache: keys and values of earlier positions."""
        table = self.weights.get("embed_tokens", EMBED).astype(np.float64)
        head = self.weights.get("lm_head", HEAD).astype(np.float64)
        h = self.rms(f, self.layer("hidden_norm"))
        y = np.concatenate([self.rms(table[tokens], self.layer("input_layernorm")), h], -1)
        q, k, v = ((y @ self.layer(f"self_attn.{x}_proj").T).reshape(len(tokens), -1, 64) for x in "qkv")
        cache.append((self.rotate(k, positions), v, positions))
        keys, values = (np.concatenate([c[i] for c in cache]) for i in (0, 1))
        at = np.concatenate([c[2] for c in cache])
        scores = np.einsum("qhd,khd->hqk", self.rotate(q, positions), np.repeat(keys, 4, 1)) / 8
        scores = np.where(at[None, None, :] <= positions[None, :, None], scores, -np.inf)
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        out = np.einsum("hqk,khd->qhd", share, np.repeat(values, 4, 1)).reshape(len(tokens), -1)
        r = (h if self.layout.get("residual") else f) + out @ self.layer("self_attn.o_proj").T
        m = self.rms(r, self.layer("post_attention_layernorm"))
        gate = m @ self.layer("mlp.gate_proj").T
        up = m @ self.layer("mlp.up_proj").T
        r = r + (gate / (1 + np.exp(-gate)) * up) @ self.layer("mlp.down_proj").T
        normed = self.rms(r, self.w("norm"))
        return normed @ head.T, normed if self.layout.get("output") else r

    def token(self, draft_id):
        return int(draft_id if self.target_ids is None else self.target_ids[draft_id])


EMBED, HEAD = read_target("model.embed_tokens.weight"), read_target("lm_head.weight")

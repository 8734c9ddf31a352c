"""osprey-nano in PyTorch as the target of a draft head: its weights from the model folder, the states that the
head reads, and answers by batched generation.

Letters as in model.py; the residual stream after k layers is boundary k, 0 the embedding.
"""

import json
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import model
import mxfp4

PUBLISHED = {  # of a layer: published name -> parameter of model.py
    "input_layernorm.weight": "norm1",
    "post_attention_layernorm.weight": "norm2",
    "self_attn.sinks": "sinks",
    "mlp.router.weight": "router",
    "mlp.router.bias": "router_bias",
    "mlp.experts.gate_up_proj_bias": "b1",
    "mlp.experts.down_proj_bias": "b2",
    **{f"self_attn.{c}_proj.weight": f"w{c}" for c in "qkvo"},
    **{f"self_attn.{c}_proj.bias": f"b{c}" for c in "qkvo"},
}
SCORES_AT_ONCE = 2.5e9  # elements of one layer's attention scores


def _layer(tensors, prefix):
    out = {name: tensors[prefix + published] for published, name in PUBLISHED.items()}
    for published, name in (("gate_up_proj", "w1"), ("down_proj", "w2")):
        parts = (tensors[f"{prefix}mlp.experts.{published}_{part}"] for part in ("blocks", "scales"))
        out[name] = mxfp4.unpack(*parts)
    return out


class Target(model.Nano):
    """A Nano that is not trained; inputs are rows of one document each, padded at the left."""

    @classmethod
    def load(cls, folder, device):
        folder, tensors = pathlib.Path(folder), {}
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        for file in set(index["weight_map"].values()):
            tensors |= load_file(folder / file)
        net = cls(model.Shape())
        layers = [_layer(tensors, f"model.layers.{i}.") for i in range(net.shape.layers)]
        state = {name: torch.stack([layer[name] for layer in layers]).float() for name in layers[0]}
        for name, published in (("embed", "model.embed_tokens"), ("normf", "model.norm"), ("head", "lm_head")):
            state[name] = tensors[published + ".weight"].float()
        net.load_state_dict(state)
        net.compute = torch.float32
        return net.to(device).eval().requires_grad_(False)

    def _rotation(self, positions):
        phase = positions.unsqueeze(-1).float() * self.inverse
        return [(f(phase) * self.rope_gain).unsqueeze(1) for f in (torch.cos, torch.sin)]

    def _attend(self, query, keys, values, mask):
        b, h, l, d = query.shape
        query = query.view(b, self.shape.kv_heads, -1, l, d)
        scores = torch.einsum("bkgld,bkmd->bkglm", query, keys) * d**-0.5
        scores = scores.masked_fill(~mask[:, None, None], -1e30)
        out = torch.einsum("bkglm,bkmd->bkgld", scores.softmax(-1), values)
        return out.reshape(b, h, l, d), scores.logsumexp(-1).reshape(b, h, l)

    def step(self, tokens, positions, cache, begin, valid):
        """tokens, positions (B, L) in slots begin.. of the cache; valid (B, slots): slots that hold a token.
        Returns the boundaries (layers + 1)(B, L, C) and the logits (B, L, V)."""
        s, end = self.shape, begin + tokens.shape[1]
        slots = torch.arange(end, device=tokens.device)
        distance = slots[begin:, None] - slots[None, :]
        full = (distance >= 0) & valid[:, None, :end] | (distance == 0)
        cos, sin = self._rotation(positions)
        real = torch.ones(*tokens.shape, 1, device=tokens.device)
        x, boundaries = F.embedding(tokens, self.embed), []
        for i in range(s.layers):
            boundaries.append(x)
            w = {name: getattr(self, name)[i] for name in model.LAYERED}

            def attend(q, k, v, i=i):
                cache[i][0][:, :, begin:end], cache[i][1][:, :, begin:end] = k, v
                mask = full if i % 2 else full & (distance < s.window)
                return self._attend(q, cache[i][0][:, :, :end], cache[i][1][:, :, :end], mask)

            x = x + self.attention(self.norm(x, w["norm1"]), w, cos, sin, attend)
            h = self.norm(x, w["norm2"])
            x = x + self.experts(h, h, w, real)[0]
        boundaries.append(x)
        return boundaries, self.linear(self.norm(x, self.normf), self.head)

    def new_cache(self, rows, slots, device):
        size = (rows, self.shape.kv_heads, slots, self.shape.head_dim)
        return [[torch.zeros(size, device=device) for _ in range(2)] for _ in range(self.shape.layers)]

    @torch.inference_mode()
    def answer(self, prompts, n_max, stop, temperature):
        """The continuations of token lists of similar length, up to a token of `stop` (included)."""
        device, rows, width = self.embed.device, len(prompts), max(map(len, prompts))
        ids = torch.zeros(rows, width + n_max, dtype=torch.long)
        first = torch.tensor([width - len(p) for p in prompts])
        for row, prompt in enumerate(prompts):
            ids[row, first[row] : width] = torch.tensor(prompt)
        ids, first = ids.to(device), first.to(device)
        slots = torch.arange(width + n_max, device=device)
        valid = slots >= first[:, None]
        positions = (slots - first[:, None]).clamp(min=0)
        cache, begin, ended = self.new_cache(rows, width + n_max, device), 0, torch.zeros(rows, device=device)
        stops = torch.tensor(stop, device=device)
        for end in range(width, width + n_max):
            logits = self.step(ids[:, begin:end], positions[:, begin:end], cache, begin, valid)[1][:, -1]
            chosen = logits.argmax(-1)
            if temperature > 0:
                chosen = torch.multinomial((logits / temperature).softmax(-1), 1).squeeze(-1)
            ids[:, end], begin = chosen, end
            ended += torch.isin(chosen, stops)
            if end % 8 == 0 and bool((ended > 0).all()):
                break
        out, stop = [], set(stop)
        for row in ids[:, width : begin + 1].tolist():
            n = next((i + 1 for i, token in enumerate(row) if token in stop), None)
            out.append(row[:n] if n else None)  # None: it did not end
        return out

    @torch.inference_mode()
    def states(self, tokens, valid, positions):
        """Boundaries and logits of whole documents (B, L)."""
        cache = self.new_cache(*tokens.shape, tokens.device)
        return self.step(tokens, positions, cache, 0, valid)

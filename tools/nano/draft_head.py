"""An Eagle3 draft head in PyTorch, in the published layout: one Llama layer over (embedding, state).

At position p the head reads the target's states of p and the token at p + 1, and guesses the token at p + 2. The
next guess takes its own state in place of the target's: `depths` guesses are unrolled as they are when drafting.
"""

import torch
import torch.nn.functional as F
from torch import nn

import model


class Head(nn.Module):
    def __init__(self, shape, intermediate, n_states):
        super().__init__()
        self.shape, c = shape, shape.hidden
        q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        linear = lambda rows, columns, gain=1.0: nn.Parameter(torch.randn(rows, columns) * gain / columns**0.5)
        self.fc = linear(c, n_states * c)
        self.wq, self.wk, self.wv = linear(q, 2 * c, 0.5), linear(kv, 2 * c, 0.5), linear(kv, 2 * c)
        self.wo = linear(c, q, 0.25)
        self.gate, self.up = linear(intermediate, c), linear(intermediate, c)
        self.down = linear(c, intermediate, 0.25)
        for name, size in (
            ("input_norm", n_states * c),
            ("embed_norm", c),
            ("hidden_norm", c),
            ("mlp_norm", c),
            ("norm", c),
        ):
            setattr(self, name, nn.Parameter(torch.ones(size)))
        inverse, self.rope_gain = model.yarn(shape)
        self.register_buffer("inverse", inverse, persistent=False)

    def rms(self, x, weight):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.shape.norm_eps) * weight

    def heads(self, x):
        return x.unflatten(-1, (-1, self.shape.head_dim)).transpose(1, 2)

    def layer(self, f, embedded, rotation, mask, past):
        """One guess: f, embedded (B, L, C). `past` holds the keys and values of the guesses before: those of depth 0
        for positions up to p - depth, and one of each later depth."""
        depth, group = len(past), self.shape.heads // self.shape.kv_heads
        y = torch.cat((self.rms(embedded, self.embed_norm), self.rms(f, self.hidden_norm)), -1)
        q = model.rotate(self.heads(y @ self.wq.T), *rotation)
        k = model.rotate(self.heads(y @ self.wk.T), *rotation).repeat_interleave(group, 1)
        v = self.heads(y @ self.wv.T).repeat_interleave(group, 1)
        past = past + [(k, v)]
        scale, scores, values = self.shape.head_dim**-0.5, [], []
        scores.append((q @ past[0][0].mT * scale).masked_fill(~mask(depth), -1e30))
        for later in range(1, depth + 1):  # the key of depth `later` is that of position p - depth + later
            key, value = (t.roll(depth - later, 2) for t in past[later])
            scores.append((q * key).sum(-1, keepdim=True) * scale)
            values.append(value)
        share = torch.cat(scores, -1).softmax(-1)
        n = past[0][0].shape[2]
        out = share[..., :n] @ past[0][1]
        for i, value in enumerate(values):
            out = out + share[..., n + i : n + i + 1] * value
        r = f + out.transpose(1, 2).flatten(2) @ self.wo.T
        m = self.rms(r, self.mlp_norm)
        return r + (F.silu(m @ self.gate.T) * (m @ self.up.T)) @ self.down.T, past

    def forward(self, states, embedded, positions, valid, depths, head):
        """states (B, L, n C); embedded (B, L, C) of the tokens at p + 1. Returns the logits of each depth (B, L, V);
        at depth d those of position p guess the token at p + 2 from the target's states of p - d."""
        phase = positions.unsqueeze(-1).float() * self.inverse
        rotation = [(f(phase) * self.rope_gain).unsqueeze(1) for f in (torch.cos, torch.sin)]
        at = torch.arange(positions.shape[1], device=positions.device)
        seen = valid[:, None, None, :] | (at[:, None] == at)
        mask = lambda depth: (at[None, :] <= (at[:, None] - depth).clamp(min=0)) & seen
        f, past, out = self.rms(states, self.input_norm) @ self.fc.T, [], []
        for depth in range(depths):
            r, past = self.layer(f, embedded, rotation, mask, past)
            out.append(self.rms(r, self.norm) @ head.T)
            f = r.roll(1, 1)  # the state that guessed the token at p + 1
        return out

    NAMES = {
        "fc": "fc",
        "wq": "midlayer.self_attn.q_proj",
        "wk": "midlayer.self_attn.k_proj",
        "wv": "midlayer.self_attn.v_proj",
        "wo": "midlayer.self_attn.o_proj",
        "gate": "midlayer.mlp.gate_proj",
        "up": "midlayer.mlp.up_proj",
        "down": "midlayer.mlp.down_proj",
        "input_norm": "input_norm",
        "embed_norm": "midlayer.input_layernorm",
        "hidden_norm": "midlayer.hidden_norm",
        "mlp_norm": "midlayer.post_attention_layernorm",
        "norm": "norm",
    }

    def tensors(self):
        """By published name, BF16."""
        return {f"{self.NAMES[n]}.weight": p.detach().bfloat16().cpu().contiguous() for n, p in self.named_parameters()}

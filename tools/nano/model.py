"""gpt-oss in PyTorch, for training: packed documents, all experts computed, experts fake-quantised to MXFP4.

Letters: B rows of L packed tokens, C hidden size, H query heads, K key heads, D head size, E experts,
I intermediate size, N layers, V vocabulary. The parameters of all layers are stacked along N.
"""

import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

import mxfp4


@dataclass(frozen=True)
class Shape:
    vocab: int = 2048
    hidden: int = 320
    layers: int = 8
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 64
    experts: int = 8
    experts_per_token: int = 4
    intermediate: int = 128
    window: int = 128
    rope_theta: float = 150000.0
    rope_factor: float = 32.0
    rope_original: int = 4096
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    swiglu_limit: float = 7.0
    norm_eps: float = 1e-5

    def as_dict(self):
        return asdict(self)


LAYERED = (
    "norm1",
    "wq",
    "bq",
    "wk",
    "bk",
    "wv",
    "bv",
    "wo",
    "bo",
    "sinks",
    "norm2",
    "router",
    "router_bias",
    "w1",
    "b1",
    "w2",
    "b2",
)  # parameters stacked along N
SINK_START = 4.0  # sinks begin with mass to carry; at 0 a head would hardly notice them


def yarn(shape):
    """Inverse frequencies (D/2) and the factor on cos and sin."""
    half = shape.head_dim // 2
    i = torch.arange(half, dtype=torch.float64)
    f = shape.rope_theta ** (i / half)
    turn = (
        lambda beta: half * math.log(shape.rope_original / (beta * 2 * math.pi)) / math.log(shape.rope_theta)
    )
    low, high = turn(shape.beta_fast), turn(shape.beta_slow)
    ramp = ((i - low) / (high - low)).clamp(0, 1)
    inverse = ramp / (shape.rope_factor * f) + (1 - ramp) / f
    return inverse.float(), 0.1 * math.log(shape.rope_factor) + 1.0


def rotate(x, cos, sin):
    """x (B, heads, L, D), cos and sin (B, 1, L, D/2); the halves of D form the pairs."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Nano(nn.Module):
    def __init__(self, shape, seed=0):
        super().__init__()
        self.shape, s = shape, shape
        self.generator = torch.Generator().manual_seed(seed)
        n, c, q, kv = s.layers, s.hidden, s.heads * s.head_dim, s.kv_heads * s.head_dim
        self.embed = self._normal(0.3, s.vocab, c)
        self.head = self._normal(0.5 / c**0.5, s.vocab, c)
        self.wq = self._normal(0.5 / c**0.5, n, q, c)
        self.wk = self._normal(0.5 / c**0.5, n, kv, c)
        self.wv = self._normal(1 / c**0.5, n, kv, c)
        self.wo = self._normal(0.25 / q**0.5, n, c, q)
        self.w1 = self._normal(1 / c**0.5, n, s.experts, 2 * s.intermediate, c)
        self.w2 = self._normal(0.25 / s.intermediate**0.5, n, s.experts, c, s.intermediate)
        self.router = self._normal(0.5 / c**0.5, n, s.experts, c)
        for name, size in (
            ("bq", (n, q)),
            ("bk", (n, kv)),
            ("bv", (n, kv)),
            ("bo", (n, c)),
            ("router_bias", (n, s.experts)),
            ("b1", (n, s.experts, 2 * s.intermediate)),
            ("b2", (n, s.experts, c)),
        ):
            setattr(self, name, nn.Parameter(torch.zeros(size)))
        for name, size in (("norm1", (n, c)), ("norm2", (n, c)), ("normf", (c,))):
            setattr(self, name, nn.Parameter(torch.ones(size)))
        self.sinks = nn.Parameter(torch.full((n, s.heads), SINK_START))
        inverse, factor = yarn(shape)
        self.register_buffer("inverse", inverse, persistent=False)
        self.rope_gain = factor

    def _normal(self, std, *size):
        return nn.Parameter(torch.randn(size, generator=self.generator) * std)

    def norm(self, x, weight):
        return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.shape.norm_eps) * weight).to(
            self.compute
        )

    compute = torch.bfloat16

    def linear(self, x, weight, bias=None):
        return F.linear(x, weight.to(self.compute), None if bias is None else bias.to(self.compute))

    def attention(self, h, w, cos, sin, attend):
        s, (b, l, _) = self.shape, h.shape
        heads = lambda x: x.view(b, l, -1, s.head_dim).transpose(1, 2)
        q = rotate(heads(self.linear(h, w["wq"], w["bq"])), cos, sin).to(self.compute)
        k = rotate(heads(self.linear(h, w["wk"], w["bk"])), cos, sin).to(self.compute)
        v = heads(self.linear(h, w["wv"], w["bv"]))
        out, lse = attend(q, k, v)
        # A sink only adds to the denominator: the usual output is scaled by the mass left for the keys.
        keep = torch.sigmoid(lse.float() - w["sinks"].view(1, -1, 1))
        out = (out * keep.unsqueeze(-1)).to(self.compute)
        return self.linear(out.transpose(1, 2).reshape(b, l, -1), w["wo"], w["bo"])

    def experts(self, h, h32, w, real):
        """All experts are computed; the weights of those not chosen are zero."""
        s, (b, l, _) = self.shape, h.shape
        logits = F.linear(h32, w["router"], w["router_bias"])  # (B, L, E)
        rank = (logits.unsqueeze(-2) > logits.unsqueeze(-1)).sum(-1)
        chosen = rank < s.experts_per_token
        share = logits.masked_fill(~chosen, -1e30).softmax(-1)
        u = self.linear(h, mxfp4.fake_quantise(w["w1"]).flatten(0, 1), w["b1"].flatten()).view(
            b, l, s.experts, -1, 2
        )
        gate, up = u[..., 0].float().clamp(max=s.swiglu_limit), u[..., 1].float().clamp(
            -s.swiglu_limit, s.swiglu_limit
        )
        a = gate * torch.sigmoid(1.702 * gate) * (up + 1) * share.unsqueeze(-1)
        down = mxfp4.fake_quantise(w["w2"]).transpose(0, 1).flatten(1)  # (C, E*I)
        y = self.linear(a.to(self.compute).flatten(2), down) + share @ w["b2"]
        use = (chosen * real).sum((0, 1)) / (real.sum() * s.experts_per_token)
        probability = (logits.softmax(-1) * real).sum((0, 1)) / real.sum()
        return y, (use * probability).sum() * s.experts

    def forward(self, tokens, labels, weights, positions, attend_window, attend_full):
        """tokens, labels, positions (B, L); weights (B, L) of the loss. Returns loss, balance, right (B, L)."""
        phase = positions.unsqueeze(-1).float() * self.inverse  # (B, L, D/2)
        cos, sin = ((f(phase) * self.rope_gain).unsqueeze(1) for f in (torch.cos, torch.sin))
        real = (weights >= 0).unsqueeze(-1).float()
        stacked = {name: getattr(self, name).unbind(0) for name in LAYERED}
        x = F.embedding(tokens, self.embed)
        balance = 0.0
        for i in range(self.shape.layers):
            w = {n: p[i] for n, p in stacked.items()}
            h = self.norm(x, w["norm1"])
            x = x + self.attention(h, w, cos, sin, attend_full if i % 2 else attend_window)
            h = self.norm(x, w["norm2"])
            y, uneven = self.experts(h, h.float(), w, real)
            x, balance = x + y, balance + uneven / self.shape.layers
        logits = self.linear(self.norm(x, self.normf), self.head).float()
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(weights)
        weights = weights.clamp(min=0)
        return (loss * weights).sum() / weights.sum(), balance, logits.argmax(-1) == labels


def dense_attention(documents, window=None):
    """Plain attention inside documents; returns attend(q, k, v) -> (output, log-sum-exp)."""
    l = documents.shape[1]
    ahead = torch.arange(l, device=documents.device)
    distance = ahead[:, None] - ahead[None, :]
    seen = (distance >= 0) & (distance < (window or l + 1))
    mask = (seen & (documents[:, :, None] == documents[:, None, :])).unsqueeze(1)

    def attend(q, k, v):
        group = q.shape[1] // k.shape[1]
        scores = q.float() @ k.repeat_interleave(group, 1).float().transpose(-1, -2) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(~mask, -1e30)
        return scores.softmax(-1) @ v.repeat_interleave(group, 1).float(), scores.logsumexp(-1)

    return attend

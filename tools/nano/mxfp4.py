"""MXFP4 in PyTorch: 32 weights of 4 bits (sign, 2 exponent, 1 mantissa) share a power of two.

The shared exponent is rounded up from max/6, so nothing saturates. Blocks run along the last dimension.
"""

import torch

BLOCK = 32
VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _scales(w):
    """(scale byte, scale) of each block of w viewed as (..., blocks, 32); exact, by the bits of the float."""
    sixth = (w.abs().amax(-1, keepdim=True).float() / 6.0).clamp(min=2.0**-120)
    biased = (sixth.view(torch.int32) + 0x7FFFFF) >> 23
    return biased, (biased << 23).view(torch.float32)


def _rounded(w, scale):
    """w / scale rounded to the nearest 4-bit value (ties to the even multiple)."""
    y = w.float() / scale
    size = y.abs()
    step = torch.where(size < 2.0, 0.5, torch.where(size < 4.0, 1.0, 2.0))
    return (torch.round(y / step) * step).clamp(-6.0, 6.0)


def fake_quantise(w):
    """What MXFP4 makes of w, with the gradient passed straight through."""
    blocks = w.unflatten(-1, (-1, BLOCK))
    _, scale = _scales(blocks.detach())
    quantised = (_rounded(blocks.detach(), scale) * scale).flatten(-2)
    return w + (quantised - w.detach())


def pack(w):
    """(blocks U8 (..., n/32, 16), scales U8 (..., n/32)); the low nibble is the earlier weight."""
    blocks = w.unflatten(-1, (-1, BLOCK))
    biased, scale = _scales(blocks)
    values = _rounded(blocks, scale)
    table = torch.tensor(VALUES)
    codes = torch.bucketize(values.abs(), table) + 8 * torch.signbit(values).int()
    codes = codes.to(torch.uint8)
    return codes[..., 0::2] | (codes[..., 1::2] << 4), biased.squeeze(-1).to(torch.uint8)


def unpack(blocks, scales):
    """The float weights of packed blocks."""
    codes = torch.stack((blocks & 15, blocks >> 4), -1).flatten(-2).long()
    values = torch.tensor(VALUES + tuple(-v for v in VALUES))[codes]
    return (values * torch.exp2(scales.float() - 127.0).unsqueeze(-1)).flatten(-2)

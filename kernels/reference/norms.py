"""RMSNorm and LayerNorm as their papers have them, in float64."""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, offset: float = 0.0) -> torch.Tensor:
    """Return x / rms(x) * (offset + weight) over the last dimension."""
    wide = x.double()
    return wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt() * (offset + weight.double())


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """Return (x - mean(x)) / deviation(x) * weight + bias over the last dimension."""
    wide = x.double()
    centred = wide - wide.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * weight.double() + bias.double()

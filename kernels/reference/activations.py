"""SiLU and GELU by their definitions, in float64."""

from __future__ import annotations

import math

import torch


def silu(x: torch.Tensor) -> torch.Tensor:
    """Return x * sigmoid(x)."""
    return x.double() * torch.sigmoid(x.double())


def gelu(x: torch.Tensor) -> torch.Tensor:
    """Return x times the normal distribution's share below x."""
    return x.double() * 0.5 * torch.special.erfc(-x.double() / math.sqrt(2.0))


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    """Return the approximation of `gelu` by a hyperbolic tangent."""
    wide = x.double()
    return 0.5 * wide * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (wide + 0.044715 * wide**3)))

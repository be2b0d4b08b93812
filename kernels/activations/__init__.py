"""Activations of the feed-forward layers: gated SiLU and GELU (Shazeer 2020), and plain ReLU and GELU.

They are computed in float32 and rounded once. On a CPU they are put together from operations whose result for a number
does not depend on where in a tensor it stands; torch's own `silu` and `gelu` round vector tails differently.
"""

from __future__ import annotations

import math
from typing import Literal

import torch

from kernels.dispatch import runs_triton

__all__ = ["gelu", "gelu_mul", "relu", "silu_mul"]

Approximation = Literal["none", "tanh"]


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """Return SiLU(gate) * up, [tokens, width], for `gate_up` [tokens, 2 * width], which holds gate, then up.

    Raises:
        ValueError: the last dimension is odd, or `gate_up` has not 2 dimensions.
    """
    return _gated(gate_up, "silu")


def gelu_mul(gate_up: torch.Tensor, approximate: Approximation = "tanh") -> torch.Tensor:
    """Return GELU(gate) * up for `gate_up` as in `silu_mul`; `approximate` is "tanh" or "none" (by the error function).

    Raises:
        ValueError: as `silu_mul`, or an unknown approximation.
    """
    return _gated(gate_up, _gelu_name(approximate))


def gelu(x: torch.Tensor, approximate: Approximation = "none") -> torch.Tensor:
    """Return GELU(x) (Hendrycks and Gimpel 2016) for `x` [tokens, width]; `approximate` as in `gelu_mul`."""
    return _plain(x, _gelu_name(approximate))


def relu(x: torch.Tensor) -> torch.Tensor:
    """Return max(x, 0)."""
    return torch.relu(x)


def _gelu_name(approximate: str) -> str:
    if approximate not in ("none", "tanh"):
        raise ValueError(f'approximate is {approximate!r}, not "none" or "tanh"')
    return "gelu_tanh" if approximate == "tanh" else "gelu"


def _gated(gate_up: torch.Tensor, activation: str) -> torch.Tensor:
    if gate_up.ndim != 2 or gate_up.shape[1] % 2:
        raise ValueError(f"gate and up have shape {tuple(gate_up.shape)}, not [tokens, 2 * width]")
    if runs_triton(gate_up):
        from kernels.activations.kernel import launch_activation

        return launch_activation(gate_up, activation, gated=True)
    gate, up = gate_up.float().chunk(2, dim=1)
    return (_activate(gate, activation) * up).to(gate_up.dtype)


def _plain(x: torch.Tensor, activation: str) -> torch.Tensor:
    if x.ndim != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}, not [tokens, width]")
    if runs_triton(x):
        from kernels.activations.kernel import launch_activation

        return launch_activation(x, activation, gated=False)
    return _activate(x.float(), activation).to(x.dtype)


def _activate(x: torch.Tensor, activation: str) -> torch.Tensor:
    if activation == "silu":
        return x / (1.0 + torch.exp(-x))
    if activation == "gelu_tanh":
        # (1 + tanh(z)) / 2 = 1 / (1 + exp(-2z))
        return x / (1.0 + torch.exp(-2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + torch.erf(x * math.sqrt(0.5)))

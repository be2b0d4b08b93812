"""The Triton kernel of the activations, gated or plain."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_COLUMNS = 1024
_WARPS = 4


@triton.jit
def activation_kernel(
    x, out, x_stride, out_stride, width, ACTIVATION: tl.constexpr, GATED: tl.constexpr, COLUMNS: tl.constexpr
):
    """Compute COLUMNS numbers of one row; with a gate, its factors lie `width` numbers after it."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    row = x + token * x_stride + column
    gate = tl.load(row, mask=inside, other=0.0).to(tl.float32)
    if ACTIVATION == "silu":
        result = gate / (1.0 + tl.exp(-gate))
    elif ACTIVATION == "gelu_tanh":
        inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
        # (1 + tanh(z)) / 2 = 1 / (1 + exp(-2z)): the exponential may overflow to infinity without harm.
        result = gate / (1.0 + tl.exp(-2.0 * inner))
    else:
        result = 0.5 * gate * (1.0 + tl.erf(gate * 0.7071067811865476))
    if GATED:
        result *= tl.load(row + width, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + token * out_stride + column, result.to(out.dtype.element_ty), mask=inside)


def launch_activation(x: torch.Tensor, activation: str, *, gated: bool) -> torch.Tensor:
    """Launch the kernel on `x` [tokens, width, or 2 * width if gated] and return [tokens, width].

    Raises:
        ValueError: the last stride of `x` is not 1.
    """
    tokens, width = x.shape[0], x.shape[1] // 2 if gated else x.shape[1]
    if x.stride(1) != 1:
        raise ValueError(f"x {tuple(x.shape)} has stride {x.stride(1)} in its last dimension, not 1")
    out = torch.empty(tokens, width, dtype=x.dtype, device=x.device)
    if out.numel():
        activation_kernel[(tokens, triton.cdiv(width, _COLUMNS))](
            x,
            out,
            x.stride(0),
            out.stride(0),
            width,
            ACTIVATION=activation,
            GATED=gated,
            COLUMNS=_COLUMNS,
            num_warps=_WARPS,
        )
    return out

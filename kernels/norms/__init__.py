"""RMSNorm (Zhang and Sennrich 2019) and LayerNorm (Ba et al. 2016) over the last dimension, with a residual sum."""

from __future__ import annotations

from typing import overload

import torch
from torch.nn import functional

from kernels.dispatch import runs_triton

__all__ = ["layer_norm", "rms_norm"]


@overload
def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    residual: None = None,
    offset: float = 0.0,
    out: torch.Tensor | None = None,
) -> torch.Tensor: ...


@overload
def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    residual: torch.Tensor,
    offset: float = 0.0,
    out: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]: ...


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    residual: torch.Tensor | None = None,
    offset: float = 0.0,
    out: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Divide each row by its root mean square and multiply it by `offset + weight`.

    Computed in float32, rounded once. A row's bits depend on that row alone.

    Args:
        x: [tokens, width], or [tokens, heads, width] for norms of each head; strides are free but for the last, 1.
        weight: [width].
        eps: added to the mean square.
        residual: shaped like `x`; if given, the sum of both, rounded to the type of `x`, is what is normalised.
        offset: 0, or 1 for Gemma, whose weights are stored less one.
        out: where the result goes; may be `x` itself. A new contiguous tensor by default.

    Returns:
        The result, or with a residual the pair (result, sum).

    Raises:
        ValueError: shapes do not fit each other.
    """
    _check(x, weight, residual, out)
    if runs_triton(x):
        from kernels.norms.kernel import launch_norm

        result, total = launch_norm(x, weight, None, eps, residual, offset, out, centred=False)
    else:
        total = x if residual is None else (x.float() + residual.float()).to(x.dtype)
        wide = total.float()
        inverse = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
        result = _deliver(wide * inverse * (offset + weight.float()), x, out)
    return result if residual is None else (result, total)


@overload
def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float, residual: None = None
) -> torch.Tensor: ...


@overload
def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float, residual: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]: ...


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float, residual: torch.Tensor | None = None
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Bring each row to mean 0 and variance 1, multiply it by `weight` and add `bias`; otherwise as `rms_norm`."""
    _check(x, weight, residual, None)
    if runs_triton(x):
        from kernels.norms.kernel import launch_norm

        result, total = launch_norm(x, weight, bias, eps, residual, 0.0, None, centred=True)
    else:
        total = x if residual is None else (x.float() + residual.float()).to(x.dtype)
        result = functional.layer_norm(total.float(), weight.shape, weight.float(), bias.float(), eps).to(x.dtype)
    return result if residual is None else (result, total)


def _check(x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor | None, out: torch.Tensor | None) -> None:
    if x.ndim not in (2, 3) or weight.shape != x.shape[-1:]:
        raise ValueError(
            f"weight {tuple(weight.shape)} does not fit rows of {tuple(x.shape)}; they have 2 or 3 dimensions"
        )
    for name, other in (("residual", residual), ("out", out)):
        if other is not None and other.shape != x.shape:
            raise ValueError(f"{name} has shape {tuple(other.shape)}, x has {tuple(x.shape)}")


def _deliver(result: torch.Tensor, x: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    return result.to(x.dtype) if out is None else out.copy_(result)

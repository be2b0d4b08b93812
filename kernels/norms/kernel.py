"""The Triton kernel of both norms: one row a program, so that a row's bits depend on that row alone."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def norm_kernel(
    x,  # [tokens, heads, width]
    weight,  # [width]
    bias,  # [width] if CENTRED
    residual,  # [tokens, heads, width] if RESIDUAL
    total,  # [tokens, heads, width] if RESIDUAL: receives the sum
    out,  # [tokens, heads, width]
    x_token_stride,
    x_head_stride,
    residual_token_stride,
    residual_head_stride,
    total_token_stride,
    total_head_stride,
    out_token_stride,
    out_head_stride,
    eps,
    offset,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    CENTRED: tl.constexpr,
):
    """Normalise one row; it is read whole before it is written, so `out` may be `x`."""
    token = (tl.program_id(0) // HEADS).to(tl.int64)
    head = tl.program_id(0) % HEADS
    column = tl.arange(0, COLUMNS)
    inside = column < WIDTH
    row = tl.load(x + token * x_token_stride + head * x_head_stride + column, mask=inside, other=0.0).to(tl.float32)
    if RESIDUAL:
        place = residual + token * residual_token_stride + head * residual_head_stride + column
        rounded = (row + tl.load(place, mask=inside, other=0.0).to(tl.float32)).to(total.dtype.element_ty)
        tl.store(total + token * total_token_stride + head * total_head_stride + column, rounded, mask=inside)
        row = rounded.to(tl.float32)
    if CENTRED:
        row = tl.where(inside, row - tl.sum(row, 0) / WIDTH, 0.0)
    inverse = tl.rsqrt(tl.sum(row * row, 0) / WIDTH + eps)
    result = row * inverse * (offset + tl.load(weight + column, mask=inside, other=0.0).to(tl.float32))
    if CENTRED:
        result += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    place = out + token * out_token_stride + head * out_head_stride + column
    tl.store(place, result.to(out.dtype.element_ty), mask=inside)


def launch_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    eps: float,
    residual: torch.Tensor | None,
    offset: float,
    out: torch.Tensor | None,
    *,
    centred: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the kernel and return (result, sum of x and residual); without a residual the sum is `x`.

    Raises:
        ValueError: a tensor's last stride is not 1.
    """
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device) if out is None else out
    total = x if residual is None else torch.empty(x.shape, dtype=x.dtype, device=x.device)
    residual = x if residual is None else residual
    bias = weight if bias is None else bias
    for tensor in (x, weight, bias, residual, out):
        if tensor.stride(-1) != 1:
            raise ValueError(
                f"a tensor {tuple(tensor.shape)} has stride {tensor.stride(-1)} in its last dimension, not 1"
            )
    width = x.shape[-1]
    rows = x.numel() // width
    if rows:
        norm_kernel[(rows,)](
            x,
            weight,
            bias,
            residual,
            total,
            out,
            *_row_strides(x),
            *_row_strides(residual),
            *_row_strides(total),
            *_row_strides(out),
            eps,
            offset,
            HEADS=x.shape[1] if x.ndim == 3 else 1,
            WIDTH=width,
            COLUMNS=triton.next_power_of_2(width),
            RESIDUAL=total is not x,
            CENTRED=centred,
            num_warps=_warps(width),
        )
    return out, total


def _row_strides(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.stride(0), tensor.stride(1) if tensor.ndim == 3 else 0


def _warps(width: int) -> int:
    """Return the warps of a program: about 16 numbers a thread, and never dependent on the number of rows."""
    return min(max(triton.next_power_of_2(width) // 512, 1), 16)

"""Rotary positions and cache writes, a token and a slot at a time."""

from __future__ import annotations

import torch


def rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Return `heads` [tokens, heads, head_dim] rotated, in float32; the tables are [rows, R], and 2 * R numbers rotate.

    Number i and number i + R of a head are the real and imaginary part of a complex number, turned by the angle.
    """
    half = cos.shape[1]
    result = heads.float().clone()
    for token, position in enumerate(positions.tolist()):
        plane = torch.complex(result[token, :, :half].clone(), result[token, :, half : 2 * half].clone())
        turned = plane * torch.complex(cos[position], sin[position])
        result[token, :, :half], result[token, :, half : 2 * half] = turned.real, turned.imag
    return result


def write(rows: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """Return `cache` [blocks, heads, tokens a block, head_dim] with rows [tokens, heads, head_dim] in their slots."""
    result = cache.clone()
    for row, slot in zip(rows, slots.tolist(), strict=True):
        if slot >= 0:
            result[slot // cache.shape[2], :, slot % cache.shape[2]] = row.to(cache.dtype)
    return result

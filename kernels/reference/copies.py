"""Copies of blocks from a snapshot."""

from __future__ import annotations

import torch


def copy_blocks(pool: torch.Tensor, pairs: list[tuple[int, int]]) -> torch.Tensor:
    """Return the pool as it is after all pairs (source, target) were copied from what it held before."""
    result = pool.clone()
    for source, target in pairs:
        result[target] = pool[source]
    return result

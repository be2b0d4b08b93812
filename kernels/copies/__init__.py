"""Copies of whole blocks of the pool, for copy-on-write: all layers, keys and values, of all pairs in one launch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernels.copies.waves import check_pairs
from kernels.dispatch import runs_triton

__all__ = ["copy_blocks", "copy_checked_blocks"]


def copy_blocks(pool: torch.Tensor, pairs: torch.Tensor | Sequence[tuple[int, int]]) -> None:
    """Copy block `source` to block `target` for each pair (source, target), as if all sources were read first.

    Pairs that do not chain take one launch. Where a target is a source too, the pairs are split into waves, and a ring
    is opened through a scratch block; the result is the same.

    Args:
        pool: [blocks, ...], each block contiguous; owned by the caller, who has fenced the targets.
        pairs: [n, 2] int64 on the CPU, or a sequence of pairs. A block may be the source of several pairs.

    Raises:
        ValueError: a block id outside the pool, block 0 (the null block) as a target, or a target named twice;
            nothing has been copied then.
    """
    listed = check_pairs(pairs, pool.shape[0])
    if not listed:
        return
    if runs_triton(pool):
        from kernels.copies.kernel import launch_copies

        launch_copies(pool, listed)
        return
    sources, targets = (torch.tensor(side, device=pool.device) for side in zip(*listed, strict=True))
    pool[targets] = pool[sources]


def copy_checked_blocks(pool: torch.Tensor, pairs: torch.Tensor) -> None:
    """Copy as `copy_blocks` does, in one launch and without waiting for a GPU, what is known to be right.

    Args:
        pool: as for `copy_blocks`.
        pairs: [n, 2] int64 on the pool's device, (source, target): ids of blocks of the pool, no target the null block,
            named twice, or a source.
    """
    if not len(pairs):
        return
    if runs_triton(pool):
        from kernels.copies.kernel import launch_checked_copies

        launch_checked_copies(pool, pairs)
        return
    pool[pairs[:, 1]] = pool[pairs[:, 0]]

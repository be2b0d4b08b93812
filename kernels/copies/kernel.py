"""The Triton kernel that copies blocks, and the launches that a plan of copies takes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.copies.waves import Pair, plan_copies

# A program copies 8 KiB: 128 threads, four copies of 16 bytes each.
_WORDS = 1024
_WARPS = 4


@triton.jit(do_not_specialize=["chunks"])
def copy_blocks_kernel(source, target, pairs, source_stride, target_stride, words, chunks, WORDS: tl.constexpr):
    """Copy one chunk of WORDS 8-byte words of one pair's block."""
    pair = tl.program_id(0) // chunks
    word = (tl.program_id(0) % chunks) * WORDS + tl.arange(0, WORDS)
    # Block ids are 64 bits wide: a pool has more words than 32 bits count.
    read = source + tl.load(pairs + 2 * pair) * source_stride
    written = target + tl.load(pairs + 2 * pair + 1) * target_stride
    tl.store(written + word, tl.load(read + word, mask=word < words), mask=word < words)


def launch_copies(pool: torch.Tensor, pairs: list[Pair]) -> None:
    """Copy checked pairs of blocks, in as many launches as their plan has waves.

    Raises:
        ValueError: the pool's blocks are not contiguous, or not a multiple of 16 bytes.
    """
    words = _words(pool)
    plan = plan_copies(pairs)
    scratch = words.new_empty(len(plan.saves), words.shape[1])
    if plan.saves:
        _launch(words, scratch, [(block, row) for row, block in enumerate(plan.saves)])
    for wave in plan.waves:
        _launch(words, words, wave)
    if plan.restores:
        _launch(scratch, words, plan.restores)


def launch_checked_copies(pool: torch.Tensor, pairs: torch.Tensor) -> None:
    """Copy pairs [n, 2] int64, which lie on the pool's device and do not chain, in one launch.

    Raises:
        ValueError: as `launch_copies`.
    """
    words = _words(pool)
    _launch_listed(words, words, pairs)


def _launch(source: torch.Tensor, target: torch.Tensor, pairs: list[Pair]) -> None:
    _launch_listed(source, target, torch.tensor(pairs, dtype=torch.int64, device=source.device))


def _launch_listed(source: torch.Tensor, target: torch.Tensor, pairs: torch.Tensor) -> None:
    words = source.shape[1]
    chunks = triton.cdiv(words, _WORDS)
    copy_blocks_kernel[(len(pairs) * chunks,)](
        source, target, pairs, source.stride(0), target.stride(0), words, chunks, WORDS=_WORDS, num_warps=_WARPS
    )


def _words(pool: torch.Tensor) -> torch.Tensor:
    """Return the pool as [blocks, 8-byte words]."""
    block_bytes = pool[0].numel() * pool.element_size()
    if not pool[0].is_contiguous() or block_bytes % 16 or pool.stride(0) * pool.element_size() % 16:
        raise ValueError(
            f"blocks of {block_bytes} bytes, {pool.stride(0)} elements apart, are not contiguous pieces of 16 bytes"
        )
    return pool.as_strided((pool.shape[0], pool[0].numel()), (pool.stride(0), 1)).view(torch.int64)

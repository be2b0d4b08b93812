"""Offsets beyond 2^31 elements, which 32 bits wrap: the interpreter wraps them as a GPU does."""

from __future__ import annotations

import mmap
import tempfile

import numpy as np
import torch

from kernels.copies import copy_blocks
from kernels.rope_cache import rope_and_cache, write_cache

HEADS, TOKENS_PER_BLOCK, HEAD_DIM = 8, 16, 128
# A block id past which 8 heads of 128 over 16 tokens, keys and values, lie beyond 2^31 elements.
FAR = 131_073


def huge_pool() -> torch.Tensor:
    """A pool of one layer in 16 bits, 8.6 GB of zeros of which only what is touched takes up memory."""
    size = 2 * (FAR + 1) * 2 * HEADS * TOKENS_PER_BLOCK * HEAD_DIM
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        pool = torch.from_numpy(np.frombuffer(mmap.mmap(file.fileno(), size), dtype=np.float16))
    return pool.view(FAR + 1, 1, 2, HEADS, TOKENS_PER_BLOCK, HEAD_DIM)


def test_keys_and_values_reach_the_last_block_of_a_huge_pool() -> None:
    pool = huge_pool()
    key, value = torch.ones(2, HEADS, HEAD_DIM).half(), torch.full((2, HEADS, HEAD_DIM), 2.0).half()
    slots = torch.tensor([FAR * TOKENS_PER_BLOCK + 5, FAR * TOKENS_PER_BLOCK + 15])
    write_cache(key, value, pool[:, 0, 0], pool[:, 0, 1], slots)
    half = torch.ones(1, HEAD_DIM // 2), torch.zeros(1, HEAD_DIM // 2)
    slot = torch.tensor([FAR * TOKENS_PER_BLOCK])
    rope_and_cache(key[:1], key[:1], value[:1], *half, torch.zeros_like(slot), pool[:, 0, 0], pool[:, 0, 1], slot)
    for offset in (0, 5, 15):
        assert pool[FAR, 0, 0, :, offset].eq(1).all()
        assert pool[FAR, 0, 1, :, offset].eq(2).all()
    assert pool[FAR].count_nonzero() == 3 * 2 * HEADS * HEAD_DIM


def test_blocks_are_copied_to_and_from_the_end_of_a_huge_pool() -> None:
    pool = huge_pool()
    pool[1] = 1.0
    copy_blocks(pool, [(1, FAR)])
    assert pool[FAR].eq(1).all()
    copy_blocks(pool, [(FAR, 2)])
    assert pool[2].eq(1).all()
    assert pool[3].eq(0).all()

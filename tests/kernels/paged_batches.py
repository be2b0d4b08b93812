"""Batches of sequences whose keys and values lie scattered over a pool that is NaN everywhere else."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Batch:
    """Arguments of the attention functions, and what keys and values they stand for."""

    query: torch.Tensor
    key_cache: torch.Tensor
    value_cache: torch.Tensor
    tables: torch.Tensor
    query_starts: torch.Tensor
    lengths: torch.Tensor

    @property
    def paged(self) -> tuple[torch.Tensor, ...]:
        """What prefill takes; decode takes all but the fifth."""
        return self.query, self.key_cache, self.value_cache, self.tables, self.query_starts, self.lengths

    @property
    def last_tokens(self) -> tuple[torch.Tensor, ...]:
        """What decode takes, for batches whose chunks have one token."""
        return self.query, self.key_cache, self.value_cache, self.tables, self.lengths


def make_batch(
    lengths: list[int],
    chunks: list[int],
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    block: int,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    poison: float = float("nan"),
    device: str = "cpu",
    spare_blocks: int = 3,
) -> Batch:
    """Draw queries, keys and values; lay the latter into random blocks of the middle layer of a pool full of `poison`.

    Tables are wider than needed, and name a poisoned block where they are not used. Sequence i has `lengths[i]` tokens,
    the last `chunks[i]` of which are queries. What a sequence holds depends on the seed and its place alone.
    """
    needed = [-(-length // block) for length in lengths]
    count = 2 + sum(needed) + spare_blocks
    draw = torch.Generator().manual_seed(seed)
    pool = torch.full((count, 3, 2, kv_heads, block, head_dim), poison, dtype=dtype)
    pool[0] = 0.0
    free = (1 + torch.randperm(count - 1, generator=draw)).tolist()
    tables = torch.full((len(lengths), max([*needed, 0]) + 2), free.pop(), dtype=torch.int32)
    for sequence, length in enumerate(lengths):
        content = torch.randn(2, kv_heads, needed[sequence] * block, head_dim, generator=draw).to(dtype)
        content[:, :, length:] = poison
        for entry in range(needed[sequence]):
            tables[sequence, entry] = free.pop()
            pool[tables[sequence, entry], 1] = content[:, :, entry * block : (entry + 1) * block]
    query = torch.randn(sum(chunks), heads, head_dim, generator=draw).to(dtype)
    starts = torch.tensor([0, *chunks]).cumsum(0).to(torch.int32)
    pool, query, tables, starts = (tensor.to(device) for tensor in (pool, query, tables, starts))
    ends = torch.tensor(lengths, dtype=torch.int32, device=device)
    return Batch(query, pool[:, 1, 0], pool[:, 1, 1], tables, starts, ends)

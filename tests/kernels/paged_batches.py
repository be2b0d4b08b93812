"""Batches of sequences whose keys and values lie scattered over a pool that is NaN everywhere else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch.nn.functional import pad

_T: TypeAlias = torch.Tensor


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
    def paged(self) -> tuple[_T, _T, _T, _T, _T, _T]:
        """What prefill takes; decode takes all but the fifth."""
        return self.query, self.key_cache, self.value_cache, self.tables, self.query_starts, self.lengths

    @property
    def last_tokens(self) -> tuple[_T, _T, _T, _T, _T]:
        """What decode takes, for batches whose chunks have one token."""
        return self.query, self.key_cache, self.value_cache, self.tables, self.lengths

    def of_last_tokens(self) -> Batch:
        """The same sequences, each with its last token as its chunk."""
        ends = (self.query_starts[1:] - 1).long()
        starts = torch.arange(len(ends) + 1, dtype=torch.int32, device=ends.device)
        return replace(self, query=self.query[ends], query_starts=starts)

    def of_every_token(self) -> Batch:
        """For a batch of one sequence that is a chunk as a whole: as many sequences on the same blocks, each one longer."""
        count = len(self.query)
        return replace(
            self,
            tables=self.tables.expand(count, -1).contiguous(),
            query_starts=torch.arange(count + 1, dtype=torch.int32, device=self.query.device),
            lengths=torch.arange(1, count + 1, dtype=torch.int32, device=self.query.device),
        )

    def cut(self, start: int, end: int) -> Batch:
        """The tokens from `start` to `end` of a batch of one sequence that is a chunk as a whole."""
        return replace(
            self,
            query=self.query[start:end],
            query_starts=torch.tensor([0, end - start], dtype=torch.int32, device=self.query.device),
            lengths=torch.full_like(self.lengths, end),
        )

    def joined(self, others: Batch, draw: torch.Generator) -> Batch:
        """This batch, of chunks of one token, and another one behind it, all on other blocks of one pool."""
        width = max(self.tables.shape[1], others.tables.shape[1])
        shift = self.key_cache.shape[0]
        tables = torch.cat(
            [
                pad(self.tables, (0, width - self.tables.shape[1])),
                pad(others.tables + shift, (0, width - others.tables.shape[1])),
            ]
        )
        order = torch.randperm(shift + others.key_cache.shape[0], generator=draw).to(tables.device)
        keys, values = torch.cat([self.key_cache, others.key_cache]), torch.cat([self.value_cache, others.value_cache])
        lengths = torch.cat([self.lengths, others.lengths])
        return Batch(
            torch.cat([self.query, others.query]),
            keys[order],
            values[order],
            order.argsort().to(torch.int32)[tables.long()],
            torch.arange(len(lengths) + 1, dtype=torch.int32, device=lengths.device),
            lengths,
        )


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

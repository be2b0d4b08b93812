"""Attention over paged keys and values, one sequence, one matrix product and one softmax at a time."""

from __future__ import annotations

import torch


def gather(cache: torch.Tensor, table: torch.Tensor, length: int) -> torch.Tensor:
    """Return a sequence's keys or values [length, KV heads, head_dim] in float32.

    `cache` is [blocks, KV heads, tokens_per_block, head_dim], `table` holds the sequence's block ids.
    """
    block = cache.shape[2]
    blocks = cache[table[: -(-length // block)].long()].float()
    return blocks.transpose(1, 2).flatten(0, 1)[:length]


def attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    scale: float,
    window: int = 0,
    softcap: float = 0.0,
) -> torch.Tensor:
    """Attend causally from the last `len(query)` positions of a sequence.

    Args:
        query: [chunk, query heads, head_dim].
        keys: [length, KV heads, head_dim].
        values: [length, KV heads, head_dim].
        scale: factor of query · key.
        window: keys with query position − key position < window are seen; 0 for all.
        softcap: scores become softcap · tanh(score / softcap); 0 for none.

    Returns:
        [chunk, query heads, head_dim] in float32.
    """
    chunk, heads, _ = query.shape
    length, kv_heads, _ = keys.shape
    keys = keys.float().repeat_interleave(heads // kv_heads, 1)
    values = values.float().repeat_interleave(heads // kv_heads, 1)
    scores = torch.einsum("qhd,khd->hqk", query.float(), keys) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    distance = torch.arange(length - chunk, length).unsqueeze(1).to(keys.device) - torch.arange(length).to(keys.device)
    seen = (distance >= 0) & ((distance < window) if window else torch.ones_like(distance, dtype=torch.bool))
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, float("-inf")).softmax(-1), values)


def paged_prefill(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    tables: torch.Tensor,
    query_starts: torch.Tensor,
    lengths: torch.Tensor,
    *,
    scale: float,
    window: int = 0,
    softcap: float = 0.0,
) -> torch.Tensor:
    """Compute what `kernels.attention.paged_prefill` computes, in float32."""
    out = torch.zeros(query.shape, dtype=torch.float32, device=query.device)
    starts = query_starts.tolist()
    for sequence, length in enumerate(lengths.tolist()):
        rows = slice(starts[sequence], starts[sequence + 1])
        if length == 0 or rows.start == rows.stop:
            continue
        keys, values = (gather(cache, tables[sequence], length) for cache in (key_cache, value_cache))
        out[rows] = attention(query[rows], keys, values, scale=scale, window=window, softcap=softcap)
    return out


def paged_decode(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    tables: torch.Tensor,
    lengths: torch.Tensor,
    *,
    scale: float,
    window: int = 0,
    softcap: float = 0.0,
) -> torch.Tensor:
    """Compute what `kernels.attention.paged_decode` computes, in float32."""
    starts = torch.arange(len(lengths) + 1)
    return paged_prefill(
        query, key_cache, value_cache, tables, starts, lengths, scale=scale, window=window, softcap=softcap
    )

"""Attention on a CPU, in plain torch, such that a row's bits depend on nothing but its own query, keys and values.

What that takes: keys come in tiles of fixed size at absolute positions; matrix products have rows in multiples of
eight, because only then does a row of them not depend on how many there are; `exp` rather than `exp2`, whose last
elements take another path; no `scaled_dot_product_attention`, which looks at the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import pad

# Keys of one step; a multiple of every block size.
_TILE = 128
_ROWS = 8
_NOTHING = float("-inf")


@dataclass(frozen=True)
class _Cache:
    """One layer's keys and values, and how scores are made from them."""

    keys: torch.Tensor
    values: torch.Tensor
    scale: float
    softcap: float
    window: int


def decode(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    tables: torch.Tensor,
    lengths: torch.Tensor,
    out: torch.Tensor,
    *,
    scale: float,
    softcap: float,
    window: int,
) -> None:
    """Write `paged_decode` of the arguments to `out`."""
    cache = _Cache(key_cache, value_cache, scale, softcap, window)
    _attend_last(cache, query, tables, lengths, out, torch.arange(len(lengths)), torch.arange(len(lengths)))


def prefill(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    tables: torch.Tensor,
    query_starts: torch.Tensor,
    lengths: torch.Tensor,
    out: torch.Tensor,
    *,
    scale: float,
    softcap: float,
    window: int,
) -> None:
    """Write `paged_prefill` of the arguments to `out`: chunks of one token together, longer ones each by itself."""
    cache = _Cache(key_cache, value_cache, scale, softcap, window)
    chunks = query_starts.diff()
    single = (chunks == 1).nonzero()[:, 0]
    if len(single):
        _attend_last(cache, query, tables, lengths, out, single, query_starts[single].long())
    starts = query_starts.tolist()
    for sequence in (chunks > 1).nonzero()[:, 0].tolist():
        rows = slice(starts[sequence], starts[sequence + 1])
        length = int(lengths[sequence])
        positions = torch.arange(length - (rows.stop - rows.start), length)
        lane = slice(sequence, sequence + 1)
        out[rows] = _attend(cache, query[rows].unsqueeze(0), positions.unsqueeze(0), tables[lane], lengths[lane])[0]


def _attend_last(
    cache: _Cache,
    query: torch.Tensor,
    tables: torch.Tensor,
    lengths: torch.Tensor,
    out: torch.Tensor,
    sequences: torch.Tensor,
    rows: torch.Tensor,
) -> None:
    """Attend from the last token of the `sequences`, whose queries are the `rows` of `query`, together."""
    # Longest first, so that those with keys in a tile are the first ones.
    order = lengths[sequences].argsort(descending=True, stable=True)
    sequences, rows = sequences[order], rows[order]
    ends = lengths[sequences]
    attended = _attend(cache, query[rows].unsqueeze(1), (ends - 1).unsqueeze(1), tables[sequences], ends)
    out[rows] = attended[:, 0]


def _attend(
    cache: _Cache, query: torch.Tensor, positions: torch.Tensor, tables: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """Attend from chunks of equal length.

    Args:
        cache: what to attend to.
        query: [sequences, chunk, query heads, head_dim].
        positions: [sequences, chunk], ascending.
        tables: [sequences, width].
        lengths: [sequences], descending.

    Returns:
        [sequences, chunk, query heads, head_dim].
    """
    sequences, chunk, heads, _ = query.shape
    kv_heads = cache.keys.shape[1]
    ratio = heads // kv_heads
    # [sequences, KV heads, rows, head_dim]: a row is a token and one of the query heads of the KV head.
    grouped = query.float().unflatten(2, (kv_heads, ratio)).transpose(1, 2).flatten(2, 3)
    padding = -chunk * ratio % _ROWS
    grouped = pad(grouped, (0, 0, 0, padding))
    seen_until = pad(positions.repeat_interleave(ratio, 1), (0, padding), value=-1)
    total = torch.zeros_like(grouped)
    weight = torch.zeros_like(grouped[..., :1])
    top = torch.full_like(weight, _NOTHING)
    ends = lengths.tolist()
    first = max(0, int(positions[:, 0].min()) - cache.window + 1) // _TILE * _TILE if cache.window else 0
    for start in range(first, ends[0], _TILE):
        lanes = sum(end > start for end in ends)
        # Rows before the tile see nothing of it; with several sequences there is one token in each.
        skipped = max(0, start - int(positions[0, 0])) * ratio // _ROWS * _ROWS if sequences == 1 else 0
        part = (slice(0, lanes), slice(None), slice(skipped, None))
        keys, values = _tile(cache, tables[:lanes], lengths[:lanes], start)
        seen = _seen(cache.window, seen_until[:lanes, skipped:], start)
        total[part], weight[part], top[part] = _accumulate(
            cache, grouped[part], keys, values, seen, total[part], weight[part], top[part]
        )
    output = (total / weight.masked_fill(weight == 0, 1.0))[:, :, : chunk * ratio]
    return output.unflatten(2, (chunk, ratio)).transpose(1, 2).flatten(2, 3).to(query.dtype)


def _tile(cache: _Cache, tables: torch.Tensor, lengths: torch.Tensor, start: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values [sequences, KV heads, tile, head_dim] of the positions from `start` on."""
    _, kv_heads, block, head_dim = cache.keys.shape
    blocks = tables[:, start // block : (start + _TILE) // block].long()
    blocks = pad(blocks, (0, _TILE // block - blocks.shape[1]))
    entries = torch.arange(start // block, (start + _TILE) // block)
    # A table may hold anything past the sequence's end.
    blocks = blocks.masked_fill(entries * block >= lengths.unsqueeze(1), 0)
    places = (blocks.unsqueeze(1), torch.arange(kv_heads)[:, None])
    keys, values = (side[places].reshape(-1, kv_heads, _TILE, head_dim).float() for side in (cache.keys, cache.values))
    behind = torch.arange(start, start + _TILE) >= lengths.unsqueeze(1)
    # What lies there may be NaN, and 0 × NaN is NaN.
    return keys, values.masked_fill(behind[:, None, :, None], 0.0)


def _seen(window: int, seen_until: torch.Tensor, start: int) -> torch.Tensor:
    """Return [sequences, 1, rows, tile]: whether a row sees a key."""
    position = torch.arange(start, start + _TILE)
    last = seen_until.unsqueeze(2)
    seen = position <= last
    if window:
        seen &= position > last - window
    return seen.unsqueeze(1)


def _accumulate(
    cache: _Cache,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    seen: torch.Tensor,
    total: torch.Tensor,
    weight: torch.Tensor,
    top: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Add one tile to the weighted sum, the sum of weights and the largest score of each row, and return them."""
    scores = torch.matmul(query, keys.transpose(-1, -2)) * cache.scale
    if cache.softcap:
        # tanh by one exponential: past 88 it overflows to infinity, and the score is the cap.
        scores = cache.softcap - 2.0 * cache.softcap / ((scores * (2.0 / cache.softcap)).exp() + 1.0)
    scores = scores.masked_fill(~seen, _NOTHING)
    new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
    # A row that has seen nothing yet would subtract infinities.
    base = new_top.masked_fill(new_top == _NOTHING, 0.0)
    weights = (scores - base).exp()
    fade = (top - base).exp()
    return torch.matmul(weights, values) + total * fade, weights.sum(-1, keepdim=True) + weight * fade, new_top

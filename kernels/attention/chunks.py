"""Where the rows of a prefill tile come from: which sequence's chunk, which tokens, which query heads."""

from __future__ import annotations

import triton
import triton.language as tl

# Sequences whose chunks are looked at together.
_AT_ONCE = tl.constexpr(256)
_FAR = tl.constexpr(2**30)


@triton.jit
def _combine(reached, start, end, more_reached, other_start, other_end):
    return reached + more_reached, tl.maximum(start, other_start), tl.minimum(end, other_end)


@triton.jit
def find_chunk(query_starts, sequences, tile, TOKENS: tl.constexpr):
    """Return which sequence a tile of queries belongs to, and where that sequence's chunk starts and ends.

    Sequence s has the tiles from starts[s] // TOKENS + s on; those ahead of the first sequence's are nobody's, -1. All
    starts are read at once: a search that halves would wait for memory at each step, before anything of the tile can be
    loaded. They are reduced at once, too, because in each reduction the program's warps wait for one another.
    """
    found = 0
    start = 0
    end = _FAR
    for first in range(0, sequences + 1, _AT_ONCE):
        index = first + tl.arange(0, _AT_ONCE)
        starts = tl.load(query_starts + index, mask=index <= sequences, other=_FAR)
        reached = (starts // TOKENS + index <= tile) & (index < sequences)
        sides = reached.to(tl.int32), tl.where(reached, starts, 0), tl.where(reached, _FAR, starts)
        count, latest, next_start = tl.reduce(sides, 0, _combine)
        found, start, end = _combine(found, start, end, count, latest, next_start)
    return found - 1, start, end


@triton.jit
def row_offsets(
    first,
    end,
    token_stride,
    head_stride,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    RATIO: tl.constexpr,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """Return where a tile's elements lie in queries or outputs [tokens, heads, HEAD_DIM], and which of them exist.

    Row r is token `first` + r // RATIO, if that is before `end`, and its KV head's query head r % RATIO.
    """
    row = tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    flat = first * RATIO + row
    token = flat // RATIO
    offsets = token.to(tl.int64)[:, None] * token_stride + (flat % RATIO)[:, None] * head_stride + column[None, :]
    inside = (row < TOKENS * RATIO) & (token < end)
    return offsets, inside[:, None] & (column < HEAD_DIM)[None, :]

"""Prefill: chunks of query tokens against paged keys and values, their own among them, as FlashAttention does."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.attention.chunks import find_chunk, row_offsets
from kernels.attention.decode import triton_dtype
from kernels.attention.softmax import accumulate, empty_split, merge, quotient, score, summed
from kernels.attention.tiles import Tiles, tiles
from kernels.dispatch import interpreting


@triton.jit
def add_tiles(
    query_tile,
    keys,
    values,
    table,
    width,
    blocks,
    start,
    end,
    whole_start,
    whole_end,
    position,
    length,
    block_stride,
    slot_stride,
    output,
    share,
    best,
    total,
    weight,
    top,
    scale,
    cap,
    CAPPED: tl.constexpr,
    WINDOW: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
    SPLIT: tl.constexpr,
    MERGES: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Add the tiles from `start` to `end` to a split's state, and with `MERGES` merge each split before the next begins.

    `blocks` are the ids of the first tile's blocks; those of the tile at `end` are returned, behind both states. A tile's
    ids are loaded while the tile before is computed: a load that waits for another load of the same step would halve the
    pipeline.
    """
    token = tl.arange(0, TILE)
    column = tl.arange(0, COLUMNS)
    for tile in range(start, end, TILE):
        key_position = tile + token
        # 64-bit before it is multiplied: a pool has more elements than 32 bits count.
        block = tl.gather(blocks, token // BLOCK, 0).to(tl.int64)
        place = block[:, None] * block_stride + (key_position % BLOCK)[:, None] * slot_stride
        names = (tile + TILE) // BLOCK + tl.arange(0, blocks.shape[0])
        blocks = tl.load(table + names, mask=names < width, other=0)
        # What lies behind the sequence's end may be NaN, and 0 × NaN is NaN: it is not loaded.
        loaded = (key_position < length)[:, None] & (column < HEAD_DIM)[None, :]
        key = tl.load(keys + place, mask=loaded, other=0.0)
        value = tl.load(values + place, mask=loaded, other=0.0)
        if MERGES and tile % SPLIT == 0:
            output, share, best = merge(output, share, best, total, summed(weight), top)
            total, weight, top = empty_split(ROWS, COLUMNS, TILE)
        scores = score(query_tile, key.to(COMPUTE), scale, cap, CAPPED)
        if (tile >= whole_end) | (tile < whole_start):
            distance = position[:, None] - key_position[None, :]
            # Unsigned, so that one comparison finds what lies behind the window and what lies ahead.
            seen = distance.to(tl.uint32) < WINDOW if WINDOW > 0 else distance >= 0
            scores = tl.where(seen, scores, float("-inf"))
        total, weight, top = accumulate(scores, value.to(COMPUTE), total, weight, top, 1.0 if CAPPED else scale)
    return output, share, best, total, weight, top, blocks


@triton.jit(do_not_specialize=["table_stride", "width", "sequences"])
def prefill_kernel(
    query,  # [tokens, query heads, HEAD_DIM]
    key_cache,  # [blocks, KV heads, BLOCK, HEAD_DIM]
    value_cache,  # the same strides
    tables,  # [sequences, width] int32
    query_starts,  # [sequences + 1] int32
    lengths,  # [sequences] int32
    out,  # [tokens, query heads, HEAD_DIM]
    query_token_stride,
    query_head_stride,
    block_stride,
    kv_head_stride,
    slot_stride,
    out_token_stride,
    out_head_stride,
    table_stride,
    width,
    sequences,
    scale,
    cap,
    CAPPED: tl.constexpr,
    WINDOW: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    RATIO: tl.constexpr,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
    SPLIT: tl.constexpr,
    MERGES_INSIDE: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Compute TOKENS query tokens of one sequence for the query heads of one KV head: rows are (token, head).

    Each split is added up from nothing and merged, as decode does it, although one running sum would be cheaper:
    that is what makes a row's bits the same in both.
    """
    kv_head = tl.program_id(0)
    # A chunk's last tiles see most keys. They start first, so that a step ends with short ones.
    tile = tl.num_programs(1) - 1 - tl.program_id(1)
    sequence, query_start, query_end = find_chunk(query_starts, sequences, tile, TOKENS)
    first_token = (tile - query_start // TOKENS - sequence) * TOKENS
    # Nobody's are the tiles of queries ahead of the first chunk, and those behind the end of each.
    if (sequence < 0) | (first_token >= query_end - query_start):
        return
    length = tl.load(lengths + sequence)
    first_position = length - (query_end - query_start) + first_token
    position = first_position + tl.arange(0, ROWS) // RATIO
    column = tl.arange(0, COLUMNS)
    end = tl.minimum(first_position + TOKENS, length)
    # Tiles of keys from whole_start to whole_end are seen whole by every row, and need no mask.
    whole_start = tl.maximum(end - WINDOW, 0) if WINDOW > 0 else 0
    whole_end = tl.maximum(first_position + 1, 0) // TILE * TILE
    start = tl.maximum(first_position - WINDOW + 1, 0) // TILE * TILE if WINDOW > 0 else 0

    keys = key_cache + kv_head.to(tl.int64) * kv_head_stride + column[None, :]
    values = value_cache + kv_head.to(tl.int64) * kv_head_stride + column[None, :]
    table = tables + sequence.to(tl.int64) * table_stride
    names = start // BLOCK + tl.arange(0, (TILE + BLOCK - 1) // BLOCK)
    blocks = tl.load(table + names, mask=names < width, other=0)
    # Queries come after the block ids, so that both are on their way at once.
    offsets, inside = row_offsets(
        query_start + first_token, query_end, query_token_stride, query_head_stride,
        HEAD_DIM, COLUMNS, RATIO, ROWS, TOKENS,
    )  # fmt: skip
    query_tile = tl.load(query + offsets + kv_head * RATIO * query_head_stride, mask=inside, other=0.0).to(COMPUTE)
    output = tl.zeros([ROWS, COLUMNS], tl.float32)
    share = tl.zeros([ROWS], tl.float32)
    best = tl.full([ROWS], float("-inf"), tl.float32)
    total, weight, top = empty_split(ROWS, COLUMNS, TILE)
    if MERGES_INSIDE:
        output, share, best, total, weight, top, blocks = add_tiles(
            query_tile, keys, values, table, width, blocks, start, end, whole_start, whole_end, position, length,
            block_stride, slot_stride, output, share, best, total, weight, top, scale, cap,
            CAPPED, WINDOW, HEAD_DIM, COLUMNS, ROWS, BLOCK, TILE, SPLIT, True, COMPUTE,
        )  # fmt: skip
    else:
        for split in range(start // SPLIT * SPLIT, end, SPLIT):
            first_tile, split_end = tl.maximum(split, start), tl.minimum(split + SPLIT, end)
            output, share, best, total, weight, top, blocks = add_tiles(
                query_tile, keys, values, table, width, blocks, first_tile, split_end, whole_start, whole_end, position,
                length, block_stride, slot_stride, output, share, best, total, weight, top, scale, cap,
                CAPPED, WINDOW, HEAD_DIM, COLUMNS, ROWS, BLOCK, TILE, SPLIT, False, COMPUTE,
            )  # fmt: skip
            output, share, best = merge(output, share, best, total, summed(weight), top)
            total, weight, top = empty_split(ROWS, COLUMNS, TILE)
    # The chunk is read again, as volatile, so that the offsets are not kept through the loop, in registers it needs; and
    # before the last merge, which has not to wait for it.
    query_start = tl.load(query_starts + sequence, volatile=True)
    query_end = tl.load(query_starts + sequence + 1, volatile=True)
    if MERGES_INSIDE:
        output, share, best = merge(output, share, best, total, summed(weight), top)
    offsets, inside = row_offsets(
        query_start + first_token, query_end, out_token_stride, out_head_stride,
        HEAD_DIM, COLUMNS, RATIO, ROWS, TOKENS,
    )  # fmt: skip
    tl.store(
        out + offsets + kv_head * RATIO * out_head_stride, quotient(output, share).to(out.dtype.element_ty), mask=inside
    )


def launch_prefill(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    tables: torch.Tensor,
    query_starts: torch.Tensor,
    lengths: torch.Tensor,
    out: torch.Tensor,
    *,
    scale: float,
    cap: float,
    window: int,
    shape: Tiles | None = None,
) -> None:
    """Launch prefill on Triton: arguments as for `paged_prefill`, `scale` and `cap` from `score_factors`."""
    tokens, heads, head_dim = query.shape
    kv_heads, block = key_cache.shape[1], key_cache.shape[2]
    ratio = heads // kv_heads
    sequences = lengths.shape[0]
    shape = shape or tiles(head_dim, ratio, query.dtype)
    tile_tokens = shape.prefill_rows // ratio
    compute = torch.float32 if interpreting() else query.dtype
    prefill_kernel[(kv_heads, tokens // tile_tokens + sequences)](
        query,
        key_cache,
        value_cache,
        tables,
        query_starts,
        lengths,
        out,
        *query.stride()[:2],
        *key_cache.stride()[:3],
        *out.stride()[:2],
        tables.stride(0),
        tables.shape[1],
        sequences,
        scale,
        cap,
        CAPPED=cap != 0.0,
        WINDOW=window,
        HEAD_DIM=head_dim,
        COLUMNS=shape.columns,
        RATIO=ratio,
        ROWS=shape.prefill_rows,
        TOKENS=tile_tokens,
        BLOCK=block,
        TILE=shape.tile_tokens,
        SPLIT=shape.split_tokens,
        MERGES_INSIDE=shape.prefill_merges_inside,
        COMPUTE=triton_dtype(compute),
        num_warps=shape.prefill_warps,
        num_stages=shape.prefill_stages,
    )

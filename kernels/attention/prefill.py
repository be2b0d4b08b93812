"""Prefill: chunks of query tokens against paged keys and values, their own among them, as FlashAttention does."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.attention.chunks import find_chunk, row_offsets
from kernels.attention.decode import triton_dtype
from kernels.attention.softmax import accumulate, close, merge, quotient
from kernels.attention.tiles import Tiles, tiles
from kernels.dispatch import interpreting


@triton.jit
def accumulate_tiles(
    query_tile,
    keys,
    values,
    blocks,
    split_start,
    tile_start,
    tile_end,
    position,
    length,
    block_stride,
    slot_stride,
    total,
    weight,
    top,
    scale,
    cap,
    CAPPED: tl.constexpr,
    MASKED: tl.constexpr,
    WINDOW: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Add the tiles from `tile_start` to `tile_end` to a split's state; unmasked ones are seen whole by every row."""
    token = tl.arange(0, TILE)
    inside = (tl.arange(0, COLUMNS) < HEAD_DIM)[None, :]
    for tile in range(tile_start, tile_end, TILE):
        key_position = tile + token
        # The pipeline gathers for tiles behind the last one as well, and an index behind the split's end would read
        # shared memory that is not there. 64-bit before it is multiplied: a pool has more elements than 32 bits count.
        entry = tl.minimum((key_position - split_start) // BLOCK, blocks.shape[0] - 1)
        block = tl.gather(blocks, entry, 0).to(tl.int64)[:, None]
        slot = (key_position % BLOCK)[:, None]
        place = block * block_stride + slot * slot_stride
        if MASKED:
            # What lies behind the sequence's end may be NaN, and 0 × NaN is NaN: it is not loaded.
            loaded = (key_position < length)[:, None] & inside
            key = tl.load(keys + place, mask=loaded, other=0.0)
            value = tl.load(values + place, mask=loaded, other=0.0)
            distance = position[:, None] - key_position[None, :]
            # Unsigned, so that one comparison finds what lies behind the window and what lies ahead.
            seen = distance.to(tl.uint32) < WINDOW if WINDOW > 0 else distance >= 0
        elif HEAD_DIM == COLUMNS:
            key = tl.load(keys + place)
            value = tl.load(values + place)
            seen = None
        else:
            key = tl.load(keys + place, mask=inside, other=0.0)
            value = tl.load(values + place, mask=inside, other=0.0)
            seen = None
        total, weight, top = accumulate(
            query_tile, key.to(COMPUTE), value.to(COMPUTE), seen, total, weight, top, scale, cap, CAPPED, MASKED
        )
    return total, weight, top


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
    if first_token >= query_end - query_start:
        return
    length = tl.load(lengths + sequence)
    offsets, inside = row_offsets(
        query_start + first_token, query_end, query_token_stride, query_head_stride,
        HEAD_DIM, COLUMNS, RATIO, ROWS, TOKENS,
    )  # fmt: skip
    query_tile = tl.load(query + offsets + kv_head * RATIO * query_head_stride, mask=inside, other=0.0).to(COMPUTE)

    first_position = length - (query_end - query_start) + first_token
    position = first_position + tl.arange(0, ROWS) // RATIO
    column = tl.arange(0, COLUMNS)
    end = tl.minimum(first_position + TOKENS, length)
    # Tiles of keys up to whole_end are seen whole by every row. Behind a window all are masked.
    whole_end = tl.maximum(first_position + 1, 0) // TILE * TILE
    start = tl.maximum(first_position - WINDOW + 1, 0) // TILE * TILE if WINDOW > 0 else 0

    keys = key_cache + kv_head.to(tl.int64) * kv_head_stride + column[None, :]
    values = value_cache + kv_head.to(tl.int64) * kv_head_stride + column[None, :]
    table = tables + sequence.to(tl.int64) * table_stride
    entry = tl.arange(0, SPLIT // BLOCK)
    output = tl.zeros([ROWS, COLUMNS], tl.float32)
    share = tl.zeros([ROWS], tl.float32)
    best = tl.full([ROWS], float("-inf"), tl.float32)
    # A split's block ids are loaded once, since a load that another load waits for would halve the pipeline, and while
    # the split before is computed.
    names = start // SPLIT * (SPLIT // BLOCK) + entry
    blocks = tl.load(table + names, mask=names < width, other=0)
    for split_start in range(start // SPLIT * SPLIT, end, SPLIT):
        names = (split_start + SPLIT) // BLOCK + entry
        next_blocks = tl.load(table + names, mask=names < width, other=0)
        total = tl.zeros([ROWS, COLUMNS], tl.float32)
        weight = tl.zeros([ROWS, TILE // 2], tl.float32)
        top = tl.full([ROWS], float("-inf"), tl.float32)
        split_end = tl.minimum(split_start + SPLIT, end)
        edge = tl.maximum(split_start, start)
        if WINDOW == 0:
            whole = tl.minimum(tl.maximum(whole_end, edge), split_end)
            total, weight, top = accumulate_tiles(
                query_tile, keys, values, blocks, split_start, edge, whole, position, length, block_stride, slot_stride,
                total, weight, top, scale, cap, CAPPED, False, WINDOW, HEAD_DIM, COLUMNS, BLOCK, TILE, COMPUTE,
            )  # fmt: skip
            edge = whole
        if edge < split_end:
            total, weight, top = accumulate_tiles(
                query_tile, keys, values, blocks, split_start, edge, split_end, position, length, block_stride, slot_stride,
                total, weight, top, scale, cap, CAPPED, True, WINDOW, HEAD_DIM, COLUMNS, BLOCK, TILE, COMPUTE,
            )  # fmt: skip
        split_output, lse = close(total, weight, top)
        output, share, best = merge(output, share, best, split_output, lse)
        blocks = next_blocks
    # The chunk is read again, as volatile, so that the offsets are not kept through the loop, in registers it needs.
    query_start = tl.load(query_starts + sequence, volatile=True)
    query_end = tl.load(query_starts + sequence + 1, volatile=True)
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
        COMPUTE=triton_dtype(compute),
        num_warps=shape.prefill_warps,
        num_stages=shape.prefill_stages,
    )

"""Decode: one query token a sequence against its paged keys and values, split over the keys (Flash-Decoding)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.attention.reduce import reduce_kernel
from kernels.attention.softmax import accumulate, empty_split, quotient, score, summed
from kernels.attention.tiles import Tiles, tiles
from kernels.dispatch import interpreting


@triton.jit(do_not_specialize=["table_stride", "width", "capacity"])
def decode_kernel(
    query,  # [sequences, query heads, HEAD_DIM]
    key_cache,  # [blocks, KV heads, BLOCK, HEAD_DIM]
    value_cache,  # the same strides
    tables,  # [sequences, width] int32
    lengths,  # [sequences] int32
    out,  # [sequences, query heads, HEAD_DIM]
    partial_outputs,  # [sequences, query heads, capacity, HEAD_DIM] float32
    partial_sums,  # [sequences, query heads, capacity, 2] float32: largest score, sum of weights
    query_sequence_stride,
    query_head_stride,
    block_stride,
    kv_head_stride,
    slot_stride,
    out_sequence_stride,
    out_head_stride,
    table_stride,
    width,
    capacity,
    scale,
    cap,
    CAPPED: tl.constexpr,
    WINDOW: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    RATIO: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
    SPLIT: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Add up the splits z, z + Z, z + 2Z, … of one sequence for the query heads of one KV head.

    The heads are the rows of a tile, so that keys and values are read once for all of them. A sequence with one split
    is written to `out` at once, one without keys as zeros; otherwise a split leaves its undivided output, its largest
    score and its sum of weights.
    """
    kv_head = tl.program_id(0)
    sequence = tl.program_id(1).to(tl.int64)
    length = tl.load(lengths + sequence)
    start = tl.maximum(length - WINDOW, 0) if WINDOW > 0 else 0
    first = start // SPLIT
    end = tl.cdiv(length, SPLIT)

    row = tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    head = kv_head * RATIO + row
    inside = (row < RATIO)[:, None] & (column < HEAD_DIM)[None, :]
    query_tile = tl.load(
        query + sequence * query_sequence_stride + head[:, None] * query_head_stride + column[None, :],
        mask=inside,
        other=0.0,
    ).to(COMPUTE)
    if (end <= first) & (tl.program_id(2) == 0):
        place = sequence * out_sequence_stride + head[:, None] * out_head_stride + column[None, :]
        tl.store(out + place, tl.zeros([ROWS, COLUMNS], out.dtype.element_ty), mask=inside)

    token = tl.arange(0, TILE)
    entry = tl.arange(0, SPLIT // BLOCK)
    keys = key_cache + kv_head.to(tl.int64) * kv_head_stride + column[None, :]
    values = value_cache + kv_head.to(tl.int64) * kv_head_stride + column[None, :]
    # A split's block ids are loaded once, since a load that another load waits for would halve the pipeline, and ahead of
    # the split. Up to the table's width: that needs no waiting for the length.
    table = tables + sequence * table_stride
    step = tl.num_programs(2) * (SPLIT // BLOCK)
    names = (first + tl.program_id(2)) * (SPLIT // BLOCK) + entry
    blocks = tl.load(table + names, mask=names < width, other=0)
    for split in range(first + tl.program_id(2), end, tl.num_programs(2)):
        names += step
        next_blocks = tl.load(table + names, mask=names < width, other=0)
        # Always 0, which the compiler cannot know: where to write is found after the loop, and kept in no register through it.
        nothing = tl.load(lengths + sequence, volatile=True) - length
        total, weight, top = empty_split(ROWS, COLUMNS, TILE)
        tile_start = tl.maximum(start // TILE * TILE, split * SPLIT)
        for tile in range(tile_start, tl.minimum(length, (split + 1) * SPLIT), TILE):
            position = tile + token
            # The pipeline gathers for tiles behind the last one as well, and an index behind the split's end would read
            # shared memory that is not there. 64-bit before it is multiplied: a pool has more elements than 32 bits count.
            near = tl.minimum((position - split * SPLIT) // BLOCK, SPLIT // BLOCK - 1)
            block = tl.gather(blocks, near, 0).to(tl.int64)[:, None]
            slot = (position % BLOCK)[:, None]
            seen = position < length
            if WINDOW > 0:
                seen &= position >= start
            # What lies behind an unseen position may be NaN, and 0 × NaN is NaN: it is not loaded.
            loaded = seen[:, None] & (column < HEAD_DIM)[None, :]
            place = block * block_stride + slot * slot_stride
            key = tl.load(keys + place, mask=loaded, other=0.0)
            value = tl.load(values + place, mask=loaded, other=0.0)
            scores = score(query_tile, key.to(COMPUTE), scale, cap, CAPPED)
            scores = tl.where(seen[None, :], scores, float("-inf"))
            total, weight, top = accumulate(scores, value.to(COMPUTE), total, weight, top, 1.0 if CAPPED else scale)
        share = summed(weight)
        # A split that stands alone is divided here, others once they are merged.
        total = quotient(total, tl.where(end - first == 1, share, 1.0))
        row = tl.arange(0, ROWS) + nothing
        column = tl.arange(0, COLUMNS)
        inside = (row < RATIO)[:, None] & (column < HEAD_DIM)[None, :]
        head = kv_head * RATIO + row
        if end - first == 1:
            place = sequence * out_sequence_stride + head[:, None] * out_head_stride + column[None, :]
            tl.store(out + place, total.to(out.dtype.element_ty), mask=inside)
        else:
            partial = (sequence * (tl.num_programs(0) * RATIO) + head) * capacity + split
            tl.store(partial_outputs + partial[:, None] * HEAD_DIM + column[None, :], total, mask=inside)
            tl.store(partial_sums + partial * 2, top, mask=row < RATIO)
            tl.store(partial_sums + partial * 2 + 1, share, mask=row < RATIO)
        blocks = next_blocks


def launch_decode(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    tables: torch.Tensor,
    lengths: torch.Tensor,
    out: torch.Tensor,
    *,
    scale: float,
    cap: float,
    window: int,
    shape: Tiles | None = None,
) -> None:
    """Launch decode on Triton: arguments as for `paged_decode`, `scale` and `cap` from `score_factors`.

    The grid depends on the shapes of the tensors alone, so that a captured CUDA graph holds for other lengths.
    """
    sequences, heads, head_dim = query.shape
    kv_heads, block = key_cache.shape[1], key_cache.shape[2]
    shape = shape or tiles(head_dim, heads // kv_heads, query.dtype)
    capacity = -(-tables.shape[1] * block // shape.split_tokens)
    partial_outputs = query.new_empty((sequences, heads, capacity, head_dim), dtype=torch.float32)
    partial_sums = query.new_empty((sequences, heads, capacity, 2), dtype=torch.float32)
    depth = max(1, min(capacity, shape.decode_programs // max(1, sequences * kv_heads)))
    compute = torch.float32 if interpreting() else query.dtype
    decode_kernel[(kv_heads, sequences, depth)](
        query,
        key_cache,
        value_cache,
        tables,
        lengths,
        out,
        partial_outputs,
        partial_sums,
        *query.stride()[:2],
        *key_cache.stride()[:3],
        *out.stride()[:2],
        tables.stride(0),
        tables.shape[1],
        capacity,
        scale,
        cap,
        CAPPED=cap != 0.0,
        WINDOW=window,
        HEAD_DIM=head_dim,
        COLUMNS=shape.columns,
        RATIO=heads // kv_heads,
        ROWS=shape.decode_rows,
        BLOCK=block,
        TILE=shape.tile_tokens,
        SPLIT=shape.split_tokens,
        COMPUTE=triton_dtype(compute),
        num_warps=shape.decode_warps,
        num_stages=shape.decode_stages,
        maxnreg=shape.decode_registers,
    )
    if capacity > 1:
        reduce_kernel[(heads, sequences)](
            partial_outputs,
            partial_sums,
            lengths,
            out,
            capacity,
            *out.stride()[:2],
            WINDOW=window,
            HEAD_DIM=head_dim,
            COLUMNS=shape.columns,
            SPLIT=shape.split_tokens,
            # Few threads of many registers, so that the loads of a whole group of splits are on their way at once.
            num_warps=max(1, shape.columns // 128),
            maxnreg=128,
        )


def triton_dtype(dtype: torch.dtype) -> tl.dtype:
    """Return Triton's name of a torch dtype."""
    return {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}[dtype]

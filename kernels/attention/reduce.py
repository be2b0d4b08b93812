"""Decode's second kernel: merges the splits of a row in their order."""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.attention.softmax import merge, quotient


@triton.jit
def merge_splits(
    outputs,
    sums,
    first,
    end,
    output,
    share,
    best,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    AHEAD: tl.constexpr,
):
    """Merge the splits from `first` to `end` of one row, `outputs` and `sums`, into its running state and return it."""
    column = tl.arange(0, COLUMNS)
    inside = column < HEAD_DIM
    for group in range(first, end, AHEAD):
        # Unrolled, so that the loads of a group are issued before the first of its merges waits for one.
        for member in tl.static_range(AHEAD):
            split = group + member
            top = tl.load(sums + split * 2, mask=split < end, other=float("-inf"))
            weight = tl.load(sums + split * 2 + 1, mask=split < end, other=0.0)
            total = tl.load(outputs + split * HEAD_DIM + column, mask=inside & (split < end), other=0.0)
            output, share, best = merge(output, share, best, total, weight, top)
    return output, share, best


@triton.jit(do_not_specialize=["capacity"])
def reduce_kernel(
    partial_outputs,  # [sequences, query heads, capacity, HEAD_DIM] float32
    partial_sums,  # [sequences, query heads, capacity, 2] float32: largest score, sum of weights
    lengths,  # [sequences] int32
    out,  # [sequences, query heads, HEAD_DIM]
    capacity,
    out_sequence_stride,
    out_head_stride,
    WINDOW: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """Merge one row's splits, first to last; a row of one split or none was written by the decode kernel."""
    head = tl.program_id(0)
    sequence = tl.program_id(1).to(tl.int64)
    length = tl.load(lengths + sequence)
    first = tl.maximum(length - WINDOW, 0) // SPLIT if WINDOW > 0 else 0
    end = tl.cdiv(length, SPLIT)
    if end - first <= 1:
        return
    row = (sequence * tl.num_programs(0) + head) * capacity
    outputs = partial_outputs + row * HEAD_DIM
    sums = partial_sums + row * 2
    output = tl.zeros([COLUMNS], tl.float32)
    share = 0.0
    best = float("-inf")
    # Long rows wait for memory, short ones for instructions that merge nothing.
    if end - first > 4:
        output, share, best = merge_splits(outputs, sums, first, end, output, share, best, HEAD_DIM, COLUMNS, 16)
    else:
        output, share, best = merge_splits(outputs, sums, first, end, output, share, best, HEAD_DIM, COLUMNS, 4)
    column = tl.arange(0, COLUMNS)
    output = quotient(output, share)
    tl.store(
        out + sequence * out_sequence_stride + head * out_head_stride + column,
        output.to(out.dtype.element_ty),
        mask=column < HEAD_DIM,
    )

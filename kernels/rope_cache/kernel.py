"""The Triton kernel that rotates queries and keys and writes keys and values into the paged cache."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# Heads a program.
_HEADS = 8


@triton.jit
def _turn(x, heads, columns, inside, head_stride, cos, sin, HALF: tl.constexpr):
    """Rotate the heads at `x` in place and return both halves, in float32."""
    place = x + heads[:, None] * head_stride + columns[None, :]
    first = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(place + HALF, mask=inside, other=0.0).to(tl.float32)
    turned_first = first * cos - second * sin
    turned_second = second * cos + first * sin
    tl.store(place, turned_first.to(x.dtype.element_ty), mask=inside)
    tl.store(place + HALF, turned_second.to(x.dtype.element_ty), mask=inside)
    return turned_first, turned_second


@triton.jit
def _put(cache, heads, columns, inside, head_stride, numbers):
    tl.store(cache + heads[:, None] * head_stride + columns[None, :], numbers.to(cache.dtype.element_ty), mask=inside)


@triton.jit
def _move(source, cache, heads, columns, inside, head_stride, cache_head_stride):
    numbers = tl.load(source + heads[:, None] * head_stride + columns[None, :], mask=inside, other=0.0)
    _put(cache, heads, columns, inside, cache_head_stride, numbers)


# Both may be pieces of longer tensors: a new alignment must not compile a new kernel while serving.
@triton.jit(do_not_specialize_on_alignment=["positions", "slots"])
def rope_and_cache_kernel(
    query,  # [tokens, QUERY_HEADS, HEAD_DIM]
    key,  # [tokens, KV_HEADS, HEAD_DIM]
    value,
    cos,  # [rows, HALF] float32
    sin,
    positions,  # [tokens]
    key_cache,  # [blocks, KV_HEADS, BLOCK, HEAD_DIM]
    value_cache,
    slots,  # [tokens] int64
    query_token_stride,
    query_head_stride,
    key_token_stride,
    key_head_stride,
    value_token_stride,
    value_head_stride,
    cos_stride,
    sin_stride,
    key_cache_block_stride,
    key_cache_head_stride,
    key_cache_token_stride,
    value_cache_block_stride,
    value_cache_head_stride,
    value_cache_token_stride,
    QUERY_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    HEADS: tl.constexpr,
    HALF_COLUMNS: tl.constexpr,
    REST_COLUMNS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Serve one token and HEADS of its query heads, or HEADS of its KV heads, which come after them in the grid.

    Every offset is 64 bits wide: a pool has more elements than 32 bits count.
    """
    token = tl.program_id(0).to(tl.int64)
    query_groups = (QUERY_HEADS + HEADS - 1) // HEADS
    group = tl.program_id(1)
    if HALF > 0:
        half_column = tl.arange(0, HALF_COLUMNS)
        position = tl.load(positions + token).to(tl.int64)
        turning = half_column < HALF
        row_cos = tl.load(cos + position * cos_stride + half_column, mask=turning, other=0.0)[None, :]
        row_sin = tl.load(sin + position * sin_stride + half_column, mask=turning, other=0.0)[None, :]
    if group < query_groups:
        query_heads = group * HEADS + tl.arange(0, HEADS)
        if HALF > 0:
            asked = (query_heads < QUERY_HEADS)[:, None] & turning[None, :]
            queries = query + token * query_token_stride
            _turn(queries, query_heads, half_column, asked, query_head_stride, row_cos, row_sin, HALF)
    else:
        heads = (group - query_groups) * HEADS + tl.arange(0, HEADS)
        live = (heads < KV_HEADS)[:, None]
        slot = tl.load(slots + token)
        written = live & (slot >= 0)
        block = slot // BLOCK
        offset = slot % BLOCK
        keys = key + token * key_token_stride
        key_place = key_cache + block * key_cache_block_stride + offset * key_cache_token_stride
        if HALF > 0:
            turned = live & turning[None, :]
            first, second = _turn(keys, heads, half_column, turned, key_head_stride, row_cos, row_sin, HALF)
            half = written & turning[None, :]
            _put(key_place, heads, half_column, half, key_cache_head_stride, first)
            _put(key_place + HALF, heads, half_column, half, key_cache_head_stride, second)
        if 2 * HALF < HEAD_DIM:
            rest_column = 2 * HALF + tl.arange(0, REST_COLUMNS)
            rest = written & (rest_column < HEAD_DIM)[None, :]
            _move(keys, key_place, heads, rest_column, rest, key_head_stride, key_cache_head_stride)
        column = tl.arange(0, COLUMNS)
        whole = written & (column < HEAD_DIM)[None, :]
        values = value + token * value_token_stride
        value_place = value_cache + block * value_cache_block_stride + offset * value_cache_token_stride
        _move(values, value_place, heads, column, whole, value_head_stride, value_cache_head_stride)


def launch_rope_and_cache(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """Launch the kernel for queries, keys and values; see `kernels.rope_cache.rope_and_cache`."""
    _launch(query, key, value, cos, sin, positions, key_cache, value_cache, slots, query.shape[1], cos.shape[-1])


def launch_write_cache(
    key: torch.Tensor, value: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, slots: torch.Tensor
) -> None:
    """Launch the kernel for keys and values alone, without rotation."""
    # The four tensors of a rotation are neither read nor written when nothing rotates.
    _launch(key, key, value, key, key, slots, key_cache, value_cache, slots, 0, 0)


def _launch(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
    query_heads: int,
    half: int,
) -> None:
    tokens, kv_heads, head_dim = key.shape
    if tokens == 0:
        return
    _check_columns(query, key, value, cos, sin, key_cache, value_cache)
    groups = triton.cdiv(query_heads, _HEADS) + triton.cdiv(kv_heads, _HEADS)
    rope_and_cache_kernel[(tokens, groups)](
        query,
        key,
        value,
        cos,
        sin,
        positions,
        key_cache,
        value_cache,
        slots,
        *query.stride()[:2],
        *key.stride()[:2],
        *value.stride()[:2],
        cos.stride(0),
        sin.stride(0),
        *key_cache.stride()[:3],
        *value_cache.stride()[:3],
        QUERY_HEADS=query_heads,
        KV_HEADS=kv_heads,
        HEAD_DIM=head_dim,
        HALF=half,
        BLOCK=key_cache.shape[2],
        HEADS=_HEADS,
        HALF_COLUMNS=triton.next_power_of_2(max(half, 1)),
        REST_COLUMNS=triton.next_power_of_2(max(head_dim - 2 * half, 1)),
        COLUMNS=triton.next_power_of_2(head_dim),
        # So that a thread moves 16 bytes of a half in 16 bits.
        num_warps=1 if 0 < half <= 32 else 2,
    )


def _check_columns(*tensors: torch.Tensor) -> None:
    for tensor in tensors:
        if tensor.stride(-1) != 1:
            raise ValueError(
                f"a tensor {tuple(tensor.shape)} has stride {tensor.stride(-1)} in its last dimension, not 1"
            )

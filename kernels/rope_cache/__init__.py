"""Rotary positions (RoPE, Su et al. 2021) and the write of new keys and values into the paged cache, in one launch."""

from __future__ import annotations

import torch

from kernels.dispatch import runs_triton

__all__ = ["rope_and_cache", "write_cache"]


def rope_and_cache(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate queries and keys in place, and write the keys and values of all tokens to their slots.

    The first `2 * R` numbers of a head rotate, number i with number i + R (the layout of GPT-NeoX and Llama); what
    follows them passes unchanged. The arithmetic is float32 whatever the tensors are.

    Args:
        query: [tokens, query heads, head_dim]; may be a view with any strides, as long as the last is 1.
        key: [tokens, KV heads, head_dim], likewise.
        value: [tokens, KV heads, head_dim], likewise.
        cos: [rows, R] float32, with 2 * R <= head_dim; the row of a token is its entry in `positions`.
        sin: [rows, R] float32.
        positions: [tokens] int32 or int64, each a row of the tables; a padding token's too.
        key_cache: [blocks, KV heads, tokens a block, head_dim], a layer's view of the pool.
        value_cache: [blocks, KV heads, tokens a block, head_dim].
        slots: [tokens] int64, block * tokens a block + offset; a negative slot is not written (padding).

    Returns:
        `query` and `key` themselves. The pool stays the caller's; nothing but the named slots is written.

    Raises:
        ValueError: shapes do not fit each other.
    """
    half = cos.shape[-1]
    if 2 * half > key.shape[-1] or cos.shape != sin.shape:
        raise ValueError(
            f"tables of shape {tuple(cos.shape)} and {tuple(sin.shape)} rotate no heads of {key.shape[-1]} numbers"
        )
    _check(key, value, key_cache, value_cache, slots)
    if query.shape[0] != key.shape[0] or positions.shape != slots.shape:
        raise ValueError(
            f"{query.shape[0]} queries, {positions.shape[0]} positions and {key.shape[0]} keys: not one each"
        )
    if runs_triton(key):
        from kernels.rope_cache.kernel import launch_rope_and_cache

        launch_rope_and_cache(query, key, value, cos, sin, positions, key_cache, value_cache, slots)
    else:
        row_cos, row_sin = cos[positions][:, None], sin[positions][:, None]
        _rotate(query, row_cos, row_sin)
        _rotate(key, row_cos, row_sin)
        _write(key, value, key_cache, value_cache, slots)
    return query, key


def write_cache(
    key: torch.Tensor, value: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, slots: torch.Tensor
) -> None:
    """Write the keys and values of all tokens to their slots, for models without rotary positions.

    Shapes, slots and errors are those of `rope_and_cache`.
    """
    _check(key, value, key_cache, value_cache, slots)
    if runs_triton(key):
        from kernels.rope_cache.kernel import launch_write_cache

        launch_write_cache(key, value, key_cache, value_cache, slots)
    else:
        _write(key, value, key_cache, value_cache, slots)


def _check(
    key: torch.Tensor, value: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, slots: torch.Tensor
) -> None:
    _, heads, _, head_dim = key_cache.shape
    if key.shape != value.shape or key.shape[1:] != (heads, head_dim) or key_cache.shape != value_cache.shape:
        raise ValueError(
            f"keys {tuple(key.shape)} and values {tuple(value.shape)} do not fit caches "
            f"{tuple(key_cache.shape)} and {tuple(value_cache.shape)}"
        )
    if slots.shape != key.shape[:1] or slots.dtype != torch.int64:
        raise ValueError(f"slots are {slots.dtype} {tuple(slots.shape)}, not int64 [{key.shape[0]}]")


def _rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    half = cos.shape[-1]
    first, second = heads[..., :half].float(), heads[..., half : 2 * half].float()
    # Both are computed before either is written: in float32 `first` and `second` are views of `heads`.
    turned = first * cos - second * sin, second * cos + first * sin
    heads[..., :half], heads[..., half : 2 * half] = turned


def _write(
    key: torch.Tensor, value: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, slots: torch.Tensor
) -> None:
    written = slots >= 0
    tokens_per_block = key_cache.shape[2]
    blocks, offsets = slots[written] // tokens_per_block, slots[written] % tokens_per_block
    key_cache[blocks, :, offsets] = key[written].to(key_cache.dtype)
    value_cache[blocks, :, offsets] = value[written].to(value_cache.dtype)

"""What attention is called by: checks its arguments and hands them to Triton or to torch."""

from __future__ import annotations

import math

import torch

from kernels.attention import host
from kernels.dispatch import runs_triton

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_LOG2_E = math.log2(math.e)


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
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attend from the last token of each sequence to its keys and values, which lie in blocks.

    On a GPU the launch depends on shapes alone, so it may be captured in a CUDA graph and replayed for other
    lengths. Its workspace takes `width · block / 512` rows of float32 a query head, so hand over a table no wider than
    the longest sequence needs.

    Args:
        query: [sequences, query heads, head_dim].
        key_cache: [blocks, KV heads, tokens_per_block, head_dim], a layer's view of the pool.
        value_cache: the same shape and strides.
        tables: [sequences, width] int32, a sequence's block ids in order. Entries past its length are not used.
        lengths: [sequences] int32, tokens that each sequence has keys for, its query's among them. 0 gives zeros.
        scale: factor of query · key.
        window: keys with query position − key position < window are seen; 0 for all.
        softcap: scores become softcap · tanh(score / softcap); 0 for none.
        out: where to write, shaped like `query`; made if not given.

    Returns:
        [sequences, query heads, head_dim], in the dtype of `query`. A row's bits depend on nothing but its own query, keys
        and values.

    Raises:
        ValueError: an argument does not fit; it names the argument.
    """
    _check(query, key_cache, value_cache, tables, lengths, scale, window, softcap)
    if query.shape[0] != lengths.shape[0]:
        raise ValueError(f"query has {query.shape[0]} rows, but lengths has {lengths.shape[0]} sequences")
    out = _output(query, out)
    if query.numel() == 0:
        return out
    if runs_triton(query):
        from kernels.attention.decode import launch_decode

        factor, cap = score_factors(scale, softcap)
        launch_decode(query, key_cache, value_cache, tables, lengths, out, scale=factor, cap=cap, window=window)
    else:
        host.decode(query, key_cache, value_cache, tables, lengths, out, scale=scale, softcap=softcap, window=window)
    return out


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
    out: torch.Tensor | None = None,
    max_query: int | None = None,
) -> torch.Tensor:
    """Attend from a chunk of tokens of each sequence, causally; the chunk's own keys and values are written already.

    Chunks of one token (decodes) may stand among longer ones, and get the bits that `paged_decode` gives.

    Args:
        query: [tokens, query heads, head_dim], the sequences' chunks one after the other.
        key_cache: as for `paged_decode`.
        value_cache: as for `paged_decode`.
        tables: as for `paged_decode`.
        query_starts: [sequences + 1] int32, where each chunk starts in `query`, and where the last one ends. A chunk may be
            empty; tokens of no chunk are padding, whose place in `out` is left as it is.
        lengths: [sequences] int32, tokens that each sequence has keys for, its chunk's among them: query i of a chunk of
            n is at position length − n + i.
        scale: as for `paged_decode`.
        window: as for `paged_decode`.
        softcap: as for `paged_decode`.
        out: as for `paged_decode`.
        max_query: tokens of the longest chunk, for callers that know it: chunks of one token go to decode.

    Returns:
        [tokens, query heads, head_dim], as `paged_decode` returns it.

    Raises:
        ValueError: an argument does not fit; it names the argument.
    """
    _check(query, key_cache, value_cache, tables, lengths, scale, window, softcap)
    if query_starts.shape != (lengths.shape[0] + 1,):
        raise ValueError(
            f"query_starts has shape {tuple(query_starts.shape)}, not sequences + 1 = {lengths.shape[0] + 1}"
        )
    if max_query == 1 and query.shape[0] == lengths.shape[0]:
        return paged_decode(
            query, key_cache, value_cache, tables, lengths, scale=scale, window=window, softcap=softcap, out=out
        )
    out = _output(query, out)
    if query.numel() == 0:
        return out
    if runs_triton(query):
        from kernels.attention.prefill import launch_prefill

        factor, cap = score_factors(scale, softcap)
        launch_prefill(
            query, key_cache, value_cache, tables, query_starts, lengths, out, scale=factor, cap=cap, window=window
        )
    else:
        host.prefill(
            query,
            key_cache,
            value_cache,
            tables,
            query_starts,
            lengths,
            out,
            scale=scale,
            softcap=softcap,
            window=window,
        )
    return out


def score_factors(scale: float, softcap: float) -> tuple[float, float]:
    """Return the factor of query · key and the cap with which kernels make scores to base 2.

    Without a cap a score is `product · factor`. With one it is `cap − 2 · cap / (2^(product · factor) + 1)`, which is
    softcap · tanh(product · scale / softcap) to base 2.
    """
    if softcap == 0.0:
        return scale * _LOG2_E, 0.0
    return 2.0 * scale / softcap * _LOG2_E, softcap * _LOG2_E


def _check(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    tables: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
    window: int,
    softcap: float,
) -> None:
    kv_heads, block, head_dim = key_cache.shape[1:]
    heads = query.shape[1]
    if heads % kv_heads or not 1 <= heads // kv_heads <= 32:
        raise ValueError(f"query has {heads} heads, which is not 1 to 32 times the {kv_heads} KV heads of key_cache")
    if query.shape[2] != head_dim or head_dim > 256 or head_dim % 8:
        raise ValueError(
            f"query has head_dim {query.shape[2]}, key_cache {head_dim}: alike, a multiple of 8, at most 256"
        )
    if not 8 <= block <= 128 or block & (block - 1):
        raise ValueError(f"key_cache has blocks of {block} tokens: a power of two from 8 to 128")
    if value_cache.shape != key_cache.shape or value_cache.stride() != key_cache.stride():
        raise ValueError("value_cache must have the shape and the strides of key_cache")
    if query.dtype not in _DTYPES or key_cache.dtype != query.dtype or value_cache.dtype != query.dtype:
        raise ValueError(f"query is {query.dtype}, key_cache {key_cache.dtype}: alike, bfloat16, float16 or float32")
    if query.stride(2) != 1 or key_cache.stride(3) != 1 or tables.stride(1) != 1:
        raise ValueError("query, key_cache and tables must be contiguous in their last dimension")
    if tables.shape[0] != lengths.shape[0]:
        raise ValueError(f"tables has {tables.shape[0]} rows, but lengths has {lengths.shape[0]} sequences")
    if scale <= 0.0 or window < 0 or softcap < 0.0:
        raise ValueError(f"scale {scale} must be above 0, window {window} and softcap {softcap} not below")


def _output(query: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    if out is None:
        return torch.empty(query.shape, dtype=query.dtype, device=query.device)
    if out.shape != query.shape or out.dtype != query.dtype or out.stride(2) != 1:
        raise ValueError(
            f"out is {tuple(out.shape)} {out.dtype}, query {tuple(query.shape)} {query.dtype}: they must agree"
        )
    return out

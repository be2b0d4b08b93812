"""The passes over a row of logits that sampling is made of, in Triton; each is one loop over tiles of BLOCK columns.

A tile is [1, BLOCK], so that it broadcasts against [8, 1] pivots without changing its layout. Whole tiles are loaded
without a mask, 16 bytes at a time; the last, shorter one with it. All sums have one fixed order, because one program
sees the whole row.

A *cut* (lower, ties) stands for a head of the ranking: the tokens whose logit is above `lower`, and those equal to it
with an id below `ties`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.sampling.noise_kernel import exp2, token_bits, waiting_times

_NO_ID: tl.constexpr = tl.constexpr(2147483647)
# Tiles that one turn of a loop works on.
_UNROLL: tl.constexpr = tl.constexpr(2)


@triton.jit
def ordinal(value):
    """Return an int64 that orders as the float32 does: neighbouring floats are one apart, and both zeros are 0.

    Were they two, a search between them would never end, because no comparison tells them apart.
    """
    bits = value.to(tl.int32, bitcast=True).to(tl.int64)
    return tl.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


@triton.jit
def from_ordinal(number):
    """Return the float32 that has this `ordinal`."""
    magnitude = tl.abs(number).to(tl.int32).to(tl.float32, bitcast=True)
    return tl.where(number < 0, -magnitude, magnitude)


@triton.jit
def _first_tile(row, limit, BLOCK: tl.constexpr):
    """Return the logits of the first tile, in their own type; a row may be shorter than that."""
    ids = tl.arange(0, BLOCK)[None, :]
    return tl.load(row + ids, mask=ids < limit, other=float("-inf"))


@triton.jit
def _tile_after(row, start, limit, BLOCK: tl.constexpr):
    """Return the tile after the whole one at `start`, or that one again if it is the last, so that a loop may look ahead.

    Each loop asks for its next tile before it works on the one it has: else memory and arithmetic take turns.
    """
    after = tl.multiple_of(tl.minimum(start + BLOCK, limit // BLOCK * BLOCK - BLOCK), BLOCK)
    return tl.load(row + after + tl.arange(0, BLOCK)[None, :])


@triton.jit
def _last_tile(row, limit, BLOCK: tl.constexpr):
    """Return the logits behind the last whole tile, in float32, and their ids."""
    ids = limit // BLOCK * BLOCK + tl.arange(0, BLOCK)[None, :]
    return tl.load(row + ids, mask=ids < limit, other=float("-inf")).to(tl.float32), ids


@triton.jit
def _keep_greatest(logits, ids, best, found):
    found = tl.where(logits > best, ids, found)
    return tl.maximum(best, logits, propagate_nan=tl.PropagateNan.ALL), found


@triton.jit
def _greatest_of(best, found):
    greatest = tl.max(tl.max(best, 1), 0)
    top = tl.min(tl.min(tl.where(best == greatest, found, _NO_ID), 1), 0)
    return greatest, top, tl.max(tl.max((best != best).to(tl.int32), 1), 0)


@triton.jit
def find_greatest(row, limit, BLOCK: tl.constexpr):
    """Return the greatest logit, the lowest id that has it, and 1 if there is a NaN, else 0."""
    best = tl.full([1, BLOCK], float("-inf"), tl.float32)
    found = tl.zeros([1, BLOCK], tl.int32)
    ahead = _first_tile(row, limit, BLOCK)
    for start in tl.range(0, limit // BLOCK * BLOCK, BLOCK, loop_unroll_factor=_UNROLL):
        logits = ahead.to(tl.float32)
        ahead = _tile_after(row, start, limit, BLOCK)
        best, found = _keep_greatest(logits, start + tl.arange(0, BLOCK)[None, :], best, found)
    logits, ids = _last_tile(row, limit, BLOCK)
    best, found = _keep_greatest(logits, ids, best, found)
    return _greatest_of(best, found)


@triton.jit
def early_greatest(row, limit, BLOCK: tl.constexpr):
    """Return the greatest logit of the first tile."""
    return tl.max(tl.max(_first_tile(row, limit, BLOCK).to(tl.float32), 1), 0)


@triton.jit
def survey(row, limit, base, scale, pivots, BLOCK: tl.constexpr, FAST: tl.constexpr):
    """Return what `find_greatest` returns, the weight of all tokens, and for each of 8 pivots that of those above it.

    A token weighs 2^((logit - base) * scale); the weight of all is of use only where the scale is above 0.
    """
    best = tl.full([1, BLOCK], float("-inf"), tl.float32)
    found = tl.zeros([1, BLOCK], tl.int32)
    total = tl.zeros([1, BLOCK], tl.float32)
    sums = tl.zeros([8, BLOCK], tl.float32)
    ahead = _first_tile(row, limit, BLOCK)
    for start in tl.range(0, limit // BLOCK * BLOCK, BLOCK, loop_unroll_factor=_UNROLL):
        logits = ahead.to(tl.float32)
        ahead = _tile_after(row, start, limit, BLOCK)
        best, found = _keep_greatest(logits, start + tl.arange(0, BLOCK)[None, :], best, found)
        weights = _weights(logits, base, scale, FAST)
        total += weights
        sums += _flags(logits, pivots) * weights
    logits, ids = _last_tile(row, limit, BLOCK)
    best, found = _keep_greatest(logits, ids, best, found)
    weights = _weights(logits, base, scale, FAST)
    total += weights
    sums += _flags(logits, pivots) * weights
    greatest, top, spoilt = _greatest_of(best, found)
    return greatest, top, spoilt, tl.sum(tl.sum(total, 1), 0), tl.sum(sums, 1)


@triton.jit
def _weights(logits, base, scale, FAST: tl.constexpr):
    # Infinity times a scale of 0 would be NaN.
    return exp2(tl.maximum(logits - base, -1e38) * scale, FAST)


@triton.jit
def _flags(logits, pivots):
    """Return 1.0 where a logit is above a pivot, else 0.0: to multiply by it takes an instruction less than to select."""
    return (logits > pivots[:, None]).to(tl.float32)


@triton.jit
def _in_cut(logits, ids, lower, above, ties):
    """Say which tokens are in the cut (lower, ties); `above` is the float after `lower`."""
    return logits >= tl.where(ids < ties, lower, above)


@triton.jit
def _add_above(logits, ids, base, scale, lower, above, ties, pivots, cut_sum, sums, FAST: tl.constexpr):
    weights = _weights(logits, base, scale, FAST)
    cut_sum += _in_cut(logits, ids, lower, above, ties).to(tl.float32) * weights
    return cut_sum, sums + _flags(logits, pivots) * weights


@triton.jit
def sum_above(row, limit, base, scale, lower, ties, pivots, BLOCK: tl.constexpr, FAST: tl.constexpr):
    """Return the weight of the cut (lower, ties), and for each of 8 pivots that of the tokens above it.

    A token weighs 2^((logit - base) * scale): 1 where the scale is 0, which counts them.
    """
    above = from_ordinal(ordinal(lower) + 1)
    cut_sum = tl.zeros([1, BLOCK], tl.float32)
    sums = tl.zeros([8, BLOCK], tl.float32)
    ahead = _first_tile(row, limit, BLOCK)
    for start in tl.range(0, limit // BLOCK * BLOCK, BLOCK, loop_unroll_factor=_UNROLL):
        logits = ahead.to(tl.float32)
        ahead = _tile_after(row, start, limit, BLOCK)
        ids = start + tl.arange(0, BLOCK)[None, :]
        cut_sum, sums = _add_above(logits, ids, base, scale, lower, above, ties, pivots, cut_sum, sums, FAST)
    logits, ids = _last_tile(row, limit, BLOCK)
    cut_sum, sums = _add_above(logits, ids, base, scale, lower, above, ties, pivots, cut_sum, sums, FAST)
    return tl.sum(tl.sum(cut_sum, 1), 0), tl.sum(sums, 1)


@triton.jit
def find_tie(row, limit, value, wanted, BLOCK: tl.constexpr):
    """Return the id after the `wanted`-th of the tokens whose logit is `value`."""
    seen = 0
    after = 0
    for start in range(0, limit, BLOCK):
        ids = start + tl.arange(0, BLOCK)
        logits = tl.load(row + ids, mask=ids < limit, other=float("-inf")).to(tl.float32)
        equal = (logits == value).to(tl.int32)
        here = tl.sum(equal, 0)
        if (seen < wanted) & (seen + here >= wanted):
            order = seen + tl.cumsum(equal, 0)
            after = tl.min(tl.where((equal == 1) & (order == wanted), ids + 1, _NO_ID), 0)
        seen += here
    return after


@triton.jit
def _keep_first(
    logits, ids, greatest, scale, lower, above, ties, first_key, second_key, best, found, FAST: tl.constexpr
):
    slowness = exp2((greatest - logits) * scale, FAST)
    time = waiting_times(token_bits(ids, first_key, second_key), FAST) * slowness
    better = _in_cut(logits, ids, lower, above, ties) & (time < best)
    return tl.where(better, time, best), tl.where(better, ids, found)


@triton.jit
def race(row, limit, greatest, scale, lower, ties, first_key, second_key, BLOCK: tl.constexpr, FAST: tl.constexpr):
    """Return the token of the cut (lower, ties) that wins the race, and its logit.

    A token's time is exponential, divided by its weight; among equal times the lowest id wins.
    """
    above = from_ordinal(ordinal(lower) + 1)
    best = tl.full([1, BLOCK], float("inf"), tl.float32)
    found = tl.zeros([1, BLOCK], tl.int32)
    ahead = _first_tile(row, limit, BLOCK)
    for start in tl.range(0, limit // BLOCK * BLOCK, BLOCK, loop_unroll_factor=_UNROLL):
        logits = ahead.to(tl.float32)
        ahead = _tile_after(row, start, limit, BLOCK)
        ids = start + tl.arange(0, BLOCK)[None, :]
        best, found = _keep_first(
            logits, ids, greatest, scale, lower, above, ties, first_key, second_key, best, found, FAST
        )
    logits, ids = _last_tile(row, limit, BLOCK)
    best, found = _keep_first(
        logits, ids, greatest, scale, lower, above, ties, first_key, second_key, best, found, FAST
    )
    shortest = tl.min(tl.min(best, 1), 0)
    winner = tl.min(tl.min(tl.where(best == shortest, found, _NO_ID), 1), 0)
    return winner, tl.load(row + winner).to(tl.float32)

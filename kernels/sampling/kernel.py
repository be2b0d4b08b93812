"""The Triton kernel that samples: one program a row, no sort, a few passes over the row.

Neither top-k nor top-p needs its exact boundary: the pass that finds the greatest logit, and one more, bracket it; then
a race among all tokens that may survive names a winner. If the winner stands above the bracket, it would have won among
the survivors too. If not, one more pass weighs (or counts) the tokens before it: either it survives, or neither it nor
anything after it does, and the race is run again without those. (The idea of drawing first and checking afterwards is
that of FlashInfer's samplers; here a repeated race keeps each token's noise, so that the result is that of one race
among the exact survivors.) Only where both filters are on is the k-th logit found exactly, by narrowing an interval
ninefold or more with each pass, because top-p is a share of what top-k leaves.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.dispatch import interpreting
from kernels.sampling import FLAT_FROM, GREEDY_BELOW
from kernels.sampling.noise_kernel import row_keys
from kernels.sampling.passes import (
    early_greatest,
    find_greatest,
    find_tie,
    from_ordinal,
    ordinal,
    race,
    sum_above,
    survey,
)

# Columns a tile and warps a program: 8 logits a thread, and one row a multiprocessor at a time.
_BLOCK = 2048
_WARPS = 16
_GREEDY_BELOW: tl.constexpr = tl.constexpr(GREEDY_BELOW)
# Passes that bracket the boundary of top-p before the first race.
_BRACKETING: tl.constexpr = tl.constexpr(2)
_LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)
_FLAT_FROM: tl.constexpr = tl.constexpr(FLAT_FROM)


@triton.jit
def _spaced_pivots(greatest, temperature):
    """Return 8 pivots at growing distances under the greatest logit: 0.75 to 14 in units of the temperature."""
    step = tl.arange(0, 8).to(tl.float32)
    return greatest - temperature * (0.75 + step + 0.125 * step * step)


@triton.jit
def _early_pivots(base, temperature):
    """Return 8 pivots around a logit that may be somewhat under the greatest: from 3.5 temperatures above to 10 below."""
    step = tl.arange(0, 8).to(tl.float32)
    return base + temperature * (3.5 - 1.25 * step - 0.1 * step * step)


@triton.jit
def _even_pivots(high, low):
    """Return 8 pivots that cut the interval from high to low into 9 equal parts, descending."""
    return high - (high - low) * ((tl.arange(0, 8).to(tl.float32) + 1.0) / 9.0)


@triton.jit
def _ordinal_pivots(high, low):
    """Return 8 pivots evenly spaced in the floats that lie between high and low, so that the search must end."""
    return from_ordinal(ordinal(low) + (ordinal(high) - ordinal(low)) * (8 - tl.arange(0, 8)) // 9)


@triton.jit
def _cut_top_k(
    row, limit, greatest, temperature, k, low, high, above_low, above_high, BLOCK: tl.constexpr, FAST: tl.constexpr
):
    """Return the cut of exactly the k first tokens, or of all tokens with a chance if there are no more than k.

    Fewer than k tokens, `above_high`, are above `high`; and k or more, `above_low`, above `low`, unless there are no k.
    """
    passes = 0
    # Done when exactly k are above `low`, or when no float lies between: then the k-th equals `high`.
    while (above_low > k) & (ordinal(high) - ordinal(low) > 1):
        if low > float("-inf"):
            pivots = _even_pivots(high, low) if passes < 4 else _ordinal_pivots(high, low)
        else:
            pivots = _spaced_pivots(greatest, temperature) if passes == 0 else _ordinal_pivots(high, low)
        possible, counts = sum_above(row, limit, greatest, 0.0, greatest - float("inf"), 0, pivots, BLOCK, FAST)
        above_low = tl.minimum(tl.min(tl.where(counts >= k, counts, float("inf")), 0), tl.minimum(above_low, possible))
        above_high = tl.maximum(tl.max(tl.where(counts < k, counts, 0.0), 0), above_high)
        low = tl.maximum(tl.max(tl.where(counts >= k, pivots, float("-inf")), 0), low)
        high = tl.minimum(tl.min(tl.where(counts < k, pivots, float("inf")), 0), high)
        passes += 1
    ties = 0
    if above_low > k:
        ties = find_tie(row, limit, high, (k - above_high).to(tl.int32), BLOCK)
        low = high
    return low, ties


@triton.jit
def _narrow(high, lower, ties, pivots, sums, target):
    """Return (high, lower, ties): what is above `high` survives for sure, what is outside the cut does not."""
    high = tl.minimum(tl.min(tl.where(sums < target, pivots, float("inf")), 0), high)
    reached = tl.max(tl.where(sums >= target, pivots, float("-inf")), 0)
    # Pivots are never below the cut, so one whose tokens reach the target is the tighter bound.
    ties = tl.where(reached > float("-inf"), 0, ties)
    return high, tl.maximum(lower, reached), ties


@triton.jit
def _draw(
    row, limit, greatest, top, temperature, p, least, high, lower, ties, base, weighing, target, bracketing,
    first_key, second_key, BLOCK: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Return the token that one row draws from the cut (lower, ties), of which all above `high` survive.

    Those survive that have less than `target` before them, weighed by the scale `weighing`: 0 counts them, for top-k;
    otherwise the target is p of what the cut weighs. min_p keeps the tokens whose logit is `least` or more.
    `bracketing` passes narrow the cut before the first race.
    """
    scale = tl.div_rn(_LOG2_E, temperature)
    token = top
    racing = 1
    while racing == 1:
        # What is weighed in this round: the cut itself at first, then the tokens before a winner.
        value = lower
        limit_of_ties = ties
        if bracketing > 0:
            pivots = _even_pivots(high, tl.maximum(lower, greatest - 40.0 * temperature))
            if bracketing == _BRACKETING:
                pivots = tl.maximum(_spaced_pivots(greatest, temperature), lower)
        else:
            last = tl.where(least > lower, limit, ties)
            token, value = race(
                row, limit, greatest, scale, tl.maximum(lower, least), last, first_key, second_key, BLOCK, FAST
            )
            limit_of_ties = token
            pivots = _even_pivots(high, value)
            if (value > high) | (token == top):
                racing = 0
        if racing == 1:
            before, sums = sum_above(row, limit, base, weighing, value, limit_of_ties, pivots, BLOCK, FAST)
            if bracketing == _BRACKETING:
                target = tl.where(weighing > 0.0, p * before, target)
            elif (bracketing == 0) & (before < target):
                racing = 0
            high, lower, ties = _narrow(high, value, limit_of_ties, pivots, sums, target)
            bracketing = tl.maximum(bracketing - 1, 0)
    return token


# Parameters may be pieces of longer tensors: a new alignment must not compile a new kernel while serving.
@triton.jit(
    do_not_specialize=["limit"],
    do_not_specialize_on_alignment=["temperatures", "top_ks", "top_ps", "min_ps", "seeds", "positions", "drawn"],
)
def sample_kernel(
    logits,  # [rows, width]
    temperatures,  # [rows] float32
    top_ks,  # [rows]
    top_ps,  # [rows] float32
    min_ps,  # [rows] float32
    seeds,  # [rows] int64
    positions,  # [rows] int64
    drawn,  # [rows] int64
    logits_stride,
    limit,
    BLOCK: tl.constexpr,
    FAST: tl.constexpr,
):
    """Draw one token of one row, or -1 if the row holds a NaN or its greatest logit is infinite."""
    index = tl.program_id(0).to(tl.int64)
    row = logits + index * logits_stride
    asked_temperature = tl.load(temperatures + index)
    temperature = tl.minimum(asked_temperature, _FLAT_FROM)
    top_k = tl.load(top_ks + index).to(tl.int64)
    top_p = tl.load(top_ps + index)
    min_p = tl.load(min_ps + index)
    # A NaN fails every comparison: a temperature of NaN is greedy, a top_p or min_p of NaN is off.
    sampled = (asked_temperature >= _GREEDY_BELOW) & (top_k != 1) & ((top_p > 0.0) | (top_p != top_p))
    k = tl.where(top_k >= limit, 0, tl.maximum(top_k, 0)).to(tl.float32)
    # A target of zero would be reached by no tokens at all.
    p = tl.where(top_p < 1.0, tl.maximum(top_p, 1e-30), 1.0)
    filtered = sampled & ((k > 0.0) | (p < 1.0))

    # With a filter the pass that finds the greatest logit weighs or counts as well, from a base that it guesses.
    base = early_greatest(row, limit, BLOCK)
    pivots = _early_pivots(base, temperature)
    scale = tl.div_rn(_LOG2_E, temperature)
    weighing = tl.where(k > 0.0, 0.0, scale)
    target = k
    sums = tl.zeros([8], tl.float32)
    if filtered:
        greatest, top, spoilt, total, sums = survey(row, limit, base, weighing, pivots, BLOCK, FAST)
        target = tl.where(k > 0.0, k, p * total)
    else:
        greatest, top, spoilt = find_greatest(row, limit, BLOCK)
    token = top
    if (spoilt != 0) | (tl.abs(greatest) == float("inf")):
        token = -1
    elif sampled:
        least = tl.where(min_p > 0.0, greatest + temperature * tl.log(tl.minimum(min_p, 1.0)), float("-inf"))
        lower = greatest - float("inf")
        # Without a filter everything in the cut is above `high`, and so survives.
        high = tl.where(filtered, greatest, lower)
        bracketing = tl.where(filtered, _BRACKETING, 0)
        ties = 0
        # Far above the base the weights would overflow; then nothing is gained.
        usable = filtered & (base > float("-inf")) & ((greatest - base) * weighing < 100.0)
        if usable:
            high, lower, ties = _narrow(high, lower, ties, pivots, sums, target)
            bracketing -= 1
        else:
            base = greatest
        if (k > 0.0) & (p < 1.0):
            # Here the cut of top-k must be exact, because p is a share of what it weighs.
            above_low = tl.min(tl.where(pivots == lower, sums, float("inf")), 0)
            above_low = tl.where(usable, above_low, float("inf"))
            above_high = tl.where(usable, tl.max(tl.where(pivots == high, sums, 0.0), 0), 0.0)
            lower, ties = _cut_top_k(
                row, limit, greatest, temperature, k, lower, high, above_low, above_high, BLOCK, FAST
            )
            high = greatest
            base = greatest
            weighing = scale
            bracketing = tl.where(filtered, _BRACKETING, 0)
        first_key, second_key = row_keys(tl.load(seeds + index), tl.load(positions + index))
        token = _draw(
            row, limit, greatest, top, temperature, p, least, high, lower, ties, base, weighing, target, bracketing,
            first_key, second_key, BLOCK, FAST,
        )  # fmt: skip
    tl.store(drawn + index, token.to(tl.int64))


def launch_sample(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    limit: int,
) -> torch.Tensor:
    """Launch the kernel; see `kernels.sampling.sample`."""
    rows = logits.shape[0]
    drawn = torch.empty(rows, dtype=torch.int64, device=logits.device)
    if rows:
        sample_kernel[(rows,)](
            logits,
            temperature.float(),
            top_k,
            top_p.float(),
            min_p.float(),
            seeds,
            positions,
            drawn,
            logits.stride(0),
            limit,
            BLOCK=_BLOCK,
            FAST=not interpreting(),
            num_warps=_WARPS,
        )
    return drawn

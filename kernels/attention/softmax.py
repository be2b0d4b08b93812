"""The arithmetic that decode and prefill share, so that a row's bits do not depend on which of them computed it.

A row's keys are taken in tiles at absolute positions, added up over a split (the online softmax of Milakov and
Gimelshein, to base 2, as in FlashAttention), and the splits are merged in order, undivided until the end:

    keys      0 ........ 63 | 64 ...... 127 | ...      | 512 ..... 575 | ...
    tiles     `accumulate`  → `accumulate`  → ...      | `accumulate`  → ...
    splits    values, weights and top of 0..511        | of 512..1023
    row       `merge`                                  → `merge`               → ... → `quotient`

Tiles and splits that a row does not see change nothing, to the bit: their scores are minus infinity, their weights
0 and the factors of what came before 1. So it does not matter that a prefill tile meets them for the sake of its
other rows. The weights of a row are added in an order that is written out, half to half, because a reduction adds in
the order of a tile's layout, and decode and prefill have other layouts.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Enough for tiles of 256 keys.
_MOST_HALVINGS = tl.constexpr(8)


@triton.jit
def capped(products, scale, cap):
    """Return `cap · tanh(...)` of products of query and key, as scores to base 2; factors come from `score_factors`.

    Written with one exponential, which may overflow to infinity and then gives exactly `cap`.
    """
    return cap - 2.0 * cap / (tl.exp2(products * scale) + 1.0)


@triton.jit
def halves(weights):
    """Add the right half of each row to its left half: [rows, columns] become [rows, columns / 2]."""
    pairs = tl.reshape(weights, [weights.shape[0], 2, weights.shape[1] // 2])
    left, right = tl.split(tl.trans(pairs, 0, 2, 1))
    return left + right


@triton.jit
def score(query, key, scale, cap, CAPPED: tl.constexpr):
    """Return products [rows, tile] of a tile of queries [rows, columns] and one of keys [tile, columns].

    With `CAPPED` they are scores, see `capped`; otherwise `accumulate` makes them scores.
    """
    products = tl.dot(query, tl.trans(key), input_precision="ieee")
    return capped(products, scale, cap) if CAPPED else products


@triton.jit
def empty_split(ROWS: tl.constexpr, COLUMNS: tl.constexpr, TILE: tl.constexpr):
    """Return the state (total, weight, top) of a split to which nothing has been added."""
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    weight = tl.zeros([ROWS, TILE // 2], tl.float32)
    return total, weight, tl.full([ROWS], float("-inf"), tl.float32)


@triton.jit
def accumulate(scores, value, total, weight, top, scale):
    """Add one tile of keys to a split's running state and return it.

    Whether a multiplication and an addition round once or twice is written out, or the compiler would decide it by
    what stands before them.

    Args:
        scores: [rows, tile], minus infinity where a row does not see a key.
        value: [tile, columns], zero where no row may look.
        total: [rows, columns] float32, weighted sum of values.
        weight: [rows, tile / 2] float32, sums of weights, of which `summed` makes one.
        top: [rows] float32, largest score so far.
        scale: what makes `scores` scores to base 2; above zero.
    """
    new_top = tl.maximum(top, tl.max(scores, 1) * scale)
    # A row that has seen nothing yet would subtract infinities.
    base = tl.where(new_top == float("-inf"), 0.0, new_top)
    weights = tl.exp2(tl.fma(scores, scale, -base[:, None]))
    fade = tl.exp2(top - base)
    weight = tl.fma(weight, fade[:, None], halves(weights))
    total = tl.dot(weights.to(value.dtype), value, total * fade[:, None], input_precision="ieee")
    return total, weight, new_top


@triton.jit
def summed(weight):
    """Return the sum [rows] of each row of `accumulate`'s weights."""
    for _ in tl.static_range(_MOST_HALVINGS):
        if weight.shape[1] > 1:
            weight = halves(weight)
    return tl.reshape(weight, [weight.shape[0]])


@triton.jit
def merge(output, share, best, total, weight, top):
    """Merge the next split into a row's running (output, share, best) and return it.

    Both are weighted sums of values, sums of weights and largest scores; of a split without a seen key 0, 0 and -inf.
    For tensors of rows; `output` and `total` have one axis more at the end.
    """
    new_best = tl.maximum(best, top)
    base = tl.where(new_best == float("-inf"), 0.0, new_best)
    fade = tl.exp2(best - base)
    gain = tl.exp2(top - base)
    output = tl.fma(output, tl.expand_dims(fade, -1), total * tl.expand_dims(gain, -1))
    return output, tl.fma(share, fade, weight * gain), new_best


@triton.jit
def quotient(output, share):
    """Return weighted sums divided by their weights; rows that saw nothing are zero."""
    return output * tl.expand_dims(1.0 / tl.where(share == 0.0, 1.0, share), -1)

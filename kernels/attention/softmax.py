"""The arithmetic that decode and prefill share, so that a row's bits do not depend on which of them computed it.

A row's keys are taken in tiles at absolute positions, added up over a split (the online softmax of Milakov and
Gimelshein, to base 2, as in FlashAttention), and the splits are merged in order:

    keys      0 ........ 63 | 64 ...... 127 | ...      | 512 ..... 575 | ...
    tiles     accumulate    → accumulate    → ...      | accumulate    → ...
    splits    `close`: output and log-sum-exp of 0..511| `close` of 512..1023
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
def accumulate(query, key, value, seen, total, weight, top, scale, cap, CAPPED: tl.constexpr, MASKED: tl.constexpr):
    """Add one tile of keys to a split's running state and return it.

    Whether a multiplication and an addition round once or twice is written out, or the compiler would decide it by
    whether a mask stands between them.

    Args:
        query: [rows, columns].
        key: [tile, columns].
        value: [tile, columns], zero where no row may look.
        seen: [rows, tile], which row sees which key; used if `MASKED`.
        total: [rows, columns] float32, weighted sum of values.
        weight: [rows, tile / 2] float32, sums of weights, of which `close` makes one.
        top: [rows] float32, largest score so far.
        scale: what makes a product a score to base 2; above zero.
        cap: see `capped`; used if `CAPPED`.
        CAPPED: whether scores are capped.
        MASKED: whether some row does not see some key.
    """
    scores = tl.dot(query, tl.trans(key), input_precision="ieee")
    if CAPPED:
        scores = capped(scores, scale, cap)
        scale = 1.0
    if MASKED:
        scores = tl.where(seen, scores, float("-inf"))
    new_top = tl.maximum(top, tl.max(scores, 1) * scale)
    # A row that has seen nothing yet would subtract infinities.
    base = tl.where(new_top == float("-inf"), 0.0, new_top)
    weights = tl.exp2(tl.fma(scores, scale, -base[:, None]))
    fade = tl.exp2(top - base)
    weight = tl.fma(weight, fade[:, None], halves(weights))
    total = tl.dot(weights.to(value.dtype), value, total * fade[:, None], input_precision="ieee")
    return total, weight, new_top


@triton.jit
def close(total, weight, top):
    """Return a split's normalised output [rows, columns] and log-sum-exp [rows] to base 2; nothing seen: 0 and -inf."""
    for _ in tl.static_range(_MOST_HALVINGS):
        if weight.shape[1] > 1:
            weight = halves(weight)
    summed = tl.reshape(weight, [weight.shape[0]])
    divisor = tl.where(summed == 0.0, 1.0, summed)
    return total / divisor[:, None], tl.where(summed == 0.0, float("-inf"), top + tl.log2(divisor))


@triton.jit
def merge(output, share, top, split_output, split_lse):
    """Merge the next split into a row's running (output, share, top) and return it; `share` is the sum of weights.

    For tensors of rows; outputs have one axis more at the end.
    """
    new_top = tl.maximum(top, split_lse)
    base = tl.where(new_top == float("-inf"), 0.0, new_top)
    fade = tl.exp2(top - base)
    gain = tl.exp2(split_lse - base)
    output = tl.fma(output, tl.expand_dims(fade, -1), split_output * tl.expand_dims(gain, -1))
    return output, tl.fma(share, fade, gain), new_top


@triton.jit
def quotient(output, share):
    """Return the merged outputs divided by their weights; rows that saw nothing are zero."""
    return output / tl.expand_dims(tl.where(share == 0.0, 1.0, share), -1)

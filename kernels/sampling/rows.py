"""Sampling a row in plain torch, one row at a time, so that nothing about a row depends on its neighbours."""

from __future__ import annotations

import math

import torch

from kernels.sampling import FLAT_FROM, GREEDY_BELOW
from kernels.sampling.noise import row_keys, token_bits, waiting_times

# Weights are summed as integers in units of 2^-40 of the greatest: exact, in whatever order they are added.
_UNIT = 2.0**40
# As many tokens are sorted at once.
_FEW = 256
# Float32 has no more to halve.
_HALVINGS = 160


def sample_row(
    logits: torch.Tensor, temperature: float, top_k: int, top_p: float, min_p: float, seed: int, position: int
) -> int:
    """Draw a token of one row [vocabulary]; the parameters are those of `kernels.sampling.sample`."""
    logits = logits.float()
    greatest = logits.max()
    if not math.isfinite(greatest):
        return -1
    # Not ">=": a temperature of NaN is greedy.
    if not temperature >= GREEDY_BELOW or top_k == 1 or top_p <= 0:
        return int((logits == greatest).nonzero()[0])
    temperature = min(temperature, FLAT_FROM)
    ids = _survivors(logits, greatest, temperature, top_k, top_p)
    if min_p > 0:
        least = greatest + temperature * math.log(min(min_p, 1.0))
        ids = ids[logits[ids] >= least]
    race = waiting_times(token_bits(ids, row_keys(seed, position))) * torch.exp((greatest - logits[ids]) / temperature)
    return int(ids[(race == race.min()).nonzero()[0]])


def _survivors(
    logits: torch.Tensor, greatest: torch.Tensor, temperature: float, top_k: int, top_p: float
) -> torch.Tensor:
    """Return, in ascending order, the ids that top_k and top_p leave."""
    possible = int((logits > -math.inf).sum())
    count = top_k if 0 < top_k < possible else possible
    best = logits.topk(min(count, _FEW)).values
    if top_p < 1:
        count = _nucleus(logits, best, greatest, temperature, count, top_p)
    if count == possible:
        return (logits > -math.inf).nonzero()[:, 0]
    boundary = best[count - 1] if count <= len(best) else logits.topk(count, sorted=False).values.min()
    above = (logits > boundary).nonzero()[:, 0]
    equal = (logits == boundary).nonzero()[:, 0]
    return torch.cat([above, equal[: count - len(above)]]).sort().values


def _nucleus(
    logits: torch.Tensor, best: torch.Tensor, greatest: torch.Tensor, temperature: float, count: int, top_p: float
) -> int:
    """Return how many of the first `count` tokens of the ranking, which begins with `best`, top_p keeps: at least one."""
    values = best if count == len(best) else logits
    if len(best) < count < len(logits):
        values = logits.topk(count, sorted=False).values
    weights = _weights(values, greatest, temperature)
    target = math.ceil(top_p * int(weights.sum()))
    kept = _head(best, _weights(best, greatest, temperature), 0, target)
    # Almost always the nucleus ends among the few best; only where it does not is more of the row looked at.
    return max(kept if kept < len(best) or count == len(best) else _long_head(values, weights, target), 1)


def _head(values: torch.Tensor, weights: torch.Tensor, before: int, target: int) -> int:
    """Return how many of the tokens have less than `target` before them in the ranking."""
    weights = weights[values.argsort(descending=True)]
    return int((before + weights.cumsum(0) - weights < target).sum())


def _long_head(values: torch.Tensor, weights: torch.Tensor, target: int) -> int:
    """Return what `_head` returns, without sorting all: what is in doubt is halved until few are left."""
    # Whatever weighs nothing ranks behind the whole target.
    some = (weights > 0).nonzero()[:, 0]
    values, weights = values[some], weights[some]
    low, high = float(values.min()), float(values.max())
    kept, before = 0, 0
    for _ in range(_HALVINGS):
        if len(values) <= _FEW:
            break
        middle = (low + high) / 2
        upper = values > middle
        above = int((weights * upper).sum())
        if before + above < target:
            kept, before, high = kept + int(upper.sum()), before + above, middle
            upper = ~upper
        else:
            low = middle
        doubtful = upper.nonzero()[:, 0]
        values, weights = values[doubtful], weights[doubtful]
    return kept + _head(values, weights, before, target)


def _weights(logits: torch.Tensor, greatest: torch.Tensor, temperature: float) -> torch.Tensor:
    return (torch.exp((logits - greatest) / temperature) * _UNIT).to(torch.int64)

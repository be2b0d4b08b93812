"""Sampling a row in plain torch, one row at a time, so that nothing about a row depends on its neighbours."""

from __future__ import annotations

import math

import torch

from kernels.sampling import FLAT_FROM, GREEDY_BELOW
from kernels.sampling.noise import row_keys, token_bits, waiting_times

# Weights are summed as integers in units of 2^-40 of the greatest: exact, in whatever order they are added.
_UNIT = 2.0**40
_FIRST_LOOK = 256


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
    if top_p < 1:
        count = _nucleus(logits, greatest, temperature, count, top_p)
    if count == possible:
        return (logits > -math.inf).nonzero()[:, 0]
    boundary = logits.topk(count, sorted=False).values.min()
    above = (logits > boundary).nonzero()[:, 0]
    equal = (logits == boundary).nonzero()[:, 0]
    return torch.cat([above, equal[: count - len(above)]]).sort().values


def _nucleus(logits: torch.Tensor, greatest: torch.Tensor, temperature: float, count: int, top_p: float) -> int:
    """Return how many of the first `count` tokens of the ranking top_p keeps: at least one."""
    total = int(_weights(logits.topk(count, sorted=False).values, greatest, temperature).sum())
    target = math.ceil(top_p * total)
    looked = min(_FIRST_LOOK, count)
    while True:
        # Almost always a few tokens hold the whole nucleus; only when they do not is more of the row ranked.
        weights = _weights(logits.topk(looked).values, greatest, temperature)
        kept = int((weights.cumsum(0) - weights < target).sum())
        if kept < looked or looked == count:
            return max(kept, 1)
        looked = min(8 * looked, count)


def _weights(logits: torch.Tensor, greatest: torch.Tensor, temperature: float) -> torch.Tensor:
    return (torch.exp((logits - greatest) / temperature) * _UNIT).to(torch.int64)

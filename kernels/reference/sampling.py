"""Sampling one row with a full sort, in float64, and the noise in Python's integers."""

from __future__ import annotations

import math

import torch

_MASK = 0xFFFFFFFF


def survivors(logits: torch.Tensor, temperature: float, top_k: int, top_p: float, min_p: float) -> list[int]:
    """Return the ids that the filters leave of one row, in the order of the ranking.

    The parameters mean what they mean in `kernels.sampling.sample`; the temperature is not greedy.
    """
    values = logits.double().tolist()
    ranking = sorted((token for token, value in enumerate(values) if value > -math.inf), key=lambda t: (-values[t], t))
    if top_k > 0:
        ranking = ranking[:top_k]
    weights = [math.exp((values[token] - values[ranking[0]]) / temperature) for token in ranking]
    if top_p < 1:
        total, before, kept = math.fsum(weights), 0.0, 0
        while kept == 0 or (kept < len(ranking) and before < top_p * total):
            before += weights[kept]
            kept += 1
        ranking = ranking[:kept]
    if min_p > 0:
        ranking = [token for token, weight in zip(ranking, weights, strict=False) if weight >= min(min_p, 1.0)]
    return ranking


def probabilities(logits: torch.Tensor, temperature: float, kept: list[int]) -> torch.Tensor:
    """Return the float64 probabilities [len(kept)] of the surviving tokens."""
    return torch.softmax(logits.double()[kept] / temperature, 0)


def gumbel(seed: int, position: int, token: int) -> float:
    """Return the standard Gumbel noise of a token."""
    uniform = (token_bits(seed, position, token) + 0.5) / 2.0**32
    return -math.log(-math.log1p(-uniform))


def token_bits(seed: int, position: int, token: int) -> int:
    """Return a token's 32 random bits."""
    key = 0x9E3779B9
    for word in (seed, seed >> 32, position, position >> 32):
        key = _triple32(key ^ (word & _MASK))
    return _lowbias32(token * 0x9E3779B1 + key & _MASK, _triple32(key ^ 0x9E3779B9))


def draw(
    logits: torch.Tensor, temperature: float, top_k: int, top_p: float, min_p: float, seed: int, position: int
) -> int:
    """Return the surviving token of the greatest sum of scaled logit and Gumbel noise."""
    kept = survivors(logits, temperature, top_k, top_p, min_p)
    return max(kept, key=lambda token: float(logits[token]) / temperature + gumbel(seed, position, token))


def _triple32(x: int) -> int:
    x = (x ^ x >> 17) * 0xED5AD4BB & _MASK
    x = (x ^ x >> 11) * 0xAC4C1B51 & _MASK
    x = (x ^ x >> 15) * 0x31848BAB & _MASK
    return x ^ x >> 14


def _lowbias32(x: int, key: int) -> int:
    x = (x ^ x >> 16) * 0x7FEB352D + key & _MASK
    x = (x ^ x >> 15) * 0x846CA68B & _MASK
    return x ^ x >> 16

"""Pearson's chi-square test, for draws from a known distribution."""

from __future__ import annotations

import math

import torch


def deviation(counts: torch.Tensor, probabilities: torch.Tensor) -> float:
    """How many standard deviations the chi-square statistic is above what chance gives it (Wilson and Hilferty 1931)."""
    expected = counts.sum() * probabilities.double()
    assert expected.min() >= 5, "too few draws for the test to mean anything"
    freedom = len(counts) - 1
    statistic = float(((counts.double() - expected) ** 2 / expected).sum())
    variance = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - variance)) / math.sqrt(variance)

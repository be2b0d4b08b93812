"""The distribution of what is drawn, and of the noise it is drawn with."""

from __future__ import annotations

import math

import pytest
import torch

from kernels.reference import sampling as reference
from kernels.sampling import noise, sample
from tests.kernels.chi_square import deviation

DRAWS = 4_000


def draws(logits: torch.Tensor, seeds: torch.Tensor, positions: torch.Tensor, **filters: float) -> torch.Tensor:
    count = len(seeds)
    column = {"temperature": 0.8, "top_k": 0.0, "top_p": 1.0, "min_p": 0.0} | filters
    temperature, top_k, top_p, min_p = (torch.full((count,), value) for value in column.values())
    return sample(logits.expand(count, -1), temperature, top_k.long(), top_p, min_p, seeds, positions)


@pytest.mark.parametrize(
    "filters", [{}, {"top_k": 12.0}, {"top_p": 0.8}, {"min_p": 0.1}, {"top_k": 15.0, "top_p": 0.9}]
)
def test_tokens_are_drawn_with_the_probability_that_the_filters_leave_them(filters: dict[str, float]) -> None:
    logits = torch.randn(24, generator=torch.Generator().manual_seed(3)) * 0.6
    counts = draws(logits, torch.arange(DRAWS), torch.full((DRAWS,), 11), **filters).bincount(minlength=24)
    chosen = {"temperature": 0.8, "top_k": 0, "top_p": 1.0, "min_p": 0.0} | filters
    kept = reference.survivors(logits, chosen["temperature"], int(chosen["top_k"]), chosen["top_p"], chosen["min_p"])
    assert int(counts[kept].sum()) == DRAWS
    assert abs(deviation(counts[kept], reference.probabilities(logits, 0.8, kept))) < 4


def test_draws_at_neighbouring_positions_are_independent() -> None:
    logits = torch.randn(5, generator=torch.Generator().manual_seed(4)) * 0.5
    drawn = draws(logits, torch.full((DRAWS,), 5), torch.arange(DRAWS))
    share = torch.softmax(logits.double() / 0.8, 0)
    counts = (drawn[:-1] * 5 + drawn[1:]).bincount(minlength=25)
    assert abs(deviation(counts, (share[:, None] * share).flatten())) < 4


def test_every_bit_of_the_noise_is_even_and_independent_of_its_neighbours() -> None:
    bits = noise.token_bits(torch.arange(100_000), noise.row_keys(1, 2))
    ones = (bits[:, None] >> torch.arange(32) & 1).double().mean(0)
    assert float((ones - 0.5).abs().max()) < 5 * 0.5 / math.sqrt(100_000)
    high, next_row = bits >> 28, noise.token_bits(torch.arange(100_000), noise.row_keys(1, 3)) >> 28
    for pairs in (high[:-1] * 16 + high[1:], high * 16 + next_row):
        assert abs(deviation(pairs.bincount(minlength=256), torch.full((256,), 1 / 256))) < 4


def test_waiting_times_are_finite_positive_and_exponential() -> None:
    extremes = noise.waiting_times(torch.tensor([0, 1, 2**31, 2**32 - 2, 2**32 - 1]))
    assert extremes.isfinite().all()
    assert extremes.min() > 0
    times = noise.waiting_times(noise.token_bits(torch.arange(100_000), noise.row_keys(6, 0))).double()
    tenths = -torch.log1p(-torch.arange(1, 10).double() / 10)
    counts = torch.bucketize(times, tenths).bincount(minlength=10)
    assert abs(deviation(counts, torch.full((10,), 0.1))) < 4


def test_the_noise_is_the_references() -> None:
    bits = noise.token_bits(torch.tensor([0, 1, 151_935]), noise.row_keys(-3, 2**33 + 5))
    assert bits.tolist() == [reference.token_bits(-3, 2**33 + 5, token) for token in (0, 1, 151_935)]
    for time, token in zip(noise.waiting_times(bits).tolist(), (0, 1, 151_935), strict=True):
        assert -math.log(time) == pytest.approx(reference.gumbel(-3, 2**33 + 5, token), abs=1e-6)

"""When requests are due."""

from itertools import pairwise

import pytest

from bench.serve.arrivals import Arrivals


def test_all_at_once_are_due_at_once_each_with_a_caller_of_its_own() -> None:
    assert Arrivals().moments(3) == [0.0, 0.0, 0.0]
    assert Arrivals().callers(2) == [None, None]


def test_a_rate_is_kept_on_average_and_the_same_in_every_run() -> None:
    moments = Arrivals(rate=50.0).moments(5000)
    assert moments == Arrivals(rate=50.0).moments(5000)
    assert moments == sorted(moments)
    assert moments[-1] == pytest.approx(100.0, rel=0.05)
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    # Poisson: as many gaps are longer than the mean as e to the minus one says.
    assert sum(gap > 1 / 50 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.03)


def test_callers_are_dealt_out_evenly() -> None:
    assert Arrivals(concurrency=7).callers(3) == [3, 2, 2]

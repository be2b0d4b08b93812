"""Percentiles, gaps between tokens, and what of a run counts."""

from array import array

import pytest

from bench.serve.figures import figures_of, percentiles
from bench.serve.records import Output, Record


def record(number: int, due: float, moments: list[float], counts: list[int], ended: float) -> Record:
    return Record(
        number,
        due,
        accepted=due + 0.5,
        ended=ended,
        prompt_tokens=10,
        cached_tokens=4,
        outputs={0: Output(array("d", moments), array("I", counts))},
        finished=1,
    )


def test_percentiles_lie_between_the_nearest_two_values() -> None:
    assert percentiles(range(101)) == {"p50": 50, "p90": 90, "p99": 99, "mean": 50}
    assert percentiles([1.0, 2.0])["p90"] == pytest.approx(1.9)
    assert percentiles([7.0]) == {"p50": 7, "p90": 7, "p99": 7, "mean": 7}
    assert percentiles([]) == {}


def test_tokens_that_come_together_share_the_time_since_those_before() -> None:
    output = Output(array("d", [1.0, 2.0, 4.0]), array("I", [1, 1, 4]))
    assert output.gaps() == [1.0, 0.5, 0.5, 0.5, 0.5]


def test_times_count_from_when_a_request_was_due() -> None:
    found = figures_of([record(0, 1.0, [3.0, 4.0, 5.0], [1, 1, 1], 5.5)], 1, 5.5)
    assert found.times["ttft"]["p50"] == 2.0
    assert found.times["tpot"]["p50"] == 1.0
    assert found.times["e2e"]["p50"] == 4.5
    assert found.times["queued"]["p50"] == 0.5
    assert (found.output_tokens, found.prompt_tokens, found.cached_tokens) == (3, 10, 4)
    assert found.output_rate == pytest.approx(3 / 5.5)
    assert found.total_rate == pytest.approx(13 / 5.5)


def test_what_failed_counts_by_its_reason_and_in_no_rate() -> None:
    failed = [record(number, 0.0, [1.0, 9.0], [1, 1], 9.0) for number in (1, 2)]
    for one in failed:
        one.fail("queue_full", f"full, said to {one.number}")
    found = figures_of([record(0, 0.0, [1.0, 2.0], [1, 1], 2.0), *failed], 5, 10.0)
    assert (found.completed, found.failed) == (1, {"queue_full": 2, "not_begun": 2})
    assert found.explanations["queue_full"] == "full, said to 1"
    assert found.output_tokens == 2
    assert found.times["itl"]["mean"] == 1.0


def test_nothing_that_completed_gives_no_times_and_no_division_by_zero() -> None:
    found = figures_of([], 3, 0.0)
    assert (found.completed, found.output_rate, found.request_rate) == (0, 0.0, 0.0)
    assert found.times["ttft"] == {}

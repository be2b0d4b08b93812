"""What a door counts, and that the documentation says so."""

import re
from pathlib import Path

from executor.frontend.metrics import DoorMetrics
from executor.frontend.stopwatch import Arrival, Stopwatch

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_every_metric_is_documented_and_no_other() -> None:
    named = set(re.findall(r"`(pagehold_door_\w+)", DOCUMENT.read_text()))
    assert {metric.name for metric in DoorMetrics().registry.collect()} == named


def test_the_first_token_and_those_behind_it_are_timed_apart() -> None:
    metrics = DoorMetrics()
    watch = Stopwatch(metrics, Arrival.now())
    assert not watch.timings().HasField("first_token")
    watch.accepted()
    watch.sent(1)
    watch.sent(4)
    watch.ended()
    sample = metrics.registry.get_sample_value
    assert sample("pagehold_door_queue_seconds_count") == 1
    assert sample("pagehold_door_first_token_seconds_count") == 1
    assert sample("pagehold_door_inter_token_seconds_count") == 1
    assert sample("pagehold_door_request_seconds_count") == 1
    assert sample("pagehold_door_tokens_total", {"kind": "output"}) == 5
    assert 0 <= watch.timings().queued <= watch.timings().first_token <= watch.timings().total


def test_who_attaches_has_not_been_in_the_queue() -> None:
    metrics = DoorMetrics()
    Stopwatch(metrics, None).accepted()
    assert metrics.registry.get_sample_value("pagehold_door_queue_seconds_count") == 0


def test_time_runs_from_the_arrival_and_not_from_when_the_watch_was_made() -> None:
    arrived = Arrival.now()
    earlier = Arrival(arrived.time - 5, arrived.clock - 5)
    assert Stopwatch(DoorMetrics(), earlier).timings().total >= 5

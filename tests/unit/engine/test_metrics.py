"""What an engine counts, and what the page says of it."""

import re
from pathlib import Path

from blockmgr.core.states import FinishReason, Refusal
from executor.engine.metrics import Metrics
from executor.engine.news import Ended, Refused
from pagehold.engine.v1 import submit_pb2

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_the_page_lists_what_there_is() -> None:
    metrics = Metrics()
    metrics.watch_allocator(lambda: 0)
    there = {metric.name for metric in metrics.registry.collect()}
    listed = set(re.findall(r"`(pagehold_engine_\w+)[`{]", PAGE.read_text()))
    assert listed == there


def test_ends_and_refusals_are_counted_by_reason() -> None:
    metrics = Metrics()
    metrics.count_news(
        [
            Ended(b"", 1, FinishReason.CANCELLED, []),
            Ended(b"", 2, FinishReason.CANCELLED, []),
            Refused(b"", by=submit_pb2.REFUSED_BY_CANCEL),
            Refused(b"", Refusal.NEVER_FITS),
        ]
    )

    def count(name: str, reason: str) -> float | None:
        return metrics.registry.get_sample_value(f"pagehold_engine_{name}_total", {"reason": reason})

    assert count("sequences_ended", "cancelled") == 2
    assert count("requests_refused", "cancel") == 1
    assert count("requests_refused", "never_fits") == 1

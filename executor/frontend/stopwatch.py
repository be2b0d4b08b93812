"""Where the time of a request goes, as its door sees it."""

import time

from executor.frontend.metrics import DoorMetrics
from pagehold.inference.v1 import generation_pb2


class Stopwatch:
    """Runs from a request's arrival, and tells the metrics."""

    def __init__(self, metrics: DoorMetrics) -> None:
        self._metrics = metrics
        self._arrived = time.monotonic()
        self._queued: float | None = None
        self._first: float | None = None
        self._last = 0.0

    def accepted(self) -> None:
        """The request is in the ledger."""
        self._queued = self._elapsed()
        self._metrics.queued.observe(self._queued)

    def sent(self, tokens: int) -> None:
        """So many tokens go out now, at least one."""
        now = self._elapsed()
        if self._first is None:
            self._first = now
            self._metrics.first_token.observe(now)
        else:
            self._metrics.inter_token.observe((now - self._last) / tokens)
        self._last = now
        self._metrics.count_tokens("output", tokens)

    def ended(self) -> None:
        """The client has all of it."""
        self._metrics.duration.observe(self._elapsed())

    def timings(self) -> generation_pb2.Timings:
        """How it stands."""
        return generation_pb2.Timings(queued=self._queued or 0.0, first_token=self._first, total=self._elapsed())

    def _elapsed(self) -> float:
        return time.monotonic() - self._arrived

"""Where the time of a request goes, as its door sees it."""

import time
from dataclasses import dataclass

from executor.frontend.metrics import DoorMetrics
from pagehold.inference.v1 import generation_pb2


@dataclass(frozen=True, slots=True)
class Arrival:
    """When a request came: seconds since 1970, and on the clock that durations are measured by."""

    time: float
    clock: float

    @classmethod
    def now(cls) -> "Arrival":
        """It comes now."""
        return cls(time.time(), time.monotonic())


class Stopwatch:
    """Runs from a request's arrival, and tells the metrics. Of a request that was accepted before, it runs from now on."""

    def __init__(self, metrics: DoorMetrics, arrived: Arrival | None, first: bool = True) -> None:
        """``arrived`` None: somebody attaches. ``first``: of the first output, which tells what concerns all of them."""
        self._metrics = metrics
        self._is_new = arrived is not None and first
        self._arrived = (arrived or Arrival.now()).clock
        self._queued: float | None = None
        self._first: float | None = None
        self._last = 0.0

    def accepted(self) -> None:
        """The request is in the ledger."""
        self._queued = self._elapsed()
        if self._is_new:
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

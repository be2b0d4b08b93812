"""Requests that wait to be admitted."""

import time
from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from executor.engine.request import Request

MOST_PASSES = 8
"""How often others may be admitted before a request that does not fit; then they wait behind it."""

LOOKED_AT = 64
"""Requests looked at for one that fits: nobody far behind needs to be tried."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A request in the queue."""

    request: Request
    arrived: float = field(default_factory=time.time)
    """Seconds since 1970."""
    place: tuple[int, int] = (0, 0)
    """Where it stands in the queue, also when it comes back: by priority, then by arrival."""
    passes: int = 0
    """Requests admitted before it though they came after it."""
    cancelled: bool = False
    """Asked to end while it is being admitted."""
    late: bool = False
    """Past its deadline while it is being admitted."""


class WaitingRequests:
    """A bounded queue, by priority, then by arrival. Owned by the engine's thread.

    A request that does not fit may be passed by smaller ones behind it, ``MOST_PASSES`` times at most: so one that needs
    much room neither blocks the others nor starves.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._queue: list[Waiting] = []
        self._by_uuid: dict[bytes, Waiting] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._queue)

    @property
    def is_full(self) -> bool:
        """Whether as many wait as may."""
        return len(self._queue) >= self.limit

    def get(self, uuid: bytes) -> Waiting | None:
        """A waiting request by its UUID."""
        return self._by_uuid.get(uuid)

    def add(self, waiting: Waiting) -> None:
        """Put a request behind those of its priority."""
        self._arrivals += 1
        waiting.place = (-waiting.request.kept.priority, self._arrivals)
        self.put_back(waiting)

    def put_back(self, waiting: Waiting) -> None:
        """Put a request that was taken and not admitted where it stood."""
        insort(self._queue, waiting, key=lambda one: one.place)
        self._by_uuid[waiting.request.uuid] = waiting

    def first(self, count: int) -> list[Waiting]:
        """The first so many."""
        return self._queue[:count]

    def remove(self, waiting: Waiting) -> None:
        """Take a request out."""
        self._queue.remove(self._by_uuid.pop(waiting.request.uuid))

    def take(self, fits: Callable[[Request], bool]) -> Waiting | None:
        """Take the first request that fits and may go, or None."""
        passed: list[Waiting] = []
        for waiting in self._queue[:LOOKED_AT]:
            if fits(waiting.request):
                for one in passed:
                    one.passes += 1
                self.remove(waiting)
                return waiting
            if waiting.passes >= MOST_PASSES:
                return None
            passed.append(waiting)
        return None

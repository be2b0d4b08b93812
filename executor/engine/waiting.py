"""Requests that wait to be admitted, and the blocks that those which run may still come to need."""

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


class Commitments:
    """Blocks that admitted requests may come to need at their longest, against what the pool has.

    As long as they fit, whatever runs can run to its end, and nothing has to be taken from anybody. That holds for an engine
    that has its pool to itself, at the size that it found; nobody counts what others may come to need.
    """

    def __init__(self, usable_blocks: int) -> None:
        self.usable_blocks = usable_blocks
        self._held: dict[bytes, int] = {}
        self._total = 0

    @property
    def total(self) -> int:
        """Blocks committed."""
        return self._total

    def fits(self, blocks: int) -> bool:
        """Whether a request of so many blocks can be admitted."""
        return self._total + blocks <= self.usable_blocks

    def hold(self, uuid: bytes, blocks: int) -> None:
        """Commit to a request. Adopted ones are held even where they do not fit: nothing else is admitted then."""
        self._total += blocks - self._held.get(uuid, 0)
        self._held[uuid] = blocks

    def release(self, uuid: bytes) -> None:
        """A request has ended, or was not admitted."""
        self._total -= self._held.pop(uuid, 0)

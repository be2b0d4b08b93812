"""When requests end with what they have."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from executor.engine.request import Request

FEW = 64
"""Deadlines that may be kept though nobody has them any more."""


class Deadlines:
    """A heap of deadlines, those of some requests that have ended included. Times are in seconds since 1970."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def note(self, request: Request, known: int, is_known: Callable[[bytes], bool]) -> None:
        """Note a request's deadline, if it has one. ``known`` requests have not ended; ``is_known`` tells which."""
        if request.deadline is None:
            return
        heappush(self._heap, (request.deadline, request.uuid))
        if len(self._heap) > 2 * known + FEW:
            self._heap = [entry for entry in self._heap if is_known(entry[1])]
            heapify(self._heap)

    def take_passed(self, now: float) -> list[bytes]:
        """UUIDs of requests whose deadline has passed, each once."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            found.append(heappop(self._heap)[1])
        return found

    def seconds_left(self, now: float) -> float:
        """Seconds until the next deadline, infinity if there is none."""
        return self._heap[0][0] - now if self._heap else float("inf")

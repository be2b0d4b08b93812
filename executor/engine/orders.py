"""What front doors ask of an engine: values that pass from the service's thread to the engine's."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from executor.engine.news import Stream
from executor.engine.request import Request


@dataclass(frozen=True, slots=True)
class Start:
    """Start a request, or say where it stands if it is known."""

    request: Request
    stream: Stream


@dataclass(frozen=True, slots=True)
class Follow:
    """Say where a request stands."""

    uuid: bytes
    stream: Stream


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a request."""

    uuid: bytes


@dataclass(frozen=True, slots=True)
class Question:
    """Call this on the engine's thread, where nothing changes meanwhile."""

    ask: Callable[[], None]


Order = Start | Follow | Cancel | Question


class Inbox:
    """Orders from any thread, and the one thing that the engine's thread waits for when it has nothing to do."""

    def __init__(self) -> None:
        self._orders: deque[Order] = deque()
        self._news = threading.Event()

    def put(self, order: Order) -> None:
        """Leave an order."""
        self._orders.append(order)
        self._news.set()

    def wake(self) -> None:
        """Something has happened elsewhere: a completion, a reply."""
        self._news.set()

    def wait(self, seconds: float) -> None:
        """Wait until something has happened since the last wait, at most so long. What it was is looked up afterwards."""
        self._news.wait(seconds)
        self._news.clear()

    def take(self) -> list[Order]:
        """All orders, in order."""
        found = []
        while self._orders:
            found.append(self._orders.popleft())
        return found

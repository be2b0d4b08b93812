"""What front doors ask of an engine: values that pass from the service's thread to the engine's."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue

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
    """Orders from any thread, and the one thing that the engine's thread waits for when it has nothing to do.

    A signal handler may wake it too, whatever its own thread is doing here: that is why it is no ``threading.Event``, whose
    lock would be waited for by the very thread that holds it.
    """

    def __init__(self) -> None:
        self._orders: deque[Order] = deque()
        self._news: SimpleQueue[None] = SimpleQueue()

    def put(self, order: Order) -> None:
        """Leave an order."""
        self._orders.append(order)
        self.wake()

    def wake(self) -> None:
        """Something has happened elsewhere: a completion, a reply, a signal."""
        self._news.put(None)

    def wait(self, seconds: float) -> None:
        """Wait until something has happened since the last wait, at most so long. What it was is looked up afterwards."""
        with suppress(Empty):
            self._news.get(timeout=seconds)
            while True:
                self._news.get_nowait()

    def take(self) -> list[Order]:
        """All orders, in order."""
        found = []
        while self._orders:
            found.append(self._orders.popleft())
        return found

"""What stands in for CUDA where there is no GPU: streams whose work is done at once, and marks that a test may hold back."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch


@dataclass(eq=False)
class StandInMark:
    """A point in a stream; ``wait`` is what the stream waited for before it, by identity."""

    stream: "StandInStream"
    reached: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None

    def synchronize(self) -> None:
        assert self.reached.wait(240), "nobody has let the stream go so far"
        if self.error is not None:
            raise self.error

    def elapsed_time(self, later: Any) -> float:
        return 1.0


@dataclass(eq=False)
class StandInStream:
    """Notes what it is to wait for, and what is put on it."""

    name: str
    log: list[tuple[str, Any]] = field(default_factory=list)

    def wait_event(self, event: StandInMark) -> None:
        self.log.append(("wait", event))

    def waits_for(self, other: "StandInStream") -> list[StandInMark]:
        """Marks of another stream that this one was told to wait for."""
        return [mark for kind, mark in self.log if kind == "wait" and mark.stream is other]


class StandInRuntime:
    """Does tensor work at once, on the CPU. While ``held``, no new mark is reached before ``let_go``."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.streams: list[StandInStream] = []
        self.recorded: list[str] = []
        self.replayed = 0
        self.held = False
        self._waiting: list[StandInMark] = []

    def stream(self) -> StandInStream:
        self.streams.append(StandInStream(f"stream {len(self.streams)}"))
        return self.streams[-1]

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        yield

    def mark(self, stream: Any) -> StandInMark:
        mark = StandInMark(cast(StandInStream, stream))
        stream.log.append(("mark", mark))
        if self.held:
            self._waiting.append(mark)
        else:
            mark.reached.set()
        return mark

    def let_go(self, stream: StandInStream | None = None, error: Exception | None = None) -> None:
        """Everything put so far on a stream, or on all, is done, or was the GPU's end."""
        for mark in [mark for mark in self._waiting if stream in (None, mark.stream)]:
            self._waiting.remove(mark)
            mark.error = error
            mark.reached.set()

    def pinned(self, size: int) -> torch.Tensor:
        return torch.full((size,), 0xFF, dtype=torch.uint8)

    def record(self, stream: Any, work: Callable[[], None]) -> Callable[[], None]:
        self.recorded.append("work")

        def replay() -> None:
            self.replayed += 1
            work()

        return replay

    def settle(self) -> None:
        """There is nothing to wait for."""

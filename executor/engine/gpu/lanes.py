"""Waiting for what streams have been given to do, on threads of their own, so that the engine's thread never does."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from executor.engine.device import DeviceLost, NewsCallback
from executor.engine.gpu.runtime import Mark, Runtime, Stream
from executor.engine.step import Done


@dataclass(frozen=True, slots=True)
class Launched:
    """A command, or a part of one, that a stream was given."""

    reached: Mark
    """Where the stream stands when it is done."""
    finish: Callable[[], Done]
    """What it comes to. Called once ``reached`` is reached, on the thread that waits for it."""


class Outcomes:
    """What has completed and was not taken yet, of all lanes; and how far everything before it has completed, too."""

    def __init__(self, news: NewsCallback) -> None:
        self._news = news
        self._done: deque[Done] = deque()
        self._parts: dict[int, int] = {}
        """Command → parts of it that have not completed, in the order in which they were launched."""
        self._lost: BaseException | None = None
        self.serial = 0
        """Number of the last command launched."""

    @property
    def completed(self) -> int:
        """The last command up to which all have completed and been taken."""
        return next(iter(self._parts), self.serial + 1) - 1

    def launch(self, parts: int = 1) -> int:
        """Count another command, in so many parts. Returns its number."""
        self.serial += 1
        self._parts[self.serial] = parts
        return self.serial

    def put(self, done: Done) -> None:
        """A part has completed. From any thread."""
        self._done.append(done)
        self._news()

    def lose(self, error: BaseException) -> None:
        """There will be nothing more. From any thread; the first reason counts."""
        self._lost = self._lost or error
        self._news()

    def take(self) -> list[Done]:
        """What has completed since the last call. Raises ``DeviceLost``."""
        if self._lost is not None:
            raise DeviceLost(str(self._lost)) from self._lost
        found = []
        while self._done:
            done = self._done.popleft()
            found.append(done)
            self._parts[done.serial] -= 1
            if not self._parts[done.serial]:
                del self._parts[done.serial]
        return found


class Lane:
    """A stream, and a thread that waits for what was put on it. Owns both."""

    def __init__(self, name: str, runtime: Runtime, outcomes: Outcomes) -> None:
        self.stream: Stream = runtime.stream()
        self._outcomes = outcomes
        self._launched: SimpleQueue[Launched | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"gpu-{name}", daemon=True)
        self._thread.start()

    def put(self, launched: Launched) -> None:
        """Wait for this, behind what was put before."""
        self._launched.put(launched)

    def close(self) -> None:
        """Wait for everything that was put, then end the thread."""
        self._launched.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while (launched := self._launched.get()) is not None:
                launched.reached.synchronize()
                self._outcomes.put(launched.finish())
        except BaseException as error:
            # Whatever it is: an error on a GPU comes up wherever it is waited for, and nothing works behind it.
            self._outcomes.lose(error)

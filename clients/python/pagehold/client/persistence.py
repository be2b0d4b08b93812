"""How long a call goes on: its deadline, and how often and how long one that broke is tried again."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0

NEVER = 10 * 365 * 86400.0
"""Seconds from which on a deadline is none, infinity among them: gRPC counts in whole numbers, and begins anew."""


@dataclass(slots=True)
class Persistence:
    """How long a client tries. One for each client; ``answered``: a server has been heard since it was made.

    ``connect_seconds`` counts until then, ``reconnect_seconds`` from then on. ``clock`` and ``draw`` (a number from 0
    to 1) are the time and the chance that it goes by.
    """

    connect_seconds: float
    reconnect_seconds: float
    answered: bool = False
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random

    @property
    def limit(self) -> float:
        """Seconds for which a call is tried again."""
        return self.reconnect_seconds if self.answered else self.connect_seconds


class Deadline:
    """When a call has to be over; ``seconds`` None, or so many that it makes no difference: never."""

    def __init__(self, seconds: float | None, persistence: Persistence) -> None:
        seconds = None if seconds is not None and seconds >= NEVER else seconds
        self.seconds = seconds
        self._clock = persistence.clock
        self._end = None if seconds is None else persistence.clock() + seconds

    def left(self) -> float | None:
        """Seconds that are left, never below 0; None: no end."""
        return None if self._end is None else max(0.0, self._end - self._clock())

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return self.left() == 0.0

    def allows(self, pause: float) -> bool:
        """Whether there is time left behind a pause."""
        left = self.left()
        return left is None or pause < left


class BackOff:
    """Pauses between attempts: each about twice as long as the one before, shortened by chance to half at most.

    An attempt that brought something new ends a row of failures: the next one begins with a short pause again.
    """

    def __init__(self, persistence: Persistence) -> None:
        self._persistence = persistence
        self._row = 0
        self._since: float | None = None

    def succeeded(self) -> None:
        """An attempt brought something new."""
        self._row, self._since = 0, None

    def pause(self, at_least: float | None = None, *, endless: bool = False) -> float | None:
        """Seconds until the next attempt, not below ``at_least``; None: enough has been tried, unless ``endless``."""
        now = self._persistence.clock()
        self._since = now if self._since is None else self._since
        full = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._row, 16))
        self._row += 1
        pause = max(at_least or 0.0, full * (0.5 + 0.5 * self._persistence.draw()))
        if not endless and now + pause - self._since > self._persistence.limit:
            return None
        return pause

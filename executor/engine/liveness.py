"""Signs of life to whoever started the engine, given only as long as it gets on."""

import time
from collections.abc import Callable

import structlog

from blockmgr.notify import Notifier, watchdog_interval

log = structlog.get_logger()

SLOW = 0.1
"""Part of the time that a step may take from which on its slowness is told."""


class Liveness:
    """Called in each round of the engine's loop. A loop that does not go round gives no sign, and neither does one behind
    a step that takes too long: then the keeper starts another engine, which takes up the sequences.
    """

    def __init__(self, notifier: Notifier, step_timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._notifier = notifier
        self._step_timeout = step_timeout
        self._clock = clock
        self._interval = (watchdog_interval() or 2.0) / 4
        self._due = 0.0
        self._stuck = self._slow = False

    def __call__(self, oldest_step: float, describe: Callable[[], dict[str, int]]) -> None:
        """The loop has gone round; the step that is in flight longest has been so for ``oldest_step`` seconds, and is of what
        ``describe`` says.
        """
        slow, stuck = oldest_step > SLOW * self._step_timeout, oldest_step > self._step_timeout
        if slow and not self._slow:
            log.warning("a step takes long", seconds=round(oldest_step, 1), limit=self._step_timeout, **describe())
        self._slow = slow
        if stuck and not self._stuck:
            log.error("a step is stuck", seconds=round(oldest_step, 1), limit=self._step_timeout, **describe())
        self._stuck = stuck
        now = self._clock()
        if not stuck and now >= self._due:
            self._due = now + self._interval
            self._notifier.watchdog()

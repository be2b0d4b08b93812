"""What a keeper is told of each child: what to run, how to watch it, and when to stop it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from blockmgr.configuration import WrongSetting
from blockmgr.keeper.records import write_record


@dataclass(frozen=True)
class RestartDelay:
    """How long to wait before a start, in seconds: not at all after a few deaths, then doubling up to a limit.

    Deaths are counted anew once the child has been ready for `settled` seconds. There is no last attempt.
    """

    immediate: int = 5
    first: float = 0.1
    longest: float = 5.0
    settled: float = 1.0

    def after(self, deaths: int) -> float:
        """Return the delay after `deaths` deaths in a row."""
        if deaths <= self.immediate:
            return 0.0
        return min(self.longest, self.first * 2.0 ** min(deaths - self.immediate - 1, 32))


@dataclass(frozen=True)
class ChildSettings:
    """What to run and how to watch it. Times are in seconds.

    `watchdog`: a sign of life (WATCHDOG=1) is due this often, from readiness or the first one on; None turns it off.
    `start_limit`: readiness, or the first sign of life, is due this long after the start.
    Either is late only once half as much again (5 s at most) has passed: see `Child.due`.
    `abort_grace`: from SIGABRT, sent when one is missed, to SIGKILL. `stop_grace`: from SIGTERM to SIGKILL.
    `once`: do not start it again when it ends.
    `stage`: asked to stop, the keeper lets the children of the highest stage end first, and the next ones after that.

    Raises:
        WrongSetting: a time or the size of the store is out of its limits.
    """

    name: str
    command: tuple[str, ...]
    watchdog: float | None = 10.0
    start_limit: float = 90.0
    abort_grace: float = 2.0
    stop_grace: float = 15.0
    store_limit: int = 512
    restart_delay: RestartDelay = field(default_factory=RestartDelay)
    once: bool = False
    stage: int = 0

    def __post_init__(self) -> None:
        """Check the limits."""
        for name in ("watchdog", "start_limit", "abort_grace", "stop_grace"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise WrongSetting(f"{name} is {value}: it must be a number of seconds from 0 on")
        if self.watchdog == 0:
            raise WrongSetting("watchdog is 0: it must be above 0, or none")
        if self.store_limit < 1:
            raise WrongSetting(f"store_limit is {self.store_limit}: it must be at least 1")


def write_plan(path: Path, children: Sequence[ChildSettings]) -> None:
    """Write down which children a keeper is to run, for `read_plan`; whoever reads finds all of it or the one before."""
    write_record(path, json.dumps([asdict(child) for child in children], indent=1))


def read_plan(path: Path) -> list[ChildSettings]:
    """Return the children that a file describes, in the order in which they are started.

    Raises:
        WrongSetting: it cannot be read, or says what no child can be told.
    """
    try:
        return [_child(entry) for entry in json.loads(path.read_text())]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise WrongSetting(f"{path} does not describe children: {error}") from error


def _child(entry: object) -> ChildSettings:
    if not isinstance(entry, dict):
        raise TypeError("a child must be an object")
    delay, command = entry.pop("restart_delay"), entry.pop("command")
    if not isinstance(delay, dict) or not isinstance(command, list):
        raise TypeError("restart_delay must be an object and command a list")
    return ChildSettings(command=tuple(command), restart_delay=RestartDelay(**delay), **entry)

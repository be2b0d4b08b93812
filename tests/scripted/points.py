"""Named points at which a scripted executor can be told to stand still, until it is told to go on or is killed."""

import json
import sys
from collections import Counter
from typing import Any

POINTS = (
    "after-register", "after-adopt", "after-launch", "before-report", "after-submit", "after-reply",
    "between-copy-and-done", "before-deliver", "after-finish",
)  # fmt: skip

AT_ONCE = ("after-register", "after-adopt")


def tell(event: str, **details: Any) -> None:
    """Report something to whoever started this executor: one JSON object a line, on standard output."""
    sys.stdout.write(json.dumps({"event": event, **details}) + "\n")
    sys.stdout.flush()


class Points:
    """Which points hold, given as ``NAME:COUNT``: at the COUNT-th time that the executor comes there.

    Times are counted from when all that was adopted has made progress: deaths without count against a sequence, and
    three of them end it. Points that lie before any work hold at once.
    """

    def __init__(self, holds: list[str]) -> None:
        self._holds = {(name, int(count)) for name, _, count in (hold.partition(":") for hold in holds)}
        for name, _ in self._holds:
            if name not in POINTS:
                raise ValueError(f"point {name!r} is none of {POINTS}")
        self._passed: Counter[str] = Counter()
        self.armed = False

    def reach(self, name: str) -> None:
        """The executor is there. Returns at once unless it is to hold."""
        if not self.armed and name not in AT_ONCE:
            return
        self._passed[name] += 1
        if (name, self._passed[name]) in self._holds:
            tell("at", point=name, count=self._passed[name])
            if not sys.stdin.readline():
                raise SystemExit(f"nobody said how to go on at {name}")
            tell("on", point=name)

"""How far something is that takes longer than a moment: a bar for people, and per cents for whoever else listens."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

Listener = Callable[[str, int], object]
"""Given a bar's title, and how much of it is done in per cent."""

TELL_SECONDS = 0.2
"""How often a listener is told at most, the end aside."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def progress_told(listener: Listener) -> Iterator[None]:
    """Within this context, tell `listener` how far each bar is, whether it is shown or not."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def byte_bar(title: str, total: int, *, shown: bool | None = None) -> Iterator[Callable[[int], None]]:
    """A bar of bytes on standard error, which goes away when done; yields the function that advances it.

    `shown` None shows it where standard error is a terminal.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    visible = sys.stderr.isatty() if shown is None else shown
    told = _Told(title, total, _listener.get())
    with Progress(*columns, console=console, transient=True, disable=not visible) as progress:
        task = progress.add_task(title, total=total)

        def advance(count: int) -> None:
            progress.advance(task, count)
            told.advance(count)

        yield advance


class _Told:
    """A bar as a listener hears of it."""

    def __init__(self, title: str, total: int, listener: Listener | None) -> None:
        self._title, self._total, self._listener = title, max(total, 1), listener
        self._done, self._told, self._told_at = 0, -1, float("-inf")

    def advance(self, count: int) -> None:
        """Tell it, unless nothing has changed or it has just been told."""
        self._done += count
        percent, now = min(100, 100 * self._done // self._total), time.monotonic()
        is_due = now - self._told_at >= TELL_SECONDS or percent == 100
        if self._listener is not None and percent != self._told and is_due:
            self._told, self._told_at = percent, now
            self._listener(self._title, percent)

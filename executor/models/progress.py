"""How far something is that takes longer than a moment: a bar for people, and words for whoever else wants them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

_listener: ContextVar[Callable[[str], object] | None] = ContextVar("listener", default=None)


@contextmanager
def progress_told(listener: Callable[[str], object]) -> Iterator[None]:
    """Within this context, tell `listener` of every whole per cent that a bar advances by, shown or not: a line each."""
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
    words = _Words(title, total, _listener.get())
    with Progress(*columns, console=console, transient=True, disable=not visible) as progress:
        task = progress.add_task(title, total=total)

        def advance(count: int) -> None:
            progress.advance(task, count)
            words.advance(count)

        yield advance


class _Words:
    """A bar in words."""

    def __init__(self, title: str, total: int, listener: Callable[[str], object] | None) -> None:
        self._title, self._total, self._listener = title, max(total, 1), listener
        self._done, self._told = 0, -1

    def advance(self, count: int) -> None:
        """Say how many per cent it is, unless that has been said."""
        self._done += count
        percent = min(100, 100 * self._done // self._total)
        if self._listener is not None and percent != self._told:
            self._told = percent
            self._listener(f"{self._title}: {percent} %")

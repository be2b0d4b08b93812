"""A progress bar for what takes longer than a moment."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn


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
    with Progress(*columns, console=console, transient=True, disable=not visible) as progress:
        task = progress.add_task(title, total=total)
        yield lambda count: progress.advance(task, count)

"""What an `up` shows: each process's way to readiness, then one line of how it is doing. Events are lines above it."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from executor.launch.readiness import ChildState, State, describe_code

BAR_COLUMNS = 24
REFRESHES = 8
"""Of what moves, in a second."""

_PERCENTAGE = re.compile(r"(\d{1,3})(?:\.\d+)? ?%")


class Display:
    """Writes to standard error: on a terminal the last lines are kept up to date, elsewhere there are only events.

    Use as a context; what was kept up to date is gone afterwards.
    """

    def __init__(self) -> None:
        """Nothing is shown yet."""
        self._console = Console(stderr=True, highlight=False)
        self._began = time.monotonic()
        self._content: Callable[[], RenderableType] = lambda: ""
        self._spinner = Spinner("dots")
        self._live = Live(
            console=self._console, refresh_per_second=REFRESHES, transient=True, get_renderable=self._render
        )

    def __enter__(self) -> Self:
        """Begin to show."""
        if sys.stderr.isatty():
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Show nothing more."""
        with _where_there_is_a_screen():
            self._live.stop()

    def tell(self, event: str) -> None:
        """Print an event on a line of its own. May be called from any thread."""
        with _where_there_is_a_screen():
            self._console.print(Text(event), soft_wrap=True)

    def print(self, text: str) -> None:
        """Print what programs may want too, on standard output."""
        with _where_there_is_a_screen(), self._paused():
            print(text, flush=True)

    def leave_terminal(self, log: Path | None) -> None:
        """Show nothing more there, and write what is told from now on to the log."""
        with _where_there_is_a_screen():
            self._live.stop()
        target = os.open(log if log is not None else os.devnull, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for number in (sys.stdout.fileno(), sys.stderr.fileno()):
            os.dup2(target, number)
        os.close(target)

    @contextmanager
    def _paused(self) -> Iterator[None]:
        is_live = self._live.is_started
        if is_live:
            self._live.stop()
        yield
        if is_live:
            self._live.start()

    def show_start(self, state: State) -> None:
        """Keep a table of the processes up to date."""
        self._content = lambda: self._table(state)

    def show_line(self, line: str) -> None:
        """Keep one line up to date."""
        self._content = lambda: Text(line, style="dim")

    def _render(self) -> RenderableType:
        return self._content()

    def _table(self, state: State) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        for child in state.children.values():
            table.add_row(self._sign(child), child.name, _progress(child))
        seconds = time.monotonic() - self._began
        return Group(table, Text(f"{seconds:.0f} s; Ctrl-C stops", style="dim"))

    def _sign(self, child: ChildState) -> RenderableType:
        if child.ready:
            return Text("✓", style="green")
        return Text("✗", style="red") if child.hopeless else self._spinner


@contextmanager
def _where_there_is_a_screen() -> Iterator[None]:
    """For what is only shown: a terminal that was closed, or a pipe without a reader, must not keep anything from ending."""
    with suppress(OSError):
        yield


def _progress(child: ChildState) -> RenderableType:
    """Where a process stands, with a bar if it says so in per cent."""
    if child.ready:
        return Text("ready")
    words = child.status or ("starting" if child.pid is not None else child.phase)
    if child.starts > 1:
        words += f" (started {child.starts} times, last ended {describe_code(child.last_code)})"
    found = _PERCENTAGE.search(child.status)
    if found is None:
        return Text(words)
    bar = Table.grid(padding=(0, 1))
    bar.add_row(ProgressBar(100, min(100, int(found[1])), width=BAR_COLUMNS), Text(words))
    return bar

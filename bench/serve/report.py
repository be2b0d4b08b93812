"""How a run is shown: a bar while it lasts, then one table, and what there is to say about the measuring itself."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.serve.figures import BUSY, PERCENTILES, Figures
from pagehold.client.output import Column, facts, percent, table

TITLES = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "itl": "between tokens",
    "e2e": "end to end",
    "queued": "until accepted",
}


@contextlib.contextmanager
def bar(title: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, where that is a terminal; yields what moves it: requests ended, tokens come."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[tokens]:,} tokens, {task.fields[rate]:,.0f} a second"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(title, total=total, tokens=0, rate=0.0)

        def move(ended: int, tokens: int) -> None:
            if not tokens:
                # The time until the first token is no part of the rate that is shown.
                progress.reset(task)
            seconds = progress.tasks[0].elapsed or 0.0
            progress.update(task, completed=ended, tokens=tokens, rate=tokens / seconds if seconds else 0.0)

        yield move


def times_table(found: Figures) -> RenderableType:
    """Times in milliseconds."""
    names = [f"p{which}" for which in PERCENTILES] + ["mean"]
    columns = [Column("milliseconds"), *(Column(name, right=True) for name in names)]
    rows = [
        (title, *(f"{1000 * found.times[name][which]:,.1f}" for which in names))
        for name, title in TITLES.items()
        if found.times[name]
    ]
    return table(columns, rows)


def _sums(found: Figures, busy: Sequence[float]) -> list[tuple[str, object]]:
    failed = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in found.failed.items())
    cached = f", {found.cached_tokens:,} of them from the cache" if found.cached_tokens else ""
    return [
        ("requests", f"{found.completed:,} of {found.requests:,} completed in {found.seconds:.2f} s"),
        ("failed", failed or None),
        ("prompt tokens", f"{found.prompt_tokens:,}{cached}"),
        ("output tokens", f"{found.output_tokens:,}"),
        ("output tokens/s", f"{found.output_rate:,.1f}"),
        ("total tokens/s", f"{found.total_rate:,.1f}"),
        ("requests/s", f"{found.request_rate:,.2f}"),
        ("client busy", f"{percent(max(busy))} of a core" + (f", the busiest of {len(busy)}" if len(busy) > 1 else "")),
    ]


def _pool(pool: dict[str, Any]) -> list[tuple[str, object]]:
    """Occupancy and waste."""
    mean, peak = pool["mean"], pool["peak"]
    shown: list[tuple[str, object]] = []
    if mean is not None:
        shown = [
            ("pool held", f"{percent(mean['occupied'])} of the blocks, {percent(peak['occupied'])} at most"),
            ("at most", f"{peak['blocks']:,} blocks, of {peak['tokens']:,} tokens, for {peak['live']:,} sequences"),
            ("pool used", f"{percent(mean['used'])} of its room holds tokens, {percent(peak['used'])} at most"),
            ("waste", f"{percent(mean['wasted'])} of the blocks held is empty"),
        ]
    elif "most_taken" in pool:
        shown = [("pool held", f"{percent(pool['most_taken'])} of the blocks at most, as the server says it")]
    if "most_running" in pool:
        shown.append(("engine", f"{pool['most_running']:,} computed, {pool['most_waiting']:,} waiting, at most"))
    return shown


@dataclass(frozen=True)
class Outcome:
    """All that is known of a run: what was asked of whom, the figures, the pool's, and how busy each client process was."""

    about: dict[str, object]
    figures: Figures
    pool: dict[str, Any]
    busy: Sequence[float]

    def tables(self) -> list[RenderableType]:
        """What people are shown."""
        sums = _sums(self.figures, self.busy) + _pool(self.pool)
        return [facts(self.about.items()), "", times_table(self.figures), "", facts(sums)]

    def plain(self) -> dict[str, Any]:
        """What programs are told. Times are in seconds."""
        return {**self.about, **self.figures.plain(), "pool": self.pool, "client_busy": list(self.busy)}

    def remarks(self, max_requests: int) -> list[str]:
        """What whoever reads the figures has to know, of a server of which each front door takes so many requests."""
        said = [f"{reason.replace('_', ' ')}: {text}" for reason, text in self.figures.explanations.items()]
        if "queue_full" in self.figures.failed:
            said.append(
                f"a front door takes {max_requests} requests at once: give --concurrency, or raise its max_requests"
            )
        if max(self.busy) > BUSY:
            said.append(
                f"a client process was busy for {percent(max(self.busy))} of a core, and may be what was measured: "
                "give more --processes"
            )
        if "missing" in self.pool:
            said.append(f"waste is not known: {self.pool['missing']}")
        return said

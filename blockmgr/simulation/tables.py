"""Scenarios as tables in a terminal."""

import sys

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from blockmgr.simulation.sharing import Sharing
from blockmgr.simulation.snapshot import PoolUse, Snapshot
from blockmgr.simulation.svg import colour_of
from blockmgr.simulation.sweep import Sweep
from blockmgr.simulation.timeline import CACHED, OTHERS, PoolTitle, Run, Strip, Timeline

PIPED_WIDTH = 120
"""Columns where the output is no terminal, which would otherwise be taken for a narrow one."""

SIGNS = {CACHED: "~", OTHERS: "?"}


def console() -> Console:
    """Where tables are printed."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)


def _table(title: str, *columns: str) -> Table:
    """A table whose first column is text and whose others are figures."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left")
    return table


def _use(use: PoolUse) -> list[str]:
    return [
        f"{use.reserved:,}",
        f"{use.tokens:,}",
        f"{use.utilisation_percent:.2f} %",
        f"{use.fragmentation_percent:.2f} %",
    ]


def snapshot_table(snapshot: Snapshot) -> Table:
    """Both pools, a row each."""
    title = f"{snapshot.requests:,} requests at their final lengths in {snapshot.slots:,} slots"
    table = _table(title, "pool", "admitted", "reserved", "tokens", "utilisation", "fragmentation")
    contiguous = f"contiguous, {snapshot.max_seq_len:,} each"
    table.add_row(contiguous, f"{snapshot.contiguous.admitted:,}", *_use(snapshot.contiguous))
    table.add_row(
        f"paged, blocks of {snapshot.tokens_per_block}", f"{snapshot.paged.admitted:,}", *_use(snapshot.paged)
    )
    return table


def sweep_table(sweep: Sweep) -> Table:
    """A row for each size of block."""
    title = f"{sweep.requests:,} requests grown to their final lengths in {sweep.slots:,} slots"
    columns = ("reserved", "tokens", "utilisation", "fragmentation", "tables", "records", "admit", "grow", "release")
    table = _table(title, "block", *columns)
    table.caption = "tables, records: KiB of block tables, MiB of the ledger's records; times: the allocator's alone"
    for row in sweep.rows:
        times = (row.admit_seconds, row.grow_seconds, row.release_seconds)
        table.add_row(
            str(row.tokens_per_block),
            *_use(row.use),
            f"{row.table_bytes / 1024:.0f}",
            f"{row.block_record_bytes / 2**20:.1f}",
            *(f"{1e3 * seconds:.0f} ms" for seconds in times),
        )
    return table


def sharing_table(sharing: Sharing) -> Table:
    """A row for each method, mix and width, with the paper's range beside it."""
    table = _table(
        f"Blocks saved by sharing: {sharing.requests} requests, seed {sharing.seed}, blocks of "
        f"{sharing.tokens_per_block}",
        "decoding", "lengths like", "width", "saved", "paper, 2 to 6", "copies",
    )  # fmt: skip
    table.caption = (
        f"lengths: {sharing.length_distribution}; next token of {sharing.entropy_nats:g} nats, "
        f"beams of a group alike but for noise of {sharing.noise:g}"
    )
    for row in sharing.rows:
        low, high = sharing.paper_percent[f"{row.method} {row.mix}"]
        saved, paper = f"{row.saved_percent:.1f} %", f"{low}–{high} %"
        table.add_row(row.method, row.mix, str(row.width), saved, paper, f"{row.blocks_copied:,}")
    return table


def timeline_table(timeline: Timeline) -> Table:
    """A row for each event; pools as coloured cells."""
    table = Table(title=timeline.title, title_justify="left", box=box.SIMPLE_HEAD)
    table.caption = "A: holds tokens · a: reserved and empty · ~: cached · ?: held by others · dot: free"
    table.add_column("event")
    figures = any(strip.figures for frame in timeline.frames for strip in frame.strips)
    for pool in timeline.pools:
        table.add_column(f"{pool.name}, {pool.cells} {pool.unit}", no_wrap=True)
        if figures:
            table.add_column("tokens / reserved", justify="right")
    widths = [_characters(pool, len(timeline.pools)) for pool in timeline.pools]
    colours = {owner: colour_of(place) for place, owner in enumerate(timeline.owners)}
    for frame in timeline.frames:
        cells: list[str | Text] = [Text(frame.label, style="red" if frame.alarm else "")]
        for pool, strip, width in zip(timeline.pools, frame.strips, widths, strict=True):
            cells.append(_cells(pool, strip, width, colours))
            if figures:
                cells.append(strip.figures)
        table.add_row(*cells)
    return table


def _characters(pool: PoolTitle, pools: int) -> int:
    """Characters that a pool is drawn with."""
    return min(pool.cells, 64 if pools == 1 else 16)


def _cells(pool: PoolTitle, strip: Strip, width: int, colours: dict[str, str]) -> Text:
    """One character for every so many cells: that of the run which covers the most of them."""
    best: list[tuple[float, Run, float] | None] = [None] * width
    for run in strip.runs:
        first, last = run.start * width / pool.cells, (run.start + run.length) * width / pool.cells
        filled = (run.start + run.filled) * width / pool.cells
        for place in range(int(first), min(width, -int(-last // 1))):
            covered = min(last, place + 1) - max(first, place)
            have = best[place]
            if have is None or covered > have[0]:
                best[place] = (covered, run, filled - place)
    text = Text()
    for found in best:
        if found is None:
            text.append("·", style="dim")
            continue
        owner, is_filled = found[1].owners[0], found[2] > 0
        colour = colours.get(owner, "#7d8596")
        sign = SIGNS.get(owner) or owner[-1]
        text.append(
            sign if is_filled else sign.lower(),
            style=f"bold white on {colour}" if is_filled else f"{colour} on default",
        )
    return text

"""The pictures of snapshot, sweep and sharing: bars with their figures beside them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from blockmgr.simulation.sharing import Sharing, SharingRow
from blockmgr.simulation.snapshot import PoolUse, Snapshot
from blockmgr.simulation.svg import EMPTY, MUTED, PALETTE, RULE, Drawing
from blockmgr.simulation.sweep import Sweep

USED, WASTED = PALETTE[0], PALETTE[1]
BAND_OPACITY = 0.3
PANEL_WIDTH, PANEL_HEIGHT, PANEL_STEP = 410, 190, 290
PICTURE_WIDTH = 64 + 2 * PANEL_WIDTH + 76 + 24
Bars = list[list[tuple[float, str]]]


def draw_snapshot(snapshot: Snapshot) -> str:
    """Two bars as long as the pool: what holds tokens, what is reserved and empty, what is free."""
    drawing = Drawing(960)
    top = drawing.heading(
        "What fits into a pool at once",
        f"{snapshot.requests:,} requests at their final lengths, {snapshot.slots:,} slots, one a token. Contiguous: "
        f"{snapshot.max_seq_len:,} slots reserved for each. Paged: blocks of {snapshot.tokens_per_block}.",
    )
    y = drawing.legend(24, top + 4, [("tokens", USED, 1), ("reserved and empty", WASTED, 1), ("free", EMPTY, 1)])
    for name, use in (("contiguous", snapshot.contiguous), ("paged", snapshot.paged)):
        _draw_use(drawing, y + 30, name, use, snapshot.slots)
        y += 100
    _draw_axis(drawing, 140, y + 12, 780, snapshot.slots)
    drawing.height = y + 66
    return str(drawing)


def _draw_use(drawing: Drawing, y: float, name: str, use: PoolUse, slots: int) -> None:
    left, width = 140, 780
    drawing.text(24, y + 25, name, size=14, bold=True)
    drawing.rect(left, y, width, 40, EMPTY, stroke=RULE)
    used, reserved = width * use.tokens / slots, width * use.reserved / slots
    drawing.rect(left, y, used, 40, USED, tip=f"{use.tokens:,} tokens")
    drawing.rect(left + used, y, reserved - used, 40, WASTED, tip=f"{use.reserved - use.tokens:,} slots in vain")
    drawing.text(
        left,
        y + 60,
        f"{use.admitted:,} admitted · {use.reserved:,} reserved for {use.tokens:,} tokens · "
        f"utilisation {use.utilisation_percent:.2f} % · internal fragmentation {use.fragmentation_percent:.2f} %",
        fill=MUTED,
    )


def _draw_axis(drawing: Drawing, left: float, y: float, width: float, slots: int) -> None:
    drawing.line(left, y, left + width, y, MUTED)
    for quarter in range(5):
        x = left + width * quarter / 4
        drawing.line(x, y, x, y + 5, MUTED)
        drawing.text(x, y + 19, f"{slots * quarter // 4:,}", size=11, anchor="middle", fill=MUTED)
    drawing.text(left + width / 2, y + 38, "slots", anchor="middle", fill=MUTED)


def draw_sweep(sweep: Sweep) -> str:
    """Four panels over the size of a block: slots in vain, tables, the ledger's records, time."""
    drawing = Drawing(PICTURE_WIDTH)
    top = drawing.heading(
        "What the size of a block costs",
        f"{sweep.requests:,} requests grown to their final lengths a token at a time in {sweep.slots:,} slots. "
        "Times are the allocator's alone, for all requests together, on the machine that drew this.",
    )
    rows, phases = sweep.rows, (PALETTE[2], PALETTE[0], PALETTE[3])
    names, caption = [str(row.tokens_per_block) for row in rows], "tokens per block"
    waste: Bars = [[(row.use.fragmentation_percent, WASTED)] for row in rows]
    tables: Bars = [[(row.table_bytes / 1024, USED)] for row in rows]
    records: Bars = [[(row.block_record_bytes / 2**20, USED)] for row in rows]
    times: Bars = [
        [(1e3 * s, c) for s, c in zip((r.admit_seconds, r.grow_seconds, r.release_seconds), phases, strict=True)]
        for r in rows
    ]
    panels = (
        _Panel("internal fragmentation, % of reserved slots", names, waste, lambda v: f"{v:.2f}", caption),
        _Panel("block tables, KiB", names, tables, lambda v: f"{v:.0f}", caption),
        _Panel("the ledger's records of all blocks, MiB", names, records, lambda v: f"{v:.1f}", caption),
        _Panel(f"allocator's time, ms ({rows[0].steps} steps of growth)", names, times, lambda v: f"{v:.0f}", caption),
    )
    for place, panel in enumerate(panels):
        _draw_panel(drawing, place, top + 40, panel)
    legend = [("admit", phases[0], 1.0), ("grow", phases[1], 1.0), ("release", phases[2], 1.0)]
    drawing.height = drawing.legend(64 + PANEL_WIDTH + 76, top + 40 + 2 * PANEL_STEP - 28, legend) + 8
    return str(drawing)


def draw_sharing(sharing: Sharing) -> str:
    """A panel for each way of decoding and mix of lengths, with the paper's range as a band."""
    drawing = Drawing(PICTURE_WIDTH)
    top = drawing.heading(
        "Blocks saved by sharing",
        f"In % of the blocks without sharing, averaged over the run. {sharing.requests} requests, blocks of "
        f"{sharing.tokens_per_block}, seed {sharing.seed}; lengths {sharing.length_distribution}; beams: next token of "
        f"{sharing.entropy_nats:g} nats, alike within a group but for noise of {sharing.noise:g}.",
    )
    band = "range that the PagedAttention paper reports from width 2 to 6"
    top = drawing.legend(24, top + 4, [("simulated", USED, 1), (band, WASTED, BAND_OPACITY)]) + 34
    panels: dict[tuple[str, str], list[SharingRow]] = {}
    for row in sharing.rows:
        panels.setdefault((row.method, row.mix), []).append(row)
    for place, ((method, mix), rows) in enumerate(panels.items()):
        low, high = sharing.paper_percent[f"{method} {mix}"]
        sampling = method == "sampling"
        _draw_panel(
            drawing,
            place,
            top,
            _Panel(
                f"{'parallel sampling' if sampling else 'beam search'}, {mix}: % saved",
                [str(row.width) for row in rows],
                [[(row.saved_percent, USED)] for row in rows],
                lambda v: f"{v:.1f}",
                f"{'samples of a prompt' if sampling else 'width of the beam'} (paper: {low}–{high} %)",
                limit=40 if sampling else 100,
                band=(low, high),
            ),
        )
    drawing.height = top + (len(panels) + 1) // 2 * PANEL_STEP - 24
    return str(drawing)


@dataclass(frozen=True, slots=True)
class _Panel:
    """Groups of bars under a title. ``limit``: the value at the top (0: a little above the tallest)."""

    title: str
    names: list[str]
    bars: Bars
    show: Callable[[float], str]
    caption: str
    limit: float = 0
    band: tuple[float, float] | None = None


def _draw_panel(drawing: Drawing, place: int, top: float, panel: _Panel) -> None:
    """Draw a panel at its place in two columns, left to right and then down."""
    x, y = 64 + place % 2 * (PANEL_WIDTH + 76), top + place // 2 * PANEL_STEP
    ticks = _ticks(panel.limit or max((value for group in panel.bars for value, _ in group), default=1))
    limit = panel.limit or ticks[-1] * 1.12
    drawing.text(x - 40, y - 16, panel.title, bold=True)
    for tick in ticks:
        at = y + PANEL_HEIGHT * (1 - tick / limit)
        drawing.line(x, at, x + PANEL_WIDTH, at, RULE if tick else MUTED)
        drawing.text(x - 6, at + 4, f"{tick:g}", size=10, anchor="end", fill=MUTED)
    if panel.band:
        low, high = panel.band
        at = y + PANEL_HEIGHT * (1 - high / limit)
        drawing.rect(x, at, PANEL_WIDTH, PANEL_HEIGHT * (high - low) / limit, WASTED, opacity=BAND_OPACITY)
    room = PANEL_WIDTH / len(panel.bars)
    for number, (name, group) in enumerate(zip(panel.names, panel.bars, strict=True)):
        _draw_group(drawing, x + number * room, y + PANEL_HEIGHT, room, group, panel.show, PANEL_HEIGHT / limit)
        drawing.text(x + number * room + room / 2, y + PANEL_HEIGHT + 17, name, anchor="middle")
    drawing.text(x + PANEL_WIDTH / 2, y + PANEL_HEIGHT + 36, panel.caption, size=11, anchor="middle", fill=MUTED)


def _draw_group(
    drawing: Drawing,
    x: float,
    ground: float,
    room: float,
    group: list[tuple[float, str]],
    show: Callable[[float], str],
    scale: float,
) -> None:
    bar = room * 0.72 / len(group)
    for number, (value, colour) in enumerate(group):
        left, tall = x + room * 0.14 + number * bar, value * scale
        drawing.rect(left, ground - tall, bar - 2, tall, colour, tip=show(value))
        drawing.text(left + bar / 2 - 1, ground - tall - 5, show(value), size=10, anchor="middle")


def _ticks(top: float) -> list[float]:
    """From 0 on, in steps of 1, 2 or 5 times a power of ten: three to six of them up to ``top``, or the next above."""
    power = 10.0 ** math.floor(math.log10(top / 3)) if top > 0 else 1.0
    step = max(power * factor for factor in (1, 2, 5) if factor == 1 or power * factor * 3 <= top)
    return [step * count for count in range(math.ceil(top / step - 1e-9) + 1)]

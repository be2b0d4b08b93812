"""The picture of a timeline: a row for each event, a strip for each pool, cells coloured by owner."""

from blockmgr.simulation.svg import EMPTY, INK, MUTED, RED, RULE, Drawing, colour_of, text_width
from blockmgr.simulation.timeline import CACHED, OTHERS, PoolTitle, Run, Strip, Timeline

ROW = 26
CELL_HEIGHT = 18
GAP = 36
PALE = 0.28
LEGEND_OWNERS = 24
FIGURES = "tokens / reserved"
CACHED_COLOUR = "#b9bec9"
OTHERS_COLOUR = "#7d8596"


def draw_timeline(timeline: Timeline) -> str:
    """The timeline as SVG."""
    labels = max((text_width(frame.label) for frame in timeline.frames), default=80) + 24
    figures = max((text_width(strip.figures, 11) for f in timeline.frames for strip in f.strips), default=0)
    figures = max(figures, text_width(FIGURES, 10)) + 16 if figures else 0
    strip_width = 460 if len(timeline.pools) > 1 else 860
    step = strip_width + figures + GAP
    drawing = Drawing(24 + labels + step * len(timeline.pools) - GAP + 24)
    top = drawing.heading(timeline.title, timeline.subtitle)
    top = drawing.legend(24, top + 2, _legend(timeline)) + 34
    colours = _colours(timeline)
    for place, pool in enumerate(timeline.pools):
        left = 24 + labels + place * step
        _draw_head(drawing, left, top, strip_width, pool)
        for row, frame in enumerate(timeline.frames):
            y = top + row * ROW
            _draw_strip(drawing, left, y, strip_width, pool, frame.strips[place], colours)
            drawing.text(left + strip_width + 8, y + 13, frame.strips[place].figures, size=11, fill=MUTED)
        if figures:
            drawing.text(left + strip_width + 8, top - 22, FIGURES, size=10, fill=MUTED)
    for row, frame in enumerate(timeline.frames):
        drawing.text(24, top + row * ROW + 13, frame.label, fill=RED if frame.alarm else INK)
    drawing.text(24, top - 8, "after the event", size=11, fill=MUTED)
    drawing.height = top + len(timeline.frames) * ROW + 16
    return str(drawing)


def _colours(timeline: Timeline) -> dict[str, str]:
    colours = {owner: colour_of(place) for place, owner in enumerate(timeline.owners)}
    return colours | {CACHED: CACHED_COLOUR, OTHERS: OTHERS_COLOUR}


def _legend(timeline: Timeline) -> list[tuple[str, str, float]]:
    used = {owner for frame in timeline.frames for strip in frame.strips for run in strip.runs for owner in run.owners}
    colours = _colours(timeline)
    entries = [(what, colours[owner], 1.0) for owner, what in timeline.owners.items() if owner in used]
    if len(entries) > LEGEND_OWNERS:
        entries[LEGEND_OWNERS:] = [(f"and {len(entries) - LEGEND_OWNERS} more", "none", 1.0)]
    if CACHED in used:
        entries.append(("cached, held by nobody", CACHED_COLOUR, 1.0))
    if OTHERS in used:
        entries.append(("held by a sequence that no event names", OTHERS_COLOUR, 1.0))
    if any(run.filled < run.length for frame in timeline.frames for strip in frame.strips for run in strip.runs):
        entries.append(("reserved and empty", MUTED, PALE))
    return [*entries, ("free", EMPTY, 1.0)]


def _draw_head(drawing: Drawing, left: float, top: float, width: float, pool: PoolTitle) -> None:
    """The pool's name and the ends of its axis."""
    drawing.text(left, top - 22, f"{pool.name} ({pool.cells} {pool.unit})", bold=True)
    marks = range(0, pool.cells + 1, max(1, pool.cells // 4))
    for mark in marks:
        x = left + width * mark / pool.cells
        drawing.line(x, top - 5, x, top - 1, MUTED)
        drawing.text(x, top - 8, str(mark), size=9, anchor="middle", fill=MUTED)


def _draw_strip(
    drawing: Drawing, left: float, y: float, width: float, pool: PoolTitle, strip: Strip, colours: dict[str, str]
) -> None:
    cell = width / pool.cells
    drawing.rect(left, y, width, CELL_HEIGHT, EMPTY)
    for run in strip.runs:
        _draw_run(drawing, left + run.start * cell, y, cell, run, colours)
    # Lines closer than this would hide what they divide.
    if cell * pool.group >= 5:
        for mark in range(0, pool.cells + 1, pool.group):
            drawing.line(left + mark * cell, y, left + mark * cell, y + CELL_HEIGHT, "#ffffff", 1.5)
    drawing.rect(left, y, width, CELL_HEIGHT, "none", stroke=RULE)


def _draw_run(drawing: Drawing, x: float, y: float, cell: float, run: Run, colours: dict[str, str]) -> None:
    """Owners of the same cells share their height."""
    height = CELL_HEIGHT / len(run.owners)
    for place, owner in enumerate(run.owners):
        colour, at = colours[owner], y + place * height
        drawing.rect(x, at, run.length * cell, height, colour, opacity=PALE, tip=run.tip)
        drawing.rect(x, at, run.filled * cell, height, colour, tip=run.tip)
    if len(run.owners) == 1 and run.length * cell >= 14 and len(run.owners[0]) <= 2:
        solid = run.filled * cell
        inside = solid >= 12
        drawing.text(
            x + (4 if inside else solid + 3),
            y + 13,
            run.owners[0],
            size=10,
            bold=True,
            fill="#ffffff" if inside else INK,
        )

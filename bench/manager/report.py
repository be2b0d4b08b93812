"""What the measurements of the manager look like: one table each, a column for each number of sequences."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from pagehold.client.output import Column, table


def turns_table(found: Mapping[int, Mapping[str, Any]]) -> RenderableType:
    """Whole turns, and their parts."""
    rows: dict[str, list[Mapping[str, float]]] = {"whole turn": [one["turn"] for one in found.values()]}
    for name in next(iter(found.values()))["parts"]:
        rows[name] = [one["parts"][name] for one in found.values()]
    cells = {name: [_cell(one) for one in row] for name, row in rows.items()}
    return _by_size("turn: p50 / p90 / p99 in µs", list(found), cells)


def codec_table(found: Mapping[int, Mapping[str, Mapping[str, float]]]) -> RenderableType:
    """What it costs to carry a turn and its reply."""
    names = next(iter(found.values()))
    cells = {name: [_cell(one[name]) for one in found.values()] for name in names}
    return _by_size("on the wire: p50 / p99 in µs", list(found), cells)


def commits_table(found: Mapping[int, Mapping[str, float]], read: Mapping[str, float]) -> RenderableType:
    """The ledger's transaction; what a front door's look at one sequence takes does not depend on how many there are."""
    cells = {"commit": [_cell(one) for one in found.values()], "read one sequence": [_cell(read)] * len(found)}
    return _by_size("ledger: p50 / p99 in µs", list(found), cells)


def allocator_table(alone: Sequence[Mapping[str, float]], with_ledger: Sequence[Mapping[str, float]]) -> RenderableType:
    """The allocator on pools of two sizes, without and with a ledger."""
    phases = ("admit", "grow", "release", "total")
    names = ["blocks", *(f"{phase}, s" for phase in phases), "step of 1,000, ms"]
    rows = [
        (
            title,
            f"{one['blocks']:,.0f}",
            *(f"{one[f'{phase}_seconds']:.3f}" for phase in phases),
            f"{1000 * one['full_step_seconds']:.2f}",
        )
        for title, found in (("alone", alone), ("with a ledger", with_ledger))
        for one in found
    ]
    return table([Column("allocator"), *(Column(name, right=True) for name in names)], rows)


def _by_size(title: str, sizes: Sequence[int], cells: Mapping[str, Sequence[str]]) -> RenderableType:
    columns = [Column(title), *(Column(f"{size:,}", right=True) for size in sizes)]
    return table(columns, [(name, *row) for name, row in cells.items()])


def _cell(figures: Mapping[str, float]) -> str:
    return " / ".join(f"{value:.0f}" for name, value in figures.items() if name.endswith("_us"))

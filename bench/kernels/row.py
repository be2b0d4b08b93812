"""One measurement of a kernel."""

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import RenderableType

from pagehold.client.output import Column, table


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel on a case: its time, the rate that this comes to, and what there is to say beside it."""

    kernel: str
    case: str
    microseconds: float | None = None
    rate: float | None = None
    unit: str = ""
    note: str = ""


def rows_table(rows: Iterable[Row]) -> RenderableType:
    """All of them."""
    columns = [
        *(Column("kernel"), Column("case", right=True), Column("µs", right=True), Column("rate", right=True)),
        *(Column(""), Column("", from_width=72)),
    ]
    return table(columns, [_cells(row) for row in rows])


def _cells(row: Row) -> tuple[str, ...]:
    time = "" if row.microseconds is None else f"{row.microseconds:,.1f}"
    # Terabytes are few, and operations many.
    rate = "" if row.rate is None else f"{row.rate:.2f}" if row.rate < 20 else f"{row.rate:.0f}"
    return row.kernel, row.case, time, rate, row.unit, row.note

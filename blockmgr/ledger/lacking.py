"""Columns that a program knows and an older ledger lacks."""

from collections.abc import Sequence

import numpy as np

from blockmgr.core.columns import ELEMENTS, Array, Change
from blockmgr.core.schema import ColumnSpec, pages


class LackingColumns:
    """Memory for such columns, as if it lay behind the ledger's end. What is set in it lasts as long as this object."""

    def __init__(self, begin: int, specs: Sequence[ColumnSpec]) -> None:
        """``begin`` is the ledger's end in bytes, on a page."""
        self._begin = self.end = begin
        self.offsets: dict[str, int] = {}
        """Where each column begins, by its name."""
        for spec in specs:
            self.offsets[spec.name] = self.end
            self.end = pages(self.end + spec.nbytes)
        self._memory: Array = np.zeros(self.end - begin, dtype=np.uint8)

    def column(self, spec: ColumnSpec) -> Array:
        """One of the columns, flat."""
        start = self.offsets[spec.name] - self._begin
        return self._memory[start : start + spec.nbytes].view(spec.dtype)

    def part(self, changes: Sequence[Change]) -> tuple[list[Change], list[Change]]:
        """Part changes into those that lie in the ledger and those that lie here."""
        others: list[Change] = []
        own: list[Change] = []
        for change in changes:
            places, begin = change.indexes, self._begin // change.width
            if places is None:
                places = np.arange(change.start, change.start + len(change.values))
            here = places >= begin
            if not here.any():
                others.append(change)
                continue
            own.append(Change(change.width, 0, places[here] - begin, change.values[here]))
            if not here.all():
                others.append(Change(change.width, 0, places[~here], change.values[~here]))
        return others, own

    def apply(self, changes: Sequence[Change]) -> None:
        """Make changes that lie here, once the rest of their transaction is committed."""
        for change in changes:
            self._memory.view(ELEMENTS[change.width])[change.indexes] = change.values

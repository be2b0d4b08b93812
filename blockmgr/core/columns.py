"""The pool's state as columns of fixed size, and the record of what a transaction changed in them.

The manager works on a private copy of every column. Where a message changes something is remembered, and at its end the
final values at those places go to the ledger as one transaction; if the message fails they are read back from it.
Reads inside a message therefore see its own writes, and nobody outside sees half a message.

All columns lie in one piece of memory, laid out as in the ledger, and what is remembered are places in that memory. So a
transaction has one list of places for each width of element, however many columns it changes.
"""

import mmap
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.schema import PAGE, ColumnSpec, Layout, Moment, lay_out, pool_schema

Array = NDArray[Any]
Indexes = NDArray[np.int64]

MAP_NORESERVE = 0x4000
"""Linux's number; Python's ``mmap`` has no name for it yet."""

NOWHERE: Indexes = np.zeros(0, dtype=np.int64)

ELEMENTS = {1: "u1", 4: "i4", 8: "i8", 16: "V16", 64: "V64"}
"""As what elements of each width in bytes are moved, whatever their column holds."""


@dataclass(slots=True)
class Change:
    """Final values of elements ``width`` bytes wide: scattered to ``indexes``, or all from ``start`` on.

    Places are counted in elements of that width from the beginning of the pool's memory (see ``Layout``).
    """

    width: int
    start: int
    indexes: Indexes | None
    values: Array


class Writes:
    """Where the running transaction has written elements of one width that are applied at the same moment."""

    __slots__ = ("arrays", "elements", "moment", "points", "width")

    def __init__(self, moment: Moment, elements: Array) -> None:
        """``elements`` is the whole memory, as elements of this width."""
        self.moment = moment
        self.elements = elements
        self.width = elements.itemsize
        self.points: list[int] = []
        """Single places."""
        self.arrays: list[Indexes] = []
        """Many places each."""

    def places(self) -> Indexes:
        """All of them."""
        arrays = [*self.arrays, np.array(self.points, dtype=np.int64)] if self.points else self.arrays
        if len(arrays) == 1:
            return arrays[0]
        return np.concatenate(arrays) if arrays else NOWHERE

    def change(self) -> Change:
        """All of them, with what stands there now."""
        places = self.places()
        return Change(self.width, 0, places, self.elements[places])


class Column:
    """One column's working copy. ``flat`` may be read freely and is written only through the methods here."""

    __slots__ = (
        "_base", "_base_array", "_itemsize", "_ranges", "_row_places", "_row_writes", "_rows", "_scattered", "flat", "number",
        "spec", "stride",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        spec: ColumnSpec,
        flat: Array,
        base: int,
        scattered: Writes,
        row_writes: Writes,
        ranges: list[tuple[int, int]],
    ) -> None:
        """A piece of the pool's memory, ``base`` elements from its beginning. ``row_writes``: of the widest elements that
        rows consist of.
        """
        self.number = number
        self.spec = spec
        self.stride = spec.stride
        self.flat = flat
        self._base = base
        # Made once, not by numpy at each sum.
        self._base_array: Array = np.array(base, dtype=np.int64)
        self._itemsize = spec.itemsize
        self._scattered = scattered
        self._row_writes = row_writes
        self._rows: Array = flat.view(row_writes.elements.dtype).reshape(spec.rows, -1)
        in_row = spec.width * spec.itemsize // row_writes.width
        self._row_places: Indexes = base * spec.itemsize // row_writes.width + np.arange(in_row)
        """Where the elements of the first row are."""
        self._ranges = ranges

    def get(self, index: int) -> int:
        """The value of one element of an integer column."""
        return self.flat.item(index)

    def key(self, index: int) -> bytes:
        """The bytes of one element of a ``V`` column."""
        return self.flat[index].tobytes()

    def row(self, row: int, length: int | None = None) -> Array:
        """A view of one row, or of its first ``length`` elements."""
        start = row * self.stride
        return self.flat[start : start + (self.spec.width if length is None else length)]

    def put(self, index: int, value: Any) -> None:
        """Set one element."""
        self.flat[index] = value
        self._scattered.points.append(self._base + index)

    def scatter(self, indexes: Indexes, values: Any) -> None:
        """Set elements at ``indexes``."""
        self.flat[indexes] = values
        self._scattered.arrays.append(indexes + self._base_array)

    def scatter_rows(self, rows: Indexes, values: Array) -> None:
        """Set whole rows; ``values`` has one for each of ``rows``. They are moved in few wide elements, not one by one."""
        elements = np.ascontiguousarray(values, dtype=self.flat.dtype).view(self._rows.dtype)
        self._rows[rows, : elements.shape[1]] = elements
        self._row_writes.arrays.append((rows[:, None] * self._rows.shape[1] + self._row_places).ravel())

    def write(self, row: int, start: int, values: Array) -> None:
        """Set a contiguous piece of one row."""
        first = row * self.stride + start
        self.flat[first : first + len(values)] = values
        first += self._base
        self._ranges.append((first * self._itemsize, (first + len(values)) * self._itemsize))

    def restore(self, committed: Array) -> None:
        """Take back from the committed copy whatever the running transaction has written here."""
        size, end = self._itemsize, self._base + len(self.flat)
        places = self._scattered.places()
        for first, last in self._ranges:
            places = np.concatenate((places, np.arange(first // size, last // size)))
        mine = places[(places >= self._base) & (places < end)] - self._base
        self.flat[mine] = committed[mine]
        places = self._row_writes.places() - self._row_places[0]
        mine = places[(places >= 0) & (places < self._rows.size)]
        self._rows.reshape(-1)[mine] = committed.view(self._rows.dtype)[mine]


def _row_element(spec: ColumnSpec) -> int:
    """Bytes of the widest elements that rows consist of."""
    row, to_next = spec.width * spec.itemsize, spec.stride * spec.itemsize
    return max(width for width in ELEMENTS if row % width == 0 and to_next % width == 0)


class Ledger(Protocol):
    """Where committed columns live. One ``commit`` is one transaction: after a crash it is there whole or not at all."""

    @property
    def layout(self) -> Layout:
        """Where each column of ``pool_schema`` lies."""

    def commit(self, changes: list[Change]) -> None:
        """Make the changes durable, in the order given."""

    def stage(self, column: int, start: int, values: Array) -> None:
        """Write ahead of the commit into a place that no live row refers to; not undone by a crash, and not seen by anyone."""

    def committed(self, column: int) -> Array:
        """The committed copy of a column, flat. To be read at single places: reading a hole allocates it."""

    def load(self, column: int, into: Array) -> None:
        """Copy what was ever written of a column into ``into``, which is zero elsewhere."""

    def discard(self, column: int, start: int, count: int) -> None:
        """Give back the memory of whole pages within these elements, which no longer mean anything."""


class Columns:
    """All columns of a pool by name, and the transaction over them."""

    def __init__(self, geometry: PoolGeometry, ledger: Ledger | None = None) -> None:
        self.geometry = geometry
        self.ledger = ledger
        schema = pool_schema(geometry)
        self._layout = lay_out(schema) if ledger is None else ledger.layout
        # Private pages rather than numpy's own memory, so that those of a released row can be given back. Most are never
        # written, and what is not need not be promised by the machine.
        self._memory = mmap.mmap(-1, self._layout.end, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
        self._bytes: Array = np.frombuffer(self._memory, dtype=np.uint8)
        self._ranges: list[tuple[int, int]] = []
        """First byte, and the one behind the last, of each contiguous piece that the running transaction has written."""
        writes = {
            (moment, width): Writes(moment, self._bytes.view(kind))
            for moment in Moment
            for width, kind in ELEMENTS.items()
        }
        self._writes = list(writes.values())
        """In the order in which they are applied."""
        self.ordered = [self._column(number, spec, writes) for number, spec in enumerate(schema)]
        self._by_name = {column.spec.name: column for column in self.ordered}

    def _column(self, number: int, spec: ColumnSpec, writes: dict[tuple[Moment, int], Writes]) -> Column:
        offset = self._layout.offsets[number]
        flat = self._bytes[offset : offset + spec.nbytes].view(spec.dtype)
        scattered, row_writes = (writes[spec.applied, width] for width in (spec.itemsize, _row_element(spec)))
        return Column(number, spec, flat, offset // spec.itemsize, scattered, row_writes, self._ranges)

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    def commit(self) -> bool:
        """End the transaction. Without a ledger the working copy is all there is. Returns whether anything changed."""
        dirty = [writes for writes in self._writes if writes.points or writes.arrays]
        changed = bool(dirty or self._ranges)
        if changed and self.ledger is not None:
            self.ledger.commit(self._changes(dirty))
        self._forget(dirty)
        return changed

    def _changes(self, dirty: list[Writes]) -> list[Change]:
        """What the running transaction changed, with final values, in the order in which it is to be applied."""
        changes = [writes.change() for writes in dirty]
        first = sum(writes.moment == Moment.FIRST for writes in dirty)
        # Only wide rows are written in pieces, and none of those is applied first or last.
        changes[first:first] = [Change(1, begin, None, self._bytes[begin:end]) for begin, end in self._ranges]
        return changes

    def _forget(self, dirty: list[Writes]) -> None:
        self._ranges.clear()
        for writes in dirty:
            writes.points.clear()
            writes.arrays.clear()

    def rollback(self) -> None:
        """Undo the transaction. Needs a ledger: what is nowhere committed cannot be read back."""
        if self.ledger is None:
            raise RuntimeError("a pool without a ledger cannot roll back")
        for column in self.ordered:
            column.restore(self.ledger.committed(column.number))
        self._forget(self._writes)

    def load(self) -> None:
        """Take every value from the ledger, as a manager does that starts on one that exists."""
        if self.ledger is not None:
            for column in self.ordered:
                self.ledger.load(column.number, column.flat)

    def discard(self, column: Column, row: int) -> None:
        """Give back the memory of a row that no longer means anything, here and in the ledger. Not within a transaction."""
        size = column.stride * column.spec.itemsize
        if size % PAGE == 0:
            self._memory.madvise(mmap.MADV_DONTNEED, self._layout.offsets[column.number] + row * size, size)
        if self.ledger is not None:
            self.ledger.discard(column.number, row * column.stride, column.stride)

    def stage(self, column: Column, row: int, values: Array) -> None:
        """Write the head of an unused row without logging it (see ``Ledger.stage``)."""
        start = row * column.stride
        column.flat[start : start + len(values)] = values
        if self.ledger is not None:
            self.ledger.stage(column.number, start, values)

"""The pool's state as columns of fixed size, and the record of what a transaction changed in them.

The manager works on a private copy of every column. What a message changes is remembered by index, and at its end the
final values at those indexes go to the ledger as one transaction; if the message fails they are read back from it.
Reads inside a message therefore see its own writes, and nobody outside sees half a message.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blockmgr.core.geometry import PoolGeometry

Array = NDArray[Any]
Indexes = NDArray[np.int64]
PAGE = 4096


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """Name, element type, number of rows, and elements of a row (1: a plain column)."""

    name: str
    dtype: str
    rows: int
    width: int = 1

    @property
    def stride(self) -> int:
        """Elements from one row to the next. Wide rows start on a page, so that a released row's memory can be given back."""
        size = np.dtype(self.dtype).itemsize
        wide = self.width * size >= PAGE
        return -(-self.width * size // PAGE) * PAGE // size if wide else self.width

    @property
    def nbytes(self) -> int:
        """Bytes of the whole column."""
        return self.rows * self.stride * np.dtype(self.dtype).itemsize


def pool_schema(g: PoolGeometry) -> tuple[ColumnSpec, ...]:
    """Every column of a pool, **in the order in which a transaction applies them**.

    Live readers rely on the order: a tenancy rises before anything else of its row changes, and the token count rises
    after the tokens are there; so whoever reads tenancy, count, tokens, tenancy again has seen one moment or notices.
    """
    blocks, slots, executors = g.total_blocks, g.max_sequences, g.max_executors
    return (
        ColumnSpec("slot.tenancy", "i8", slots),
        *(
            ColumnSpec(f"pool.{name}", "i8", 1)
            for name in ("clock", "revision", "epoch", "serial", "capacity", "drain")
        ),
        ColumnSpec("pool.content", "V16", 1),
        ColumnSpec("pool.description", "u1", 1, 4095),
        ColumnSpec("block.generation", "i8", blocks),
        ColumnSpec("block.hash", "V16", blocks),
        ColumnSpec("block.parent", "V16", blocks),
        ColumnSpec("block.tokens", "i4", blocks, g.tokens_per_block),
        ColumnSpec("block.filler", "i4", blocks),
        ColumnSpec("block.step", "i8", blocks),
        ColumnSpec("block.used", "i8", blocks),
        ColumnSpec("block.fence", "i8", blocks),
        ColumnSpec("block.indexed", "u1", blocks),
        ColumnSpec("block.refs", "i4", blocks),
        ColumnSpec("block.state", "u1", blocks),
        ColumnSpec("slot.tokens", "i4", slots, g.max_length),
        ColumnSpec("slot.logprobs", "f4", slots, g.max_length),
        ColumnSpec("slot.table", "i4", slots, g.max_table),
        ColumnSpec("slot.request", "u1", slots, max(g.request_bytes, 1)),
        *(ColumnSpec(f"slot.{name}", "V16", slots) for name in ("uuid", "caller", "body", "root")),
        *(ColumnSpec(f"slot.{name}", "f8", slots) for name in ("score", "created")),
        *(
            ColumnSpec(f"slot.{name}", "i8", slots)
            for name in (
                "request_length",
                "owner",
                "epoch",
                "priority",
                "flags",
                "family",
                "attachment",
                "deaths",
                "death_count",
                "cancel",
                "final",
                "residency",
                "prompt",
                "blocks",
                "launched",
                "computed",
                "published",
                "state",
                "count",
            )
        ),
        *(ColumnSpec(f"ticket.{name}", "i8", blocks) for name in ("id", "handle", "index", "source", "executor")),
        ColumnSpec("ticket.kind", "u1", blocks),
        ColumnSpec("executor.name", "V64", executors),
        ColumnSpec("executor.instance", "V16", executors),
        ColumnSpec("executor.pids", "i8", executors, 64),
        *(
            ColumnSpec(f"executor.{name}", "i8", executors)
            for name in ("epoch", "launched", "completed", "solo", "drain", "registered", "orphaned", "state")
        ),
        ColumnSpec("executor.reply", "u1", executors, g.reply_bytes),
        ColumnSpec("executor.reply_length", "i8", executors),
        ColumnSpec("executor.number", "i8", executors),
        ColumnSpec("pin.label", "V64", g.max_pins),
        ColumnSpec("pin.expires", "f8", g.max_pins),
        ColumnSpec("pin.generation", "i8", g.max_pins),
        ColumnSpec("pin.block", "i8", g.max_pins),
        ColumnSpec("pin.id", "i8", g.max_pins),
        ColumnSpec("archive.bytes", "u1", 1, g.archive_bytes),
        *(ColumnSpec(f"archive.{name}", "i8", g.archive_rows) for name in ("offset", "length")),
        ColumnSpec("archive.finished", "f8", g.archive_rows),
        ColumnSpec("archive.uuid", "V16", g.archive_rows),
        *(ColumnSpec(f"archive.{name}", "i8", 1) for name in ("head", "tail", "cursor")),
    )


@dataclass(slots=True)
class Change:
    """Final values at some places of one column: ``indexes`` scattered, or ``values`` from ``start`` on."""

    column: int
    start: int
    indexes: Indexes | None
    values: Array


class Column:
    """One column's working copy. ``flat`` may be read freely and is written only through the methods here."""

    __slots__ = ("_arrays", "_memory", "_points", "_ranges", "flat", "number", "spec", "stride")

    def __init__(self, number: int, spec: ColumnSpec) -> None:
        self.number = number
        self.spec = spec
        self.stride = spec.stride
        # Anonymous memory rather than numpy's own, so that the pages of a released row can be given back.
        self._memory = mmap.mmap(-1, spec.nbytes)
        self.flat: Array = np.frombuffer(self._memory, dtype=spec.dtype)
        self._points: list[int] = []
        self._arrays: list[Indexes] = []
        self._ranges: list[tuple[int, int]] = []

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
        self._points.append(index)

    def scatter(self, indexes: Indexes, values: Any) -> None:
        """Set elements at ``indexes``. The caller gives the array away: it must not change afterwards."""
        self.flat[indexes] = values
        self._arrays.append(indexes)

    def write(self, row: int, start: int, values: Array) -> None:
        """Set a contiguous piece of one row."""
        first = row * self.stride + start
        self.flat[first : first + len(values)] = values
        self._ranges.append((first, first + len(values)))

    @property
    def dirty(self) -> bool:
        """Whether the running transaction has changed anything here."""
        return bool(self._points or self._arrays or self._ranges)

    def changes(self) -> Iterator[Change]:
        """What the running transaction changed, with final values."""
        for first, last in self._ranges:
            yield Change(self.number, first, None, self.flat[first:last])
        if self._points or self._arrays:
            indexes = self._touched()
            yield Change(self.number, 0, indexes, self.flat[indexes])

    def _touched(self) -> Indexes:
        points = np.array(self._points, dtype=np.int64)
        if not self._arrays:
            return points
        return np.concatenate((*self._arrays, points)) if len(points) or len(self._arrays) > 1 else self._arrays[0]

    def forget(self) -> None:
        """Close the transaction: what was changed is now the committed value."""
        self._points = []
        self._arrays = []
        self._ranges = []

    def discard(self, row: int) -> None:
        """Give back the pages of a row. Its values are zero afterwards."""
        size = self.spec.stride * self.flat.itemsize
        if size % PAGE == 0:
            self._memory.madvise(mmap.MADV_DONTNEED, row * size, size)

    def restore(self, committed: Array) -> None:
        """Undo the running transaction from the committed copy."""
        for first, last in self._ranges:
            self.flat[first:last] = committed[first:last]
        if self._points or self._arrays:
            indexes = self._touched()
            self.flat[indexes] = committed[indexes]
        self.forget()


class Ledger(Protocol):
    """Where committed columns live. One ``commit`` is one transaction: after a crash it is there whole or not at all."""

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
        self.ordered = [Column(number, spec) for number, spec in enumerate(pool_schema(geometry))]
        self._by_name = {column.spec.name: column for column in self.ordered}

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    def commit(self) -> bool:
        """End the transaction. Without a ledger the working copy is all there is. Returns whether anything changed."""
        # What ``dirty`` says, spelled out: this looks at every column after every message.
        dirty = [column for column in self.ordered if column._points or column._arrays or column._ranges]
        if self.ledger is not None and dirty:
            self.ledger.commit([change for column in dirty for change in column.changes()])
        for column in dirty:
            column.forget()
        return bool(dirty)

    def rollback(self) -> None:
        """Undo the transaction. Needs a ledger: what is nowhere committed cannot be read back."""
        if self.ledger is None:
            raise RuntimeError("a pool without a ledger cannot roll back")
        for column in self.ordered:
            if column.dirty:
                column.restore(self.ledger.committed(column.number))

    def load(self) -> None:
        """Take every value from the ledger, as a manager does that starts on one that exists."""
        if self.ledger is not None:
            for column in self.ordered:
                self.ledger.load(column.number, column.flat)

    def discard(self, column: Column, row: int) -> None:
        """Give back the memory of a row that no longer means anything, here and in the ledger. Not within a transaction."""
        column.discard(row)
        if self.ledger is not None:
            self.ledger.discard(column.number, row * column.stride, column.stride)

    def stage(self, column: Column, row: int, values: Array) -> None:
        """Write the head of an unused row without logging it (see ``Ledger.stage``)."""
        start = row * column.stride
        column.flat[start : start + len(values)] = values
        if self.ledger is not None:
            self.ledger.stage(column.number, start, values)

"""One pool's ledger: its columns in shared memory, changed a whole transaction at a time."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from blockmgr.core.columns import Array, Change, pool_schema
from blockmgr.core.errors import LedgerCorrupt
from blockmgr.core.geometry import PoolGeometry
from blockmgr.ledger.layout import (
    EPOCH,
    HOLDER,
    OPTIONAL,
    SEQUENCE,
    Directory,
    check_geometry,
    create_memory,
    match,
    plan,
    read_directory,
)
from blockmgr.ledger.lock import ManagerLock
from blockmgr.ledger.memory import SharedMemory, reopen
from blockmgr.ledger.redo import RedoLog


class PoolLedger:
    """The committed columns of one pool; implements ``blockmgr.core.columns.Ledger``.

    Columns go by their number in ``pool_schema``; records and memory by their number in the ledger's own directory,
    which stays the same when a newer program knows more columns. Owns its memory and lock; the redo log is shared by
    all pools of a manager and stays the caller's.
    """

    def __init__(self, memory: SharedMemory, directory: Directory, redo: RedoLog, places: Sequence[int | None]) -> None:
        """Lock a checked ledger; ``create`` and ``adopt`` are the ways in."""
        self._lock = ManagerLock.take(memory, HOLDER, f"the ledger of pool {directory.pool}")
        self._memory = memory
        self._directory = directory
        self._redo = redo
        self._places = list(places)
        self._renumbered = self._places != list(range(len(directory.columns)))
        self._stored = [memory.array(column.dtype, column.elements, column.offset) for column in directory.columns]
        self._columns = [
            np.zeros(spec.rows * spec.stride, dtype=spec.dtype) if place is None else self._stored[place]
            for spec, place in zip(pool_schema(directory.geometry), self._places, strict=True)
        ]
        self._sequence = memory.word(SEQUENCE)

    @classmethod
    def create(cls, pool: str, geometry: PoolGeometry, redo: RedoLog, meta: Mapping[str, Any] | None = None) -> Self:
        """Make an empty ledger. ``meta``, in JSON's types, is kept in its directory for every later program to read."""
        directory = plan(pool, geometry, meta)
        return cls(create_memory(directory), directory, redo, range(len(directory.columns)))

    @classmethod
    def adopt(
        cls,
        descriptor: int,
        redo: RedoLog,
        geometry: PoolGeometry | None = None,
        optional: frozenset[str] = OPTIONAL,
    ) -> Self:
        """Go on with a ledger that exists, and finish what was committed in it.

        The descriptor is this object's from now on, unless this raises. ``geometry``, where given, is what the pool
        is to have. Columns in ``optional`` may be missing; what is set in those lasts as long as this object.

        Raises:
            LedgerCorrupt: it is no ledger, or damaged.
            LedgerMismatch: its format, geometry or columns are not what is needed.
            LedgerInUse: another manager has it.
        """
        memory = SharedMemory.adopt(descriptor)
        directory = read_directory(memory)
        if geometry is not None:
            check_geometry(directory, geometry)
        ledger = cls(memory, directory, redo, match(directory, pool_schema(directory.geometry), optional))
        try:
            ledger.recover()
        except BaseException:
            ledger._lock.release()
            raise
        return ledger

    @property
    def pool(self) -> str:
        """The pool's name."""
        return self._directory.pool

    @property
    def key(self) -> bytes:
        """What tells this ledger from every other, in the redo log above all."""
        return self._directory.key

    @property
    def geometry(self) -> PoolGeometry:
        """The sizes it was made with."""
        return self._directory.geometry

    @property
    def meta(self) -> dict[str, Any]:
        """What was given at creation."""
        return self._directory.meta

    @property
    def descriptor(self) -> int:
        """Descriptor of the memory, for the keeper; it stays this object's."""
        return self._memory.descriptor

    @property
    def manager_epoch(self) -> int:
        """Epoch of the manager that last took the ledger over; readers see it too."""
        return self._memory.word(EPOCH)

    @manager_epoch.setter
    def manager_epoch(self, epoch: int) -> None:
        self._memory.store_word(EPOCH, epoch)

    def readers_descriptor(self) -> int:
        """A new descriptor for reading only, to pass to executors and doors. The caller owns it."""
        return reopen(self._memory.descriptor, os.O_RDONLY)

    def close(self) -> None:
        """Give up memory and lock; changes nothing in it. May be repeated."""
        self._lock.release()
        self._stored, self._columns = [], []
        self._memory.close()

    # -- core's Ledger -----------------------------------------------------------------------------------------------

    def commit(self, changes: list[Change]) -> None:
        """Make the changes durable, in the order given: after a crash all of them are there, or none.

        Raises:
            RecordTooLarge: they do not fit one redo record; nothing changed.
        """
        for change in changes:
            self._check(change)
        stored = self._placed(changes) if self._renumbered else changes
        self._redo.commit(self.key, stored)
        self._apply(stored)
        self._redo.applied()

    def stage(self, column: int, start: int, values: Array) -> None:
        """Write ahead of the commit, unlogged, into a place that no live row refers to."""
        self._memory.store_slice(self._columns[column][start : start + len(values)], values)

    def committed(self, column: int) -> Array:
        """The committed copy of a column, flat, to be read at single places: reading a hole allocates it."""
        return self._columns[column]

    def load(self, column: int, into: Array) -> None:
        """Copy what was ever written of a column into ``into``, which is zero elsewhere. Allocates nothing here."""
        place = self._places[column]
        if place is not None:
            self._memory.read_written(self._directory.columns[place].offset, into)

    def discard(self, column: int, start: int, count: int) -> None:
        """Give back the whole pages within ``count`` elements from ``start`` on; they are zero afterwards."""
        place = self._places[column]
        if place is not None:
            stored = self._directory.columns[place]
            self._memory.punch(stored.offset + start * stored.itemsize, count * stored.itemsize)

    # -- recovery ----------------------------------------------------------------------------------------------------

    def recover(self) -> bool:
        """Apply the transaction that is committed for this pool and not reported applied. Repeating it is harmless.

        Returns whether there was one.

        Raises:
            LedgerCorrupt: the record is damaged, or a transaction is half applied and the redo log does not have it.
        """
        pending = self._redo.pending()
        if pending is None or pending.key != self.key:
            if self._sequence % 2:
                raise LedgerCorrupt(
                    f"sequence number of the ledger of pool {self.pool} is {self._sequence}: a transaction is half "
                    "applied, and this redo log does not have it"
                )
            return False
        try:
            self._apply([self._typed(change) for change in pending.changes])
        except (IndexError, ValueError) as error:
            raise LedgerCorrupt(f"redo log: transaction {pending.number} does not fit its ledger: {error}") from error
        self._redo.applied()
        return True

    def _typed(self, change: Change) -> Change:
        """A recorded change with values of its column's type."""
        return Change(
            change.column, change.start, change.indexes, change.values.view(self._stored[change.column].dtype)
        )

    def _apply(self, changes: Sequence[Change]) -> None:
        """Put changes in place. The sequence number is odd meanwhile: whoever copies columns then copies again."""
        memory, stored = self._memory, self._stored
        odd = self._sequence | 1
        memory.store_word(SEQUENCE, odd)
        for change in changes:
            column = stored[change.column]
            if change.indexes is None:
                memory.store_slice(column[change.start : change.start + len(change.values)], change.values)
            else:
                memory.scatter(column, change.indexes, change.values)
        self._sequence = odd + 1
        memory.store_word(SEQUENCE, odd + 1)

    def _check(self, change: Change) -> None:
        """Refuse ahead of the commit what could not be applied after it.

        Indexes are not looked at: the working copy, which is as long, has taken them already.
        """
        column, values = self._columns[change.column], change.values
        if values.dtype != column.dtype:
            raise TypeError(f"column {change.column} holds {column.dtype}, not {values.dtype}")
        if change.indexes is None:
            if not 0 <= change.start <= len(column) - len(values):
                raise IndexError(f"column {change.column} has {len(column)} elements, not {change.start + len(values)}")
        elif len(change.indexes) != len(values):
            raise ValueError(f"column {change.column} gets {len(values)} values at {len(change.indexes)} places")

    def _placed(self, changes: Sequence[Change]) -> list[Change]:
        """Changes by the ledger's own column numbers; those of columns that it lacks are set at once and left out."""
        placed = []
        for change in changes:
            place = self._places[change.column]
            if place is not None:
                placed.append(Change(place, change.start, change.indexes, change.values))
            elif change.indexes is None:
                self._columns[change.column][change.start : change.start + len(change.values)] = change.values
            else:
                self._columns[change.column][change.indexes] = change.values
        return placed

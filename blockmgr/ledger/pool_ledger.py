"""One pool's ledger: its columns in shared memory, changed a whole transaction at a time."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from blockmgr.core.columns import ELEMENTS, Array, Change
from blockmgr.core.errors import LedgerCorrupt
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.schema import PAGE, Layout, pool_schema
from blockmgr.ledger.lacking import LackingColumns
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
from blockmgr.ledger.memory import SharedMemory
from blockmgr.ledger.redo import RedoLog


class PoolLedger:
    """The committed columns of one pool; implements ``blockmgr.core.columns.Ledger``.

    Columns go by their number in ``pool_schema``, changes by their place in the memory, which stays the same when a newer
    program knows more columns. Owns its memory and lock; the redo log is shared by all pools of a manager and stays the
    caller's.
    """

    def __init__(self, memory: SharedMemory, directory: Directory, redo: RedoLog, places: Sequence[int | None]) -> None:
        """Lock a checked ledger; ``create`` and ``adopt`` are the ways in."""
        self._lock = ManagerLock.take(memory, HOLDER, f"the ledger of pool {directory.pool}")
        self._memory = memory
        self._directory = directory
        self._redo = redo
        self._places = list(places)
        specs = list(zip(pool_schema(directory.geometry), self._places, strict=True))
        self._lacking = LackingColumns(directory.end, [spec for spec, place in specs if place is None])
        offsets: list[int] = []
        self._columns: list[Array] = []
        for spec, place in specs:
            stored = None if place is None else directory.columns[place]
            offsets.append(self._lacking.offsets[spec.name] if stored is None else stored.offset)
            self._columns.append(
                self._lacking.column(spec)
                if stored is None
                else memory.array(stored.dtype, stored.elements, stored.offset)
            )
        self._layout = Layout(tuple(offsets), self._lacking.end)
        self._elements = {width: memory.array(kind, directory.end // width, 0) for width, kind in ELEMENTS.items()}
        """The columns of this ledger, all together, as elements of each width."""
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

    def close(self) -> None:
        """Give up memory and lock; changes nothing in it. May be repeated."""
        self._lock.release()
        self._elements, self._columns = {}, []
        self._memory.close()

    # -- core's Ledger -----------------------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """Where each column lies. Those that the ledger lacks are given places behind its end."""
        return self._layout

    def commit(self, changes: list[Change]) -> None:
        """Make the changes durable, in the order given: after a crash all of them are there, or none.

        Raises:
            RecordTooLarge: they do not fit one redo record; nothing changed.
        """
        for change in changes:
            self._check(change)
        own: list[Change] = []
        if self._lacking.offsets:
            changes, own = self._lacking.part(changes)
        self._redo.commit(self.key, changes)
        self._apply(changes)
        self._redo.applied()
        self._lacking.apply(own)

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
            self._apply(pending.changes)
        except (IndexError, ValueError) as error:
            raise LedgerCorrupt(f"redo log: transaction {pending.number} does not fit its ledger: {error}") from error
        self._redo.applied()
        return True

    def _apply(self, changes: Sequence[Change]) -> None:
        """Put changes in place. The sequence number is odd meanwhile: whoever copies columns then copies again."""
        memory = self._memory
        odd = self._sequence | 1
        memory.store_word(SEQUENCE, odd)
        for change in changes:
            elements = self._elements[change.width]
            if change.indexes is None:
                memory.store_slice(elements[change.start : change.start + len(change.values)], change.values)
            else:
                memory.scatter(elements, change.indexes, change.values)
        self._sequence = odd + 1
        memory.store_word(SEQUENCE, odd + 1)

    def _check(self, change: Change) -> None:
        """Refuse ahead of the commit what could not be applied after it.

        Indexes are not looked at: the working copy, which is laid out alike, has taken them already.
        """
        width, values = change.width, change.values
        if values.dtype != self._elements[width].dtype:
            raise TypeError(
                f"elements {width} bytes wide are moved as {self._elements[width].dtype}, not {values.dtype}"
            )
        if change.indexes is None:
            first, last = change.start * width, (change.start + len(values)) * width
            if not PAGE <= first <= last <= self._layout.end:
                raise IndexError(f"columns lie in {PAGE}..{self._layout.end}, but bytes {first}..{last} are to change")
        elif len(change.indexes) != len(values):
            raise ValueError(f"{len(values)} values are to go to {len(change.indexes)} places")

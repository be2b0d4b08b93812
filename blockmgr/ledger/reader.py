"""The readers' side of a ledger: for executors, front doors and tools, which map it and store nothing.

A live writer may be in the middle of any row, so each kind of reader has its rule. Who follows one sequence reads its
tenancy, its count, ``tokens[0:count]`` and the tenancy again: the writer raises a tenancy before anything else of the
row changes, and a count after the tokens are there. That holds for handles that a message announced; one that is made
up from a tenancy just read may find the count of the sequence before. An executor reads the rows that it owns, which
change only while a message of its own is handled. Tools copy whole columns and copy again if the sequence number
moved meanwhile.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockmgr.core.columns import Array
from blockmgr.core.errors import NotFound, Precondition
from blockmgr.core.geometry import SLOT_BITS, PoolGeometry, slot_of
from blockmgr.core.schema import pool_schema
from blockmgr.core.states import SequenceState
from blockmgr.ledger.layout import EPOCH, SEQUENCE, StoredColumn, match, read_directory
from blockmgr.ledger.memory import SharedMemory
from blockmgr.ledger.rows import SequenceRow, SequenceTokens

COPY_SECONDS = 5.0
"""How long ``snapshot`` tries to find the ledger between two transactions."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Columns of one moment, copied: ``[rows]``, or ``[rows, width]`` where a row has several elements."""

    sequence: int
    """The ledger's sequence number then; it rises by 2 with every transaction."""
    columns: dict[str, Array]

    def __getitem__(self, name: str) -> Array:
        """One column by name."""
        return self.columns[name]


class LedgerReader:
    """A pool's ledger, mapped for reading only. Owns the descriptor it was given; arrays it returns are copies."""

    def __init__(self, descriptor: int) -> None:
        """Map the ledger behind ``descriptor``, which is this object's from now on, unless this raises.

        Raises:
            LedgerCorrupt: it is no ledger, or damaged.
            LedgerMismatch: its format or a sequence's columns are not what this program needs.
        """
        self._memory = SharedMemory.adopt(descriptor, writable=False)
        self._directory = read_directory(self._memory)
        # What the methods below read of sequences has to be there; of the rest, a tool takes what it finds.
        needed = tuple(spec for spec in pool_schema(self.geometry) if spec.name.startswith("slot."))
        match(self._directory, needed, optional=frozenset())
        self._stored = {column.name: column for column in self._directory.columns}
        self._columns = {name: self._memory.array(c.dtype, c.elements, c.offset) for name, c in self._stored.items()}
        self._tenancy, self._state = self._columns["slot.tenancy"], self._columns["slot.state"]
        self._count = self._columns["slot.count"]
        self._tokens, self._stride = self._columns["slot.tokens"], self._stored["slot.tokens"].stride

    @property
    def pool(self) -> str:
        """The pool's name."""
        return self._directory.pool

    @property
    def geometry(self) -> PoolGeometry:
        """The sizes that the ledger was made with."""
        return self._directory.geometry

    @property
    def meta(self) -> dict[str, Any]:
        """What was put into the directory at creation."""
        return self._directory.meta

    @property
    def names(self) -> list[str]:
        """Names of the columns that this ledger has."""
        return list(self._stored)

    @property
    def descriptor(self) -> int:
        """Descriptor of the memory; it stays this object's."""
        return self._memory.descriptor

    @property
    def manager_epoch(self) -> int:
        """Epoch of the manager that last took the ledger over."""
        return self._memory.word(EPOCH)

    def close(self) -> None:
        """Give the mapping up. May be repeated."""
        if self._columns:
            self._columns.clear()
            del self._tenancy, self._state, self._count, self._tokens
        self._memory.close()

    # -- one sequence, while others write -----------------------------------------------------------------------------

    def tokens(self, handle: int, start: int = 0) -> NDArray[np.int32] | None:
        """The recorded tokens of a sequence from position ``start`` on; None if the handle is stale.

        Empty where there are no more than ``start``. Cheap enough to call for every sequence at every wake-up.
        """
        slot, tenancy = slot_of(handle), handle >> SLOT_BITS
        if not self._is_live(slot, tenancy):
            return None
        # The count before the tokens: the other way round, the count could speak of tokens that were read too early.
        count = self._recorded(slot)
        first = slot * self._stride
        tokens: Any = self._tokens[first + min(max(start, 0), count) : first + count].copy()
        return tokens if self._tenancy.item(slot) == tenancy else None

    def sequence(self, handle: int) -> SequenceTokens | None:
        """What a front door needs of a sequence: all its tokens, and where it ends. None if the handle is stale."""
        slot, tenancy = slot_of(handle), handle >> SLOT_BITS
        if not self._is_live(slot, tenancy):
            return None
        uuid = self._columns["slot.uuid"][slot].tobytes()
        prompt, final = self._number("prompt", slot), self._number("final", slot)
        # Last, because it looks at the tenancy once more when everything is read.
        tokens = self.tokens(handle)
        return None if tokens is None else SequenceTokens(handle, uuid, tokens, prompt, final)

    def _is_live(self, slot: int, tenancy: int) -> bool:
        if slot >= len(self._tenancy) or self._tenancy.item(slot) != tenancy:
            return False
        return bool(self._state.item(slot) != SequenceState.FREE)

    def _recorded(self, slot: int) -> int:
        count: int = self._count.item(slot)
        return min(count, self.geometry.max_length)

    def _number(self, name: str, slot: int) -> Any:
        return self._columns[f"slot.{name}"].item(slot)

    # -- a row, by its owner -----------------------------------------------------------------------------------------

    def row(self, handle: int) -> SequenceRow | None:
        """Everything about a sequence, for the executor that owns or adopts it. None if the handle is stale.

        For others it is a good guess: of a row that its owner is changing, fields may be of two moments.
        """
        slot, tenancy = slot_of(handle), handle >> SLOT_BITS
        if not self._is_live(slot, tenancy):
            return None
        count = self._recorded(slot)
        numbers = {name: self._number(name, slot) for name in SequenceRow.numbers()}
        digests = {name: self._columns[f"slot.{name}"][slot].tobytes() for name in ("uuid", "caller", "body", "root")}
        numbers["count"] = count
        row = SequenceRow(
            handle=handle,
            **numbers,
            **digests,
            tokens=self._piece("slot.tokens", slot, count),
            logprobs=self._piece("slot.logprobs", slot, count),
            table=self._piece("slot.table", slot, numbers["blocks"]).astype(np.int64),
            request=self._piece("slot.request", slot, numbers["request_length"]).tobytes(),
        )
        return row if self._tenancy.item(slot) == tenancy else None

    def _piece(self, name: str, row: int, length: int) -> Any:
        """The head of a wide row by the descriptor: a row nobody wrote, such as log-probabilities, stays a hole."""
        column = self._stored[name]
        offset = column.offset + row * column.stride * column.itemsize
        length = min(max(length, 0), column.width)
        return np.frombuffer(self._memory.pread(offset, length * column.itemsize), dtype=column.dtype)

    # -- whole columns, by tools -------------------------------------------------------------------------------------

    def snapshot(self, names: Iterable[str], seconds: float = COPY_SECONDS) -> Snapshot:
        """Copy columns as they were at one moment between two transactions. Allocates nothing in the ledger.

        Raises:
            NotFound: the ledger has no such column.
            Precondition: no moment was found in ``seconds``: transactions follow too closely for what is copied, or
                the manager died within one and none has taken over yet.
        """
        wanted = [self._column(name) for name in names]
        deadline = time.monotonic() + seconds
        while True:
            before = self._sequence()
            if before % 2 == 0:
                columns = {column.name: self._copy(column) for column in wanted}
                if self._sequence() == before:
                    return Snapshot(before, columns)
            if time.monotonic() >= deadline:
                raise Precondition(
                    f"the ledger of pool {self.pool} was in a transaction each time it was copied, for {seconds} s; "
                    f"its sequence number is {self._sequence()}"
                )
            os.sched_yield()

    def _column(self, name: str) -> StoredColumn:
        column = self._stored.get(name)
        if column is None:
            raise NotFound(f"the ledger of pool {self.pool} has no column {name}")
        return column

    def _sequence(self) -> int:
        return int.from_bytes(self._memory.pread(SEQUENCE, 8), "little", signed=True)

    def _copy(self, column: StoredColumn) -> Array:
        into: Array = np.zeros(column.elements, dtype=column.dtype)
        self._memory.read_written(column.offset, into)
        return into if column.width == 1 else into.reshape(column.rows, column.stride)[:, : column.width]

"""The redo log: what a transaction is about to change, written down whole before the first change is made.

::

    record: written with plain stores, may be torn ─► commit word: one store ─► changes applied ─► applied word: one store

The commit word holds the transaction's number and its record's checksum. A record counts as committed only while
the commit word differs from the applied word, and both name the same record at all other times; so a record that was
being written over an older, applied one when its writer died is never taken for committed, whatever it looks like.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from blockmgr.core.columns import ELEMENTS, Array, Change, Indexes
from blockmgr.core.errors import InvalidMessage, LedgerCorrupt, Precondition
from blockmgr.core.schema import PAGE
from blockmgr.ledger.errors import LedgerMismatch, RecordTooLarge
from blockmgr.ledger.lock import ManagerLock
from blockmgr.ledger.memory import WORD, SharedMemory

MAGIC = int.from_bytes(b"PHREDOLG", "little")
VERSION = 2
CAPACITY = 64 << 20
"""Bytes of the largest record unless told otherwise. Sparse: what no record reached costs nothing."""

# Offsets of the header's words, in bytes.
MAGIC_AT, VERSION_AT, HOLDER, COMMITTED, APPLIED, EPOCH, FREE_AT = 0, 8, 56, 64, 72, 80, 256
FREE_WORDS = 64
"""Words that the manager may use for what is its own rather than a pool's."""

RECORD_AT = PAGE
_HEAD = struct.Struct("<qqq16s")
"""Transaction number, bytes of the whole record, number of changes, key of the pool's ledger."""
_ENTRY = struct.Struct("<qqq")
"""Bytes of an element, start (or ``_SCATTERED``), elements. All entries come first, then all arrays."""
_SCATTERED = -1
_NUMBERS = 0x7FFFFFFF
"""Transaction numbers have 31 bits and start again at 0; only neighbours must differ."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A transaction that is committed and perhaps not, or not wholly, applied."""

    number: int
    key: bytes
    changes: list[Change]


class RedoLog:
    """The manager's redo log, in shared memory of its own, for all of its pools. Owns memory and lock.

    One transaction at a time: the next is taken only when the last is reported applied.
    """

    def __init__(self, memory: SharedMemory, lock: ManagerLock) -> None:
        """Take over a checked, locked log; ``create`` and ``adopt`` are the ways in."""
        self._memory = memory
        self._lock = lock
        self._committed = memory.word(COMMITTED)
        self._waiting = self._committed != memory.word(APPLIED)

    @classmethod
    def create(cls, capacity: int = CAPACITY) -> Self:
        """Make an empty log whose largest record has ``capacity`` bytes."""
        memory = SharedMemory.create("pagehold-redo", RECORD_AT + capacity)
        memory.store_word(VERSION_AT, VERSION)
        memory.store_word(MAGIC_AT, MAGIC)
        return cls(memory, ManagerLock.take(memory, HOLDER, "the redo log"))

    @classmethod
    def adopt(cls, descriptor: int) -> Self:
        """Go on with a log that exists; its descriptor is this object's from now on, unless this raises.

        Raises:
            LedgerCorrupt: it is no redo log.
            LedgerMismatch: its format is not this program's.
            LedgerInUse: another manager has it.
        """
        memory = SharedMemory.adopt(descriptor)
        if memory.word(MAGIC_AT) != MAGIC:
            raise LedgerCorrupt(f"magic word of the redo log is {memory.word(MAGIC_AT):#x}, but must be {MAGIC:#x}")
        if memory.word(VERSION_AT) != VERSION:
            raise LedgerMismatch(
                f"format of the redo log is {memory.word(VERSION_AT)}, but this program knows {VERSION}"
            )
        return cls(memory, ManagerLock.take(memory, HOLDER, "the redo log"))

    @property
    def descriptor(self) -> int:
        """Descriptor of the memory, for the keeper; it stays this object's."""
        return self._memory.descriptor

    @property
    def capacity(self) -> int:
        """Bytes of the largest record."""
        return self._memory.nbytes - RECORD_AT

    def close(self) -> None:
        """Give up memory and lock; changes nothing in it. May be repeated."""
        self._lock.release()
        self._memory.close()

    # -- transactions ------------------------------------------------------------------------------------------------

    def commit(self, key: bytes, changes: Sequence[Change]) -> None:
        """Write a transaction down and commit it. The caller applies it now and then calls ``applied``.

        Raises:
            RecordTooLarge: it does not fit; nothing was written.
            Precondition: the last one is not applied; nothing was written.
        """
        if self._waiting:
            raise Precondition(
                f"transaction {self._committed >> 32} is committed and not applied: recover its pool first"
            )
        number = ((self._committed >> 32) + 1) & _NUMBERS
        record = _encode(number, key, changes, self.capacity)
        self._memory.store_bytes(RECORD_AT, record)
        self._committed = number << 32 | zlib.crc32(record)
        # From here on the transaction exists: whoever recovers applies it.
        self._waiting = True
        self._memory.store_word(COMMITTED, self._committed)

    def applied(self) -> None:
        """The committed transaction is in its ledger whole, or its pool is gone: forget it."""
        self._memory.store_word(APPLIED, self._committed)
        self._waiting = False

    def pending(self) -> Pending | None:
        """The transaction that is committed and not reported applied, or None.

        Raises:
            LedgerCorrupt: one is committed, but what was written is not what is there; the place is named.
        """
        committed, applied = self._memory.word(COMMITTED), self._memory.word(APPLIED)
        self._committed, self._waiting = committed, committed != applied
        if not self._waiting:
            return None
        number, checksum = committed >> 32, committed & 0xFFFFFFFF
        if ((applied >> 32) + 1) & _NUMBERS != number:
            raise LedgerCorrupt(
                f"redo log: the commit word names transaction {number}, but the applied word {applied >> 32}, "
                "which is not the one before"
            )
        head = self._memory.pread(RECORD_AT, _HEAD.size)
        length = _HEAD.unpack(head)[1]
        if not _HEAD.size <= length <= self.capacity:
            raise LedgerCorrupt(f"redo log: the record of transaction {number} is {length} bytes, {self.capacity} fit")
        record = self._memory.pread(RECORD_AT, length)
        if zlib.crc32(record) != checksum:
            raise LedgerCorrupt(
                f"redo log: the record of transaction {number}, {length} bytes at {RECORD_AT}, has the checksum "
                f"{zlib.crc32(record):#x}, but the commit word says {checksum:#x}"
            )
        try:
            return _decode(record)
        except (KeyError, ValueError, struct.error) as error:
            raise LedgerCorrupt(f"redo log: the record of transaction {number} cannot be read: {error!r}") from error

    # -- the manager's own words -------------------------------------------------------------------------------------

    def next_epoch(self) -> int:
        """Count one more start of the manager, for good, and return the count. From 1 on."""
        epoch = self._memory.word(EPOCH) + 1
        self._memory.store_word(EPOCH, epoch)
        return epoch

    def word(self, index: int) -> int:
        """One of the ``FREE_WORDS`` words that belong to the manager."""
        return self._memory.word(_free(index))

    def store_word(self, index: int, value: int) -> None:
        """Set one of the ``FREE_WORDS`` words, with one store, outside every transaction."""
        self._memory.store_word(_free(index), value)


def _free(index: int) -> int:
    if not 0 <= index < FREE_WORDS:
        raise InvalidMessage("redo word", index, f"must lie in 0..{FREE_WORDS - 1}")
    return FREE_AT + index * WORD


def _encode(number: int, key: bytes, changes: Sequence[Change], capacity: int) -> bytes:
    entries, arrays = [], []
    for change in changes:
        start = change.start
        if change.indexes is not None:
            start = _SCATTERED
            arrays.append(change.indexes.tobytes())
        arrays.append(change.values.tobytes())
        entries.append(_ENTRY.pack(change.width, start, len(change.values)))
    length = _HEAD.size + _ENTRY.size * len(entries) + sum(map(len, arrays))
    if length > capacity:
        raise RecordTooLarge(length, capacity)
    return b"".join((_HEAD.pack(number, length, len(entries), key), *entries, *arrays))


def _decode(record: bytes) -> Pending:
    number, _, count, key = _HEAD.unpack_from(record)
    at = _HEAD.size + count * _ENTRY.size
    changes = []
    for width, start, elements in _ENTRY.iter_unpack(record[_HEAD.size : at]):
        indexes: Indexes | None = None
        if start == _SCATTERED:
            indexes = np.frombuffer(record, np.int64, elements, at)
            at += indexes.nbytes
        values: Array = np.frombuffer(record, ELEMENTS[width], elements, at)
        at += values.nbytes
        changes.append(Change(width, max(start, 0), indexes, values))
    return Pending(number, key, changes)

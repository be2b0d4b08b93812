"""Finished requests: their tokens and parameters, kept for a while in a ring of bytes so that they hold no slot.

Newest records overwrite oldest. A record is one contiguous piece; one that does not fit before the end of the ring
starts at its beginning. A record that is larger than the whole ring is not kept. One whose time is over while others that were
forked from the same sequence live is kept for as long again: who asks for all of them finds it.
"""

import struct
from dataclasses import dataclass

import numpy as np

from blockmgr.core.columns import Columns
from blockmgr.core.states import FinishReason, SequenceState

HEADER = struct.Struct("<16s16s16siiiidddii")


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """What remains of a sequence after its end. ``tokens`` are prompt and output; ``final`` is the number that counts."""

    uuid: bytes
    caller: bytes
    body: bytes
    prompt: int
    final: int
    reason: FinishReason
    score: float
    created: float
    finished: float
    tokens: np.ndarray
    logprobs: np.ndarray
    request: bytes

    def pack(self) -> bytes:
        """The record's bytes."""
        head = HEADER.pack(
            self.uuid, self.caller, self.body, self.prompt, self.final, self.reason, len(self.logprobs),
            self.score, self.created, self.finished, len(self.tokens), len(self.request),
        )  # fmt: skip
        return head + self.tokens.astype("<i4").tobytes() + self.logprobs.astype("<f4").tobytes() + self.request

    @classmethod
    def unpack(cls, data: bytes) -> "FinishedRequest":
        """A record from its bytes."""
        uuid, caller, body, prompt, final, reason, logs, score, created, finished, count, size = HEADER.unpack_from(
            data
        )
        at = HEADER.size
        tokens = np.frombuffer(data, "<i4", count, at)
        at += 4 * count
        logprobs = np.frombuffer(data, "<f4", logs, at)
        at += 4 * logs
        request = data[at : at + size]
        why = FinishReason(reason)
        return cls(uuid, caller, body, prompt, final, why, score, created, finished, tokens, logprobs, request)


class Archive:
    """The ring and its rows. Rows ``tail``..``head`` (modulo their number) are kept; each names its piece of the ring."""

    def __init__(self, columns: Columns) -> None:
        self._bytes = columns["archive.bytes"]
        self._offset, self._length = columns["archive.offset"], columns["archive.length"]
        self._since, self._uuid = columns["archive.finished"], columns["archive.uuid"]
        self._family = columns["archive.family"]
        self._families, self._states = columns["slot.family"], columns["slot.state"]
        self._head, self._tail, self._cursor = (columns[f"archive.{n}"] for n in ("head", "tail", "cursor"))
        self._rows = self._offset.spec.rows
        self._size = self._bytes.spec.width
        self.keep_seconds = 60.0
        self.reset()

    def reset(self) -> None:
        """Rebuild what is derived from the columns."""
        self._by_uuid = {self._uuid.key(row): row for row in self._kept()}
        self._by_caller = {caller: row for row in self._kept() if any(caller := self._read(row).caller)}

    def __len__(self) -> int:
        return self._head.get(0) - self._tail.get(0)

    def _kept(self) -> list[int]:
        return [number % self._rows for number in range(self._tail.get(0), self._head.get(0))]

    def add(self, record: FinishedRequest, family: int = -1) -> None:
        """Keep a record, dropping as many of the oldest as stand in its way, and those kept long enough.

        ``family``: what it has in common with the sequences that were forked from it, or it from; -1: nothing.
        """
        self.expire(record.finished)
        self._put(record, family, record.finished)

    def _put(self, record: FinishedRequest, family: int, since: float) -> None:
        data = record.pack()
        if len(data) > self._size:
            return
        start = self._cursor.get(0)
        if start + len(data) > self._size:
            self._drop_where(start, self._size)
            start = 0
        self._drop_where(start, start + len(data))
        while len(self) >= self._rows:
            self._drop_oldest()
        row = self._head.get(0) % self._rows
        self._bytes.write(0, start, np.frombuffer(data, dtype=np.uint8))
        self._offset.put(row, start)
        self._length.put(row, len(data))
        self._since.put(row, since)
        self._family.put(row, family)
        self._uuid.put(row, np.void(record.uuid))
        self._head.put(0, self._head.get(0) + 1)
        self._cursor.put(0, start + len(data))
        self._by_uuid[record.uuid] = row
        if any(record.caller):
            self._by_caller[record.caller] = row

    def _drop_where(self, start: int, end: int) -> None:
        """Drop the oldest records until none overlaps [start, end)."""
        while len(self):
            row = self._tail.get(0) % self._rows
            first = self._offset.get(row)
            if first >= end or first + self._length.get(row) <= start:
                return
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        row = self._tail.get(0) % self._rows
        self._by_uuid.pop(self._uuid.key(row), None)
        caller = self._read(row).caller
        if self._by_caller.get(caller) == row:
            del self._by_caller[caller]
        self._tail.put(0, self._tail.get(0) + 1)

    def expire(self, now: float) -> int:
        """Drop what was kept longer than ``keep_seconds``. Returns how many."""
        dropped = 0
        while len(self) and float(self._since.flat[row := self._tail.get(0) % self._rows]) < now - self.keep_seconds:
            record, family = self._read(row), self._family.get(row)
            self._drop_oldest()
            if self._lives(family):
                self._put(record, family, now)
            else:
                dropped += 1
        return dropped

    def _lives(self, family: int) -> bool:
        """Whether any of a family has not ended."""
        return bool(((self._families.flat == family) & (self._states.flat != SequenceState.FREE)).any())

    def find(self, uuid: bytes) -> FinishedRequest | None:
        """The finished request of a UUID, if it is still kept."""
        row = self._by_uuid.get(uuid)
        return None if row is None else self._read(row)

    def find_caller(self, caller: bytes) -> FinishedRequest | None:
        """The last finished request of a caller's own id (a digest, not zeros), if it is still kept."""
        row = self._by_caller.get(caller)
        return None if row is None else self._read(row)

    def _read(self, row: int) -> FinishedRequest:
        start = self._offset.get(row)
        return FinishedRequest.unpack(self._bytes.flat[start : start + self._length.get(row)].tobytes())

"""What happened in a pool, in order: each committed transaction's events get consecutive revisions."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Final, overload

from blockmgr.core.columns import Columns


class EventKind(StrEnum):
    """Kinds of event, as operators read them."""

    REGISTERED = "registered"
    EXECUTOR_LIVE = "executor-live"
    EXECUTOR_FENCED = "executor-fenced"
    EXECUTOR_DEAD = "executor-dead"
    UNREGISTERED = "unregistered"
    ADMITTED = "admitted"
    REFUSED = "refused"
    GREW = "grew"
    SHORT = "short"
    SEALED = "sealed"
    FORKED = "forked"
    REORDERED = "reordered"
    COPY_ORDERED = "copy-ordered"
    COPY_DONE = "copy-done"
    SWAPPING_OUT = "swapping-out"
    SWAPPING_IN = "swapping-in"
    RELEASED = "released"
    RETURNED = "returned"
    CANCEL_ASKED = "cancel-asked"
    FINISHED = "finished"
    ORPHANED = "orphaned"
    ADOPTED = "adopted"
    FREED = "freed"
    CACHED = "cached"
    EVICTED = "evicted"
    PINNED = "pinned"
    UNPINNED = "unpinned"
    RESIZED = "resized"
    DRAINING = "draining"
    FLUSHED = "flushed"
    RELABELLED = "relabelled"


@dataclass(slots=True)
class Event:
    """One thing that happened. Fields that do not apply keep their defaults.

    ``blocks`` are ledger block numbers (host blocks lie behind the device's); ``tokens`` is the sequence's token count
    after it. ``revision`` and ``time`` (seconds since 1970) are set at the commit.
    """

    kind: EventKind
    handle: int = 0
    uuid: bytes = b""
    executor: str = ""
    blocks: list[int] = field(default_factory=list)
    tokens: int = 0
    detail: str = ""
    revision: int = 0
    time: float = 0.0

    def said(self) -> "Said":
        """What it says, as it is kept."""
        return self.kind._value_, self.handle, self.uuid, self.executor, tuple(self.blocks), self.tokens, self.detail

    @classmethod
    def unpacked(cls, record: "Record") -> "Event":
        """An event that was kept."""
        kind, handle, uuid, executor, blocks, tokens, detail, revision, time = record
        return cls(EventKind(kind), handle, uuid, executor, list(blocks), tokens, detail, revision, time)


Said = tuple[str, int, bytes, str, tuple[int, ...], int, str]
"""An event's fields but for revision and time, which it has once its transaction is committed."""

Record = tuple[str, int, bytes, str, tuple[int, ...], int, str, int, float]
"""An event's fields. Python's garbage collector soon leaves such a tuple alone, while it would walk through every kept
``Event`` again and again: with tens of thousands of them the manager stood still for tens of milliseconds.
"""

KIND: Final = 0
BLOCKS: Final = 4
REVISION: Final = 7
"""Places in a record."""


class KeptEvents(Sequence[Event]):
    """Kept events, oldest first, unpacked one by one as they are looked at."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return list(map(Event.unpacked, self._records[index]))
        return Event.unpacked(self._records[index])

    def blocks_by_kind(self) -> list[tuple[str, int]]:
        """For each its kind, and how many blocks it names."""
        return [(record[KIND], len(record[BLOCKS])) for record in self._records]

    def about(self, block: int, limit: int = 16) -> list[Event]:
        """The last events that name a block, oldest first."""
        naming = (record for record in reversed(self._records) if block in record[BLOCKS])
        return list(map(Event.unpacked, islice(naming, limit)))[::-1]


class EventLog:
    """The last events of a pool, and those of the running transaction."""

    def __init__(self, columns: Columns, keep: int = 65536) -> None:
        self._revision = columns["pool.revision"]
        self._pending: list[Said] = []
        self._numbered = 0
        """How many of them have their revisions."""
        self._time = 0.0
        """When the last ones got theirs."""
        self._kept: deque[Record] = deque(maxlen=keep)

    @property
    def revision(self) -> int:
        """Revision of the last committed event."""
        return self._revision.get(0)

    @property
    def forgotten(self) -> int:
        """Revision up to which events are no longer kept; those of an earlier manager are not."""
        return self._kept[0][REVISION] - 1 if self._kept else self.revision

    def add(self, event: Event) -> None:
        """Note an event of the running transaction."""
        self._pending.append(event.said())

    def add_all(self, events: Iterable[Said]) -> None:
        """Note several of which there is no object yet: there are many of them, and mostly nobody asks for one."""
        self._pending.extend(events)

    def number(self, now: float) -> int:
        """Give the running transaction's events their revisions, as its last change. Returns the revision after it.

        May be repeated within a transaction: an event keeps the revision that it has; the time is the last one's.
        """
        revision, new = self._revision.get(0), len(self._pending) - self._numbered
        if new:
            revision += new
            self._numbered, self._time = len(self._pending), now
            self._revision.put(0, revision)
        return revision

    def publish(self) -> KeptEvents:
        """The transaction is committed: keep its events, which are numbered, and return them."""
        first, time = self._revision.get(0) - len(self._pending) + 1, self._time
        records = [(*said, revision, time) for revision, said in enumerate(self._pending, first)]
        self.drop()
        self._kept.extend(records)
        return KeptEvents(records)

    def drop(self) -> None:
        """Those of the running transaction are no more pending; it may have failed."""
        self._pending, self._numbered = [], 0

    def since(self, revision: int, limit: int | None = None) -> list[Event]:
        """Kept events after a revision, oldest first, at most ``limit`` of them."""
        have = len(self._kept)
        behind = min(self.revision - revision, have)
        if behind <= 0:
            return []
        count = behind if limit is None else min(limit, behind)
        # A deque is slow to reach from the far end, and most readers stand near its newest.
        if behind < have // 2:
            found = list(islice(reversed(self._kept), behind - count, behind))[::-1]
        else:
            found = list(islice(self._kept, have - behind, have - behind + count))
        return list(map(Event.unpacked, found))

    def kept(self) -> KeptEvents:
        """Every kept event, oldest first: a copy, to be searched off the loop."""
        return KeptEvents(list(self._kept))

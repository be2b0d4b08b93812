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

    def packed(self) -> "Record":
        """The event as it is kept."""
        return (
            self.kind._value_, self.handle, self.uuid, self.executor, tuple(self.blocks), self.tokens, self.detail,
            self.revision, self.time,
        )  # fmt: skip

    @classmethod
    def unpacked(cls, record: "Record") -> "Event":
        """An event that was kept."""
        kind, handle, uuid, executor, blocks, tokens, detail, revision, time = record
        return cls(EventKind(kind), handle, uuid, executor, list(blocks), tokens, detail, revision, time)


Record = tuple[str, int, bytes, str, tuple[int, ...], int, str, int, float]
"""An event's fields. Python's garbage collector soon leaves such a tuple alone, while it would walk through every kept
``Event`` again and again: with tens of thousands of them the manager stood still for tens of milliseconds.
"""

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

    def about(self, block: int, limit: int = 16) -> list[Event]:
        """The last events that name a block, oldest first."""
        naming = (record for record in reversed(self._records) if block in record[BLOCKS])
        return list(map(Event.unpacked, islice(naming, limit)))[::-1]


class EventLog:
    """The last events of a pool, and those of the running transaction."""

    def __init__(self, columns: Columns, keep: int = 65536) -> None:
        self._revision = columns["pool.revision"]
        self._pending: list[Event] = []
        self._numbered = 0
        """How many of them have their revisions."""
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
        self._pending.append(event)

    def add_all(self, events: Iterable[Event]) -> None:
        """Note several."""
        self._pending.extend(events)

    def number(self, now: float) -> int:
        """Give the running transaction's events their revisions, as its last change. Returns the revision after it.

        May be repeated within a transaction: an event keeps the revision that it has.
        """
        before, new = self._revision.get(0), self._pending[self._numbered :]
        if not new:
            return before
        for revision, event in enumerate(new, before + 1):
            event.revision, event.time = revision, now
        self._numbered += len(new)
        self._revision.put(0, before + len(new))
        return before + len(new)

    def publish(self) -> list[Event]:
        """The transaction is committed: keep its events and return them."""
        events = self._pending
        self.drop()
        self._kept.extend(map(Event.packed, events))
        return events

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

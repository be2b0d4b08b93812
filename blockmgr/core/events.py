"""What happened in a pool, in order: each committed transaction's events get consecutive revisions."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

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


class EventLog:
    """The last events of a pool, and those of the running transaction."""

    def __init__(self, columns: Columns, keep: int = 65536) -> None:
        self._revision = columns["pool.revision"]
        self._pending: list[Event] = []
        self._kept: deque[Event] = deque(maxlen=keep)
        self.forgotten = 0
        """Revision up to which events are no longer kept (0: none was dropped since the pool was made)."""

    @property
    def revision(self) -> int:
        """Revision of the last committed event."""
        return self._revision.get(0)

    def add(self, event: Event) -> None:
        """Note an event of the running transaction."""
        self._pending.append(event)

    def number(self, now: float) -> int:
        """Give the running transaction's events their revisions, as its last change. Returns the revision after it."""
        revision = self._revision.get(0)
        for event in self._pending:
            revision += 1
            event.revision = revision
            event.time = now
        if self._pending:
            self._revision.put(0, revision)
        return revision

    def publish(self) -> list[Event]:
        """The transaction is committed: keep its events and return them."""
        events, self._pending = self._pending, []
        full = self._kept.maxlen or 0
        overflow = len(self._kept) + len(events) - full
        if overflow > 0:
            self.forgotten = self._kept[min(overflow, len(self._kept)) - 1].revision if self._kept else 0
        self._kept.extend(events)
        return events

    def drop(self) -> None:
        """The transaction failed."""
        self._pending = []

    def since(self, revision: int) -> Iterable[Event]:
        """Kept events after a revision, oldest first."""
        if not self._kept or revision >= self._kept[-1].revision:
            return []
        first = self._kept[0].revision
        skip = max(0, revision + 1 - first)
        return list(self._kept)[skip:]

    def about(self, block: int, limit: int = 16) -> list[Event]:
        """The last kept events that name a block, oldest first."""
        found: list[Event] = []
        for event in reversed(self._kept):
            if block in event.blocks:
                found.append(event)
                if len(found) == limit:
                    break
        return found[::-1]

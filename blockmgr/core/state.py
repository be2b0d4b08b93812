"""Everything a pool knows, put together once and handed to the operations that change it."""

import time
from collections.abc import Callable

import numpy as np

from blockmgr.core.archive import Archive
from blockmgr.core.blocks import Blocks
from blockmgr.core.clock import Clock
from blockmgr.core.columns import Columns, Indexes
from blockmgr.core.counts import Counts
from blockmgr.core.events import Event, EventKind, EventLog
from blockmgr.core.executors import Executors
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import Want
from blockmgr.core.sequences import Sequences
from blockmgr.core.tickets import Tickets


class PoolState:
    """The columns and the parts that give them meaning. One owner: the manager's loop; nobody else writes."""

    def __init__(self, columns: Columns, now: Callable[[], float] = time.time) -> None:
        self.geometry: PoolGeometry = columns.geometry
        self.columns = columns
        self.clock = Clock(columns, now)
        self.events = EventLog(columns)
        self.blocks = Blocks(columns, self.clock, self.events)
        self.sequences = Sequences(columns)
        self.executors = Executors(columns)
        self.tickets = Tickets(columns, self.blocks)
        self.archive = Archive(columns)
        self.counts = Counts()
        self.wishes: dict[int, set[int]] = {}
        """Executor row → handles of its sequences that others want something of: said in its next reply."""
        self.wants: dict[int, Want] = {}
        """Executor row → what of it waits for blocks, as of its last message. Nothing is decided by it here."""
        self.draining = False
        """Whether blocks beyond the capacity are still in use after a shrink."""
        self.moved: dict[int, tuple[int, int]] = {}
        """Source → destination, and its generation, of shared blocks that a resize moved while tables name the source."""

    @property
    def content(self) -> bytes:
        """Content identity of the pool: root of every hash chain."""
        return self.columns["pool.content"].key(0)

    @property
    def capacity(self) -> int:
        """Device blocks in use or usable, the null block included."""
        return self.columns["pool.capacity"].get(0)

    def available(self) -> int:
        """Device blocks that are free or can be evicted."""
        return self.blocks.tier(host=False).available

    def note(self, kind: EventKind, slot: int, blocks: list[int] | None = None, detail: str = "") -> None:
        """Note an event about the sequence in ``slot``."""
        seqs = self.sequences
        owner = seqs.owner.get(slot)
        self.events.add(
            Event(
                kind,
                handle=seqs.handle(slot),
                uuid=seqs.uuid.key(slot),
                executor=self.executors.name_of(owner),
                blocks=blocks or [],
                tokens=seqs.count.get(slot),
                detail=detail,
            )
        )

    def note_each(self, kind: EventKind, slots: Indexes, handles: list[int], blocks: list[tuple[int, ...]]) -> None:
        """Note an event about each of many sequences of one executor."""
        seqs = self.sequences
        name, executor = kind.value, self.executors.name_of(seqs.owner.get(int(slots[0])))
        uuids, counts = seqs.uuid.flat[slots].tolist(), seqs.count.flat[slots].tolist()
        self.events.add_all(
            [
                (name, handle, uuid, executor, named, count, "")
                for handle, uuid, count, named in zip(handles, uuids, counts, blocks, strict=True)
            ]
        )


def one(block: int) -> np.ndarray:
    """A single block as an index array."""
    return np.array([block], dtype=np.int64)

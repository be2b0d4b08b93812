"""Events followed as they happen. A reader has a place in the pool's log and no queue of its own.

So a slow reader costs nothing: it is told what it missed once the log has moved on, and goes on behind that.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.events import Event, EventKind, EventLog
from blockmgr.service.admin.dump import dump_tables
from blockmgr.service.admin.events import event_message
from blockmgr.service.admin.off_loop import off_loop
from blockmgr.service.admin.stats import pool_stats
from blockmgr.service.codec.enums import EVENT_KINDS
from blockmgr.service.errors import OutOfRange
from blockmgr.service.manager import Manager
from blockmgr.service.pools import ManagedPool
from pagehold.admin.v1 import watch_pb2
from pagehold.common.v1.version_pb2 import StateVersion

BATCH_EVENTS, BATCH_BLOCKS = 2000, 100_000
"""Limits of one answer, which keep it below 1 MiB: an event takes 256 bytes at most beside its blocks."""


class EventWatch:
    """One reader of a pool's events. ``answers`` is its whole life; nothing of it is left when that is closed."""

    def __init__(self, manager: Manager, managed: ManagedPool, request: watch_pb2.WatchEventsRequest) -> None:
        """Check the request. Raises ``InvalidMessage``, and ``OutOfRange`` for a revision that is not reached yet."""
        self._manager = manager
        self._managed = managed
        self._kinds = frozenset(_known_kind(number) for number in request.kinds)
        self._log: EventLog = managed.pool.state.events
        self._place = self._log.revision
        self._snapshot = request.WhichOneof("start") == "snapshot"
        if request.WhichOneof("start") == "after_revision":
            if request.after_revision > self._place:
                text = f"revision {request.after_revision} is not reached: the pool is at {self._place}"
                raise OutOfRange(f"{text}, and its count goes on over restarts of the manager")
            self._place = request.after_revision

    async def answers(self) -> AsyncGenerator[watch_pb2.WatchEventsResponse, None]:
        """The stream: a snapshot if one was asked for, then events, and gaps where the reader was too slow."""
        with self._woken() as wake:
            if self._snapshot:
                async for part in self._snapshot_parts():
                    yield part
            while True:
                wake.clear()
                answer = self._next()
                if answer is None:
                    await wake.wait()
                elif answer.events.events or answer.WhichOneof("content") == "missed":
                    yield answer

    @contextmanager
    def _woken(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever something happens in the pool."""
        wake = asyncio.Event()

        def tell(pool: str, _: Sequence[Event]) -> None:
            if pool == self._managed.name:
                wake.set()

        self._manager.watchers.add(tell)
        try:
            yield wake
        finally:
            self._manager.watchers.discard(tell)

    async def _snapshot_parts(self) -> AsyncGenerator[watch_pb2.WatchEventsResponse, None]:
        """The figures, then every table: all from the state behind which the events begin."""
        version = self._version(self._log.revision)
        self._place = self._log.revision
        stats, dump = pool_stats(self._managed), dump_tables(self._managed.pool)
        first = watch_pb2.WatchEventsResponse(version=version)
        first.snapshot.stats.CopyFrom(stats)
        yield first
        async for tables in off_loop(dump.chunks()):
            part = watch_pb2.WatchEventsResponse(version=version)
            part.snapshot.tables.extend(tables)
            yield part
        last = watch_pb2.WatchEventsResponse(version=version)
        last.snapshot.last = True
        yield last

    def _next(self) -> watch_pb2.WatchEventsResponse | None:
        """What the reader gets next, or None if it has seen everything."""
        forgotten = self._log.forgotten
        if self._place < forgotten:
            answer = watch_pb2.WatchEventsResponse(version=self._version(forgotten))
            setattr(answer.missed, "from", self._place + 1)
            answer.missed.to = forgotten
            self._place = forgotten
            return answer
        events = _batch(self._log.since(self._place, BATCH_EVENTS))
        if not events:
            return None
        self._place = events[-1].revision
        answer = watch_pb2.WatchEventsResponse(version=self._version(self._place))
        geometry = self._managed.geometry
        answer.events.events.extend(event_message(geometry, event) for event in events if self._wants(event))
        return answer

    def _wants(self, event: Event) -> bool:
        return not self._kinds or event.kind in self._kinds

    def _version(self, revision: int) -> StateVersion:
        return StateVersion(manager_epoch=self._manager.epoch, revision=revision)


def _known_kind(number: int) -> EventKind:
    if not number:
        raise InvalidMessage("kinds", number, "must be a kind of event")
    return EVENT_KINDS.decode(number, "kinds")


def _batch(events: list[Event]) -> list[Event]:
    """As many of the first events as fit one answer, at least one."""
    blocks = 0
    for count, event in enumerate(events):
        blocks += len(event.blocks)
        if blocks > BATCH_BLOCKS and count:
            return events[:count]
    return events

"""Events followed: from now on, from a revision, behind a snapshot; slow readers, and readers that hang up."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from blockmgr.core.events import Event, EventKind, EventLog
from blockmgr.core.messages import Admission
from blockmgr.service.admin import handlers
from blockmgr.service.admin.events import MOST_BLOCKS, event_message
from pagehold.admin.v1 import watch_pb2
from pagehold.common.v1 import event_pb2
from tests.admin_server import AdminServer, Failing, Worker, geometry_of
from tests.scripted.processes import wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AdminServer]:
    with AdminServer(tmp_path, geometry_of()) as server:
        yield server


@pytest.fixture
def worker(server: AdminServer) -> Worker:
    return server.worker()


def revision(server: AdminServer) -> int:
    return server.on_loop(lambda: server.pool.revision)


def watchers(server: AdminServer) -> int:
    return server.on_loop(lambda: len(server.manager.watchers))


def await_watchers(server: AdminServer, count: int) -> None:
    """Wait until so many readers are watching."""
    wait_until(lambda: watchers(server) == count, f"{count} readers watch")


def await_streams(server: AdminServer, count: int) -> None:
    """Wait until so many streams are open."""
    wait_until(lambda: server.on_loop(lambda: len(server.servicer.streams)) == count, f"{count} streams are open")


def refuse(worker: Worker, count: int) -> None:
    """As many events, each of a prompt that is refused."""
    empty = np.zeros(0, dtype=np.int32)
    worker.turn(admissions=[Admission(worker.name.encode().ljust(16, b"x"), empty) for _ in range(count)])


def revisions(stream: Any, count: int) -> list[int]:
    """Revisions of the next so many events."""
    events = (event for answer in stream for event in answer.events.events)
    return [event.revision for event in islice(events, count)]


def test_a_watch_begins_with_what_happens_next(server: AdminServer, worker: Worker) -> None:
    worker.prefill([1] * 4)
    with server.stub() as stub:
        stream = stub.WatchEvents(watch_pb2.WatchEventsRequest())
        await_watchers(server, 1)
        before = revision(server)
        worker.prefill([2] * 4)
        assert revisions(stream, 2) == [before + 1, before + 2]


def test_a_watch_from_a_revision_goes_on_behind_it_without_gap_or_repetition(
    server: AdminServer, worker: Worker
) -> None:
    worker.cache([1] * 9)
    with server.stub() as stub:
        first = stub.WatchEvents(watch_pb2.WatchEventsRequest(after_revision=0))
        seen = revisions(first, 3)
        first.cancel()
        worker.cache([2] * 9)
        again = stub.WatchEvents(watch_pb2.WatchEventsRequest(after_revision=seen[-1]))
        seen += revisions(again, revision(server) - seen[-1])
    assert seen == list(range(1, revision(server) + 1))


def test_an_event_carries_what_happened_to_whom(server: AdminServer, worker: Worker) -> None:
    (handle,) = worker.prefill([1] * 6)
    with server.stub() as stub:
        kinds = [event_pb2.EVENT_KIND_ADMITTED]
        answer = next(stub.WatchEvents(watch_pb2.WatchEventsRequest(after_revision=0, kinds=kinds)))
    (event,) = answer.events.events
    assert (event.handle, event.executor, event.tokens, event.detail) == (handle, "engine-0", 6, "cached=0")
    assert len(event.blocks) == 2
    assert answer.version.revision >= event.revision


def test_a_snapshot_and_the_events_behind_it_leave_out_nothing(server: AdminServer, worker: Worker) -> None:
    (handle,) = worker.prefill([1] * 9)
    with server.stub() as stub:
        stream = stub.WatchEvents(watch_pb2.WatchEventsRequest(snapshot=watch_pb2.SnapshotFirst()))
        parts = [next(stream)]
        while not parts[-1].snapshot.last:
            parts.append(next(stream))
        taken = parts[0].version.revision
        assert {part.version.revision for part in parts} == {taken}
        assert parts[0].snapshot.stats.sequences.live == 1
        assert [table.handle for part in parts for table in part.snapshot.tables] == [handle]
        worker.finish(handle)
        assert revisions(stream, 1) == [taken + 1]


def test_a_revision_that_is_no_longer_kept_begins_with_what_is_missed(server: AdminServer, worker: Worker) -> None:
    keep_only(server, 100)
    refuse(worker, 300)
    last = revision(server)
    with server.stub() as stub:
        stream = stub.WatchEvents(watch_pb2.WatchEventsRequest(after_revision=5))
        missed = next(stream).missed
        assert (getattr(missed, "from"), missed.to) == (6, last - 100)
        assert revisions(stream, 100) == list(range(last - 99, last + 1))


def test_events_of_a_manager_before_this_one_are_missed_and_those_of_this_one_told(
    server: AdminServer, worker: Worker
) -> None:
    def restart() -> int:
        log = EventLog(server.pool.columns)
        server.pool.state.events = server.pool.state.blocks.events = log
        return log.revision

    worker.cache([1] * 9)
    before = server.on_loop(restart)
    refuse(worker, 1)
    with server.stub() as stub:
        stream = stub.WatchEvents(watch_pb2.WatchEventsRequest(after_revision=2))
        missed = next(stream).missed
        assert (getattr(missed, "from"), missed.to) == (3, before)
        assert revisions(stream, 1) == [before + 1]


def keep_only(server: AdminServer, count: int) -> None:
    """A log that keeps fewer events than usual."""

    def replace() -> None:
        log = EventLog(server.pool.columns, count)
        server.pool.state.events = server.pool.state.blocks.events = log

    server.on_loop(replace)


def test_a_slow_reader_is_told_what_it_missed_and_goes_on(server: AdminServer, worker: Worker) -> None:
    keep_only(server, 5000)
    first = revision(server)
    with server.stub() as stub:
        stream = stub.WatchEvents(watch_pb2.WatchEventsRequest(after_revision=first))
        await_watchers(server, 1)
        # Nothing is read meanwhile: the transport's windows fill up, and the log moves on.
        for _ in range(40):
            refuse(worker, 2000)
        last = revision(server)
        told: list[int] = []
        missed: list[int] = []
        for answer in stream:
            told += [event.revision for event in answer.events.events]
            if answer.WhichOneof("content") == "missed":
                missed += range(getattr(answer.missed, "from"), answer.missed.to + 1)
            if told and told[-1] == last:
                break
    assert missed
    assert sorted(told + missed) == list(range(first + 1, last + 1))
    assert told == sorted(told)


def test_a_slow_reader_holds_up_neither_the_manager_nor_other_readers(server: AdminServer, worker: Worker) -> None:
    with server.stub() as slow, server.stub() as quick:
        idle = slow.WatchEvents(watch_pb2.WatchEventsRequest())
        await_watchers(server, 1)
        stream = quick.WatchEvents(watch_pb2.WatchEventsRequest(after_revision=revision(server)))
        await_watchers(server, 2)
        before = revision(server)
        for _ in range(10):
            refuse(worker, 2000)
        assert revisions(stream, 20_000) == list(range(before + 1, before + 20_001))
        assert idle.is_active()


def test_a_reader_that_hangs_up_leaves_nothing_behind(server: AdminServer, worker: Worker) -> None:
    with server.stub() as stub:
        streams = [stub.WatchEvents(watch_pb2.WatchEventsRequest()) for _ in range(5)]
        await_watchers(server, 5)
        streams[0].cancel()
        await_watchers(server, 4)
    await_watchers(server, 0)
    await_streams(server, 0)


def test_a_reader_that_hangs_up_in_the_middle_of_a_long_answer_leaves_nothing_behind(
    server: AdminServer, worker: Worker
) -> None:
    refuse(worker, 60_000)
    with server.stub() as stub:
        stream = stub.WatchEvents(watch_pb2.WatchEventsRequest(after_revision=0))
        next(stream)
        stream.cancel()
    await_watchers(server, 0)
    await_streams(server, 0)


def test_a_manager_that_stops_ends_its_streams_and_says_so(server: AdminServer, worker: Worker) -> None:
    with server.stub() as stub:
        stream = stub.WatchEvents(watch_pb2.WatchEventsRequest())
        await_watchers(server, 1)
        server.on_loop(server.servicer.end_streams)
        with Failing() as ended:
            next(stream)
        with Failing() as refused:
            stub.WatchEvents(watch_pb2.WatchEventsRequest()).next()
    for failed in (ended, refused):
        assert (failed.code, failed.reason) == (grpc.StatusCode.UNAVAILABLE, "ERROR_REASON_NOT_SERVING")
    await_watchers(server, 0)


def test_a_batch_of_events_stays_below_a_mebibyte(server: AdminServer, worker: Worker) -> None:
    refuse(worker, 10_000)
    with server.stub() as stub:
        stream = stub.WatchEvents(watch_pb2.WatchEventsRequest(after_revision=0))
        sizes = [answer.ByteSize() for answer in islice(stream, 5)]
    assert max(sizes) < 1 << 20


def test_an_event_about_very_many_blocks_says_how_many_it_leaves_out() -> None:
    event = Event(EventKind.FLUSHED, blocks=list(range(MOST_BLOCKS + 5)))
    message = event_message(geometry_of(device_blocks=2 * MOST_BLOCKS), event)
    assert len(message.blocks) == MOST_BLOCKS
    assert message.detail == "and 5 more blocks"
    assert message.ByteSize() < 1 << 20


def test_only_events_of_the_pool_asked_for_are_told(server: AdminServer, worker: Worker) -> None:
    other = server.worker(pool="other")
    with server.stub() as stub:
        stream = stub.WatchEvents(watch_pb2.WatchEventsRequest(pool="other"))
        await_watchers(server, 1)
        worker.prefill([1] * 4)
        other.prefill([2] * 4)
        events = (event for answer in stream for event in answer.events.events)
        (event,) = islice(events, 1)
    assert event.executor == other.name
    assert event.kind == event_pb2.EVENT_KIND_EXECUTOR_LIVE


@pytest.mark.parametrize(
    ("request_", "code", "text"),
    [
        ({"after_revision": 10**9}, grpc.StatusCode.OUT_OF_RANGE, "revision 1000000000 is not reached: the pool is at"),
        ({"kinds": [0]}, grpc.StatusCode.INVALID_ARGUMENT, "kinds is 0, but must be a kind of event"),
        ({"kinds": [999]}, grpc.StatusCode.INVALID_ARGUMENT, "kinds is 999"),
        ({"pool": "none"}, grpc.StatusCode.NOT_FOUND, "there is no pool 'none'; there are ['default']"),
    ],
)
def test_a_watch_that_cannot_begin_says_why(
    server: AdminServer, worker: Worker, request_: dict[str, Any], code: grpc.StatusCode, text: str
) -> None:
    with server.stub() as stub, Failing() as refused:
        next(stub.WatchEvents(watch_pb2.WatchEventsRequest(**request_)))
    assert refused.code == code
    assert text in refused.text
    assert watchers(server) == 0


def test_more_streams_than_the_limit_are_refused_until_one_ends(
    server: AdminServer, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "STREAM_LIMIT", 3)
    with server.stub() as stub:
        streams = [stub.WatchEvents(watch_pb2.WatchEventsRequest()) for _ in range(3)]
        await_watchers(server, 3)
        with Failing() as refused:
            next(stub.WatchEvents(watch_pb2.WatchEventsRequest()))
        assert refused.code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refused.text == "3 streams of operators are open, and no more are admitted"
        assert refused.trailers["grpc-retry-pushback-ms"] == "1000"
        streams[0].cancel()
        await_streams(server, 2)
        again = stub.WatchEvents(watch_pb2.WatchEventsRequest(after_revision=0))
        assert next(again).events.events

"""What the event log keeps, and from where on."""

import gc
from dataclasses import replace

import numpy as np
import pytest

from blockmgr.core.columns import Columns
from blockmgr.core.events import Event, EventKind, EventLog
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import Admission, Message, Reply
from blockmgr.core.pool import Pool

GEOMETRY = PoolGeometry(tokens_per_block=4, block_bytes=16, device_blocks=16, max_sequences=4, max_length=64)


def filled(count: int, keep: int) -> EventLog:
    log = EventLog(Columns(GEOMETRY), keep)
    for number in range(count):
        log.add(Event(EventKind.GREW, blocks=[number]))
        log.number(0.0)
        log.publish()
    return log


def test_a_reply_names_the_revision_of_its_own_last_event() -> None:
    replies: list[Reply] = []

    def keep(reply: Reply) -> bytes:
        replies.append(reply)
        return b""

    pool = Pool(GEOMETRY, encode=keep)
    epoch = pool.register("a", bytes(16), [1])
    before = pool.revision
    pool.exchange(Message(epoch, 1, admissions=[Admission(bytes(15) + b"1", np.arange(5, dtype=np.int32))]))
    assert [event.revision for event in pool.state.events.since(before)] == [before + 1, before + 2]
    assert replies[0].revision == pool.revision == before + 2


@pytest.mark.parametrize("after", range(12))
@pytest.mark.parametrize("limit", [None, 1, 3, 100])
def test_events_after_a_revision_are_the_next_ones_that_are_kept(after: int, limit: int | None) -> None:
    log = filled(count=10, keep=6)
    assert log.forgotten == 4
    expected = [revision for revision in range(5, 11) if revision > after][:limit]
    assert [event.revision for event in log.since(after, limit)] == expected


def test_a_log_that_was_taken_up_has_forgotten_what_an_earlier_manager_saw() -> None:
    log = filled(count=3, keep=6)
    successor = EventLog(log_columns(log))
    assert (successor.forgotten, successor.revision, successor.since(0)) == (3, 3, [])


def log_columns(log: EventLog) -> Columns:
    columns = Columns(GEOMETRY)
    columns["pool.revision"].put(0, log.revision)
    return columns


def test_the_last_events_about_a_block_come_oldest_first() -> None:
    log = EventLog(Columns(GEOMETRY))
    for number in range(10):
        log.add(Event(EventKind.GREW, blocks=[number % 2]))
    log.number(0.0)
    log.publish()
    assert [event.revision for event in log.kept().about(block=1, limit=3)] == [6, 8, 10]


def test_an_event_is_kept_with_all_that_it_says() -> None:
    event = Event(EventKind.FINISHED, 5, b"u", "a", [3, 4], 7, "stop")
    log = EventLog(Columns(GEOMETRY))
    log.add(event)
    log.number(12.5)
    published = log.publish()
    kept = replace(event, revision=1, time=12.5)
    assert list(published) == list(log.kept()) == log.since(0) == log.kept()[:] == [kept]


def test_kept_events_are_no_burden_to_the_garbage_collector() -> None:
    log = filled(count=500, keep=500)
    # A tuple within another is let go first, the other one the next time.
    gc.collect()
    gc.collect()
    assert not any(map(gc.is_tracked, log._kept))


def test_what_happened_is_counted() -> None:
    pool = Pool(GEOMETRY, encode=lambda _: b"")
    epoch = pool.register("a", bytes(16), [1])
    message = Message(epoch, 1, admissions=[Admission(bytes(15) + b"1", np.arange(5, dtype=np.int32))])
    pool.exchange(message)
    pool.exchange(message)
    counts = pool.state.counts
    assert (counts.turns, counts.repeated_turns, counts.prompt_tokens, counts.cached_prompt_tokens) == (1, 1, 5, 0)
    assert counts.events[EventKind.ADMITTED] == 1
    assert counts.blocks[EventKind.ADMITTED] == 2

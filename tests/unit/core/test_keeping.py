"""What is kept beyond a sequence's life: pins, and finished requests."""

import numpy as np
import pytest

from blockmgr.core.archive import Archive, FinishedRequest
from blockmgr.core.columns import Columns
from blockmgr.core.errors import InvalidMessage, NotFound, Precondition
from blockmgr.core.geometry import PoolGeometry, slot_of
from blockmgr.core.states import BlockState, FinishReason, SequenceFlags
from tests.unit.core.talk import Talk, Talker, ids


def test_a_pinned_block_is_evicted_neither_by_need_nor_by_hand_until_its_time_is_over() -> None:
    talk = Talk(blocks=4)
    executor = talk.executor()
    executor.cached(ids(8))
    head, tail = talk.pool.coldest()[::-1]
    talk.pool.pin([head], 10.0, "system prompt")
    assert talk.pool.evict([head, tail]) == [tail]
    assert executor.admit(ids(9, 1)).handle == 0
    talk.clock.now += 11
    talk.pool.tick()
    assert executor.admit(ids(9, 1)).handle != 0


def test_a_block_pinned_twice_is_free_to_go_after_both_pins() -> None:
    talk = Talk()
    executor = talk.executor()
    executor.cached(ids(4))
    (block,) = talk.pool.coldest()
    first, second = talk.pool.pin([block], None), talk.pool.pin([block, block], None)
    talk.pool.unpin(first)
    assert talk.pool.coldest() == []
    assert talk.pool.unpin(second) == [block, block]
    assert talk.pool.coldest() == [block]
    with pytest.raises(NotFound):
        talk.pool.unpin(first)


def test_only_complete_blocks_that_exist_can_be_pinned_and_all_or_none() -> None:
    talk = Talk(max_pins=2)
    executor = talk.executor()
    handle = executor.prefilled(ids(14))
    sealed, owned = talk.table(handle)[:3], talk.table(handle)[3]
    before = talk.columns()
    for blocks, error in (
        ([sealed[0], owned], Precondition),
        ([0], Precondition),
        ([-1], InvalidMessage),
        ([40], InvalidMessage),
        ([], InvalidMessage),
        (sealed, Precondition),
    ):
        with pytest.raises(error):
            talk.pool.pin(blocks, None)
        talk.assert_unchanged(before)
    with pytest.raises(InvalidMessage, match="label"):
        talk.pool.pin(sealed[:1], None, "x" * 65)


def test_a_pinned_block_that_nobody_can_hit_is_freed_after_the_pin() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(4), flags=SequenceFlags.NO_STORE)
    (block,) = talk.table(handle)
    pin = talk.pool.pin([block], None)
    executor.finish(handle)
    assert talk.block(block) == BlockState.FENCED
    talk.pool.unpin(pin)
    assert talk.block(block) == BlockState.FREE


def archive(nbytes: int = 4096, rows: int = 8) -> Archive:
    return Archive(Columns(PoolGeometry(4, 1, 4, archive_bytes=nbytes, archive_rows=rows, max_sequences=2)))


def record(tokens: int, finished: float = 0.0, caller: bytes = bytes(16)) -> FinishedRequest:
    return FinishedRequest(
        Talker.uuid(), caller, bytes(16), 1, tokens, FinishReason.STOP, 0.5, 1.0, finished,
        np.arange(tokens, dtype=np.int32), np.zeros(0, dtype=np.float32), b"request",
    )  # fmt: skip


def same(one: FinishedRequest | None, other: FinishedRequest) -> bool:
    return one is not None and one.uuid == other.uuid and one.tokens.tolist() == other.tokens.tolist()


@pytest.mark.parametrize("sizes", [[10], [300], [1, 400, 90, 7], [900], [950, 3]])
def test_the_newest_finished_requests_are_kept_whole_and_the_oldest_overwritten(sizes: list[int]) -> None:
    kept = archive(rows=100)
    records = [record(sizes[n % len(sizes)]) for n in range(60)]
    for done, new in enumerate(records, 1):
        kept.add(new)
        found = [kept.find(old.uuid) is not None for old in records[:done]]
        assert found == sorted(found), "what is kept are the newest, without a gap"
        assert all(same(kept.find(old.uuid), old) for old, is_kept in zip(records, found, strict=False) if is_kept)
        assert len(kept) == sum(found)
        assert found[-1]


def test_a_finished_request_larger_than_the_ring_is_not_kept_and_drops_nothing() -> None:
    kept = archive()
    small = record(10)
    kept.add(small)
    large = record(2000)
    kept.add(large)
    assert kept.find(large.uuid) is None
    assert same(kept.find(small.uuid), small)


def test_rows_run_out_before_bytes_and_the_oldest_goes() -> None:
    kept = archive(rows=3)
    records = [record(1) for _ in range(5)]
    for new in records:
        kept.add(new)
    assert [kept.find(old.uuid) is not None for old in records] == [False, False, True, True, True]


def test_finished_requests_expire() -> None:
    kept = archive()
    old, new = record(1, finished=100.0, caller=b"c" * 16), record(1, finished=150.0)
    kept.add(old)
    kept.add(new)
    assert same(kept.find_caller(b"c" * 16), old)
    assert kept.find_caller(bytes(16)) is None
    assert kept.expire(161.0) == 1
    assert kept.find(old.uuid) is None
    assert kept.find_caller(b"c" * 16) is None
    assert same(kept.find(new.uuid), new)


def test_finished_requests_are_found_again_by_a_new_manager() -> None:
    talk = Talk()
    executor = talk.executor()
    request = executor.admission(ids(4), caller=b"c" * 16)
    executor.finish(executor.send(admissions=[request]).admitted[0].handle)
    talk.restart()
    assert talk.pool.state.archive.find(request.uuid) is not None
    assert talk.pool.state.archive.find_caller(b"c" * 16) is not None


def test_a_finished_request_is_kept_as_long_as_one_that_was_forked_from_it_lives() -> None:
    talk = Talk()
    executor = talk.executor()
    alone = executor.prefilled(ids(5))
    parent = executor.prefilled(ids(6, 1))
    (child,) = executor.fork(parent, 1).handles
    names = [talk.pool.state.sequences.uuid.key(slot_of(handle)) for handle in (alone, parent, child)]
    executor.finish(alone, parent)
    for _ in range(3):
        talk.clock.now += 61
        talk.pool.tick()
        kept = [talk.pool.state.archive.find(name) for name in names]
        assert [one is not None for one in kept] == [False, True, False]
        assert kept[1] is not None
        assert kept[1].tokens.tolist() == ids(6, 1)
    executor.finish(child)
    assert talk.pool.state.archive.find(names[1]) is not None
    talk.clock.now += 122
    talk.pool.tick()
    assert len(talk.pool.state.archive) == 0

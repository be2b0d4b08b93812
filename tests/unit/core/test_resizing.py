"""Pools that grow and shrink while they serve."""

import pytest

from blockmgr.core.errors import InvalidMessage, Precondition
from blockmgr.core.states import BlockState, Refusal, TicketKind
from tests.unit.core.talk import Talk, ids


def beyond(talk: Talk) -> list[BlockState]:
    capacity, base = talk.pool.state.capacity, talk.geometry.host_base
    return [BlockState(state) for state in talk.pool.state.blocks.state.flat[capacity:base].tolist()]


def test_a_pool_grows_up_to_what_it_was_made_for() -> None:
    talk = Talk(blocks=3, max_device_blocks=6)
    executor = talk.executor()
    assert executor.admit(ids(17)).refusal == Refusal.NEVER_FITS
    assert talk.pool.resize(6) == 0
    assert executor.admit(ids(17)).refusal == Refusal.NONE
    for wrong in (1, 7):
        with pytest.raises(InvalidMessage, match=r"2\.\.6"):
            talk.pool.resize(wrong)


def test_what_is_free_or_cached_beyond_the_new_size_goes_at_once() -> None:
    talk = Talk(blocks=12)
    executor = talk.executor()
    executor.cached(ids(30))
    assert talk.pool.resize(4) == 0
    assert set(beyond(talk)) == {BlockState.ABSENT}
    assert talk.pool.state.available() == 3


def test_blocks_in_use_beyond_the_new_size_are_moved_and_then_gone() -> None:
    talk = Talk(blocks=12)
    executor = talk.executor()
    first = executor.prefilled(ids(20))
    second = executor.prefilled(ids(10, 1))
    executor.finish(first)
    assert talk.pool.resize(6) > 0
    before = talk.table(second)
    executor.send()
    assert {ticket.kind for ticket in executor.tickets} == {TicketKind.MOVE}
    executor.copy_everything()
    after = talk.table(second)
    assert len(after) == len(before) == 3
    assert all(block < 6 for block in after)
    assert set(beyond(talk)) == {BlockState.ABSENT}
    assert executor.admit([*ids(10, 1), 5]).cached == 8, "what was indexed still is"


def test_a_shared_block_is_moved_once_for_all_who_name_it_across_executors() -> None:
    talk = Talk(blocks=12)
    one, other = talk.executor("a"), talk.executor("b")
    filler = one.prefilled(ids(20, 7))
    first = one.prefilled(ids(9))
    second = other.admit(ids(9)).handle
    third = one.admit(ids(9)).handle
    one.finish(filler)
    shared = talk.table(first)[:2]
    assert talk.table(second)[:2] == talk.table(third)[:2] == shared
    talk.pool.resize(6)
    assert all(block >= 6 for block in shared)
    for executor in (one, other, one):
        executor.copy_everything()
    tables = [talk.table(handle)[:2] for handle in (first, second, third)]
    assert tables[0] == tables[1] == tables[2]
    assert all(block < 6 for block in tables[0])
    assert talk.pool.state.draining is False


def test_a_moved_block_that_others_were_given_since_is_not_named() -> None:
    talk = Talk(blocks=12)
    one, other = talk.executor("a"), talk.executor("b")
    filler = one.prefilled(ids(20, 7))
    first = one.prefilled(ids(9))
    second = other.admit(ids(9)).handle
    one.finish(filler)
    shared = talk.table(second)[:2]
    talk.pool.resize(6)
    one.copy_everything()
    assert talk.table(first)[:2] != shared
    moved = talk.table(first)[:2]
    one.finish(first)
    talk.pool.evict(talk.pool.coldest())
    thief = one.admit(ids(8, 9))
    assert set(talk.table(thief.handle)) & set(moved)
    one.finish(thief.handle)
    other.send()
    assert not set(talk.table(second)) & set(moved) or talk.table(second)[:2] == shared


def test_shared_partial_blocks_are_moved_for_each_sharer() -> None:
    talk = Talk(blocks=14)
    executor = talk.executor()
    filler = executor.prefilled(ids(28, 7))
    parent = executor.prefilled(ids(6))
    (child,) = executor.fork(parent, 1).handles
    executor.finish(filler)
    talk.pool.resize(8)
    executor.copy_everything()
    tables = [talk.table(parent), talk.table(child)]
    assert all(block < 8 for table in tables for block in table)
    assert talk.refs(tables[0][0]) == 2
    assert tables[0][1] != tables[1][1]
    assert executor.reserve((parent, 7), (child, 7)).tickets == []
    executor.launch((parent, 7), (child, 7))


def test_a_cached_block_whose_fence_opens_after_the_shrink_is_gone() -> None:
    talk = Talk(blocks=8)
    executor = talk.executor()
    handle = executor.prefilled(ids(24))
    executor.launch()
    executor.finish(handle)
    assert talk.pool.resize(4) == 3
    executor.complete()
    assert set(beyond(talk)) == {BlockState.ABSENT}
    assert all(block < 4 for block in talk.pool.coldest())
    assert talk.pool.state.available() == 3


def test_pinned_blocks_stand_in_the_way_of_a_shrink() -> None:
    talk = Talk(blocks=12)
    executor = talk.executor()
    handle = executor.prefilled(ids(24))
    last = max(talk.table(handle))
    pin = talk.pool.pin([last], None)
    before = talk.columns()
    with pytest.raises(Precondition, match="pinned"):
        talk.pool.resize(3)
    talk.assert_unchanged(before)
    talk.pool.unpin(pin)
    talk.pool.resize(last)
    with pytest.raises(Precondition, match="beyond"):
        talk.pool.pin([last], None)


def test_a_pool_that_shrinks_below_what_is_in_use_drains_as_room_appears() -> None:
    talk = Talk(blocks=12)
    executor = talk.executor()
    handles = [executor.prefilled(ids(16, n)) for n in range(2)]
    talk.pool.resize(5)
    executor.send()
    assert talk.pool.state.draining
    assert executor.reserve((handles[1], 17)).short == [handles[1]]
    executor.finish(handles[0])
    executor.copy_everything()
    assert not talk.pool.state.draining
    assert sorted(talk.table(handles[1])) == [1, 2, 3, 4]


def test_growing_again_takes_back_what_is_still_in_use() -> None:
    talk = Talk(blocks=8)
    executor = talk.executor()
    handle = executor.prefilled(ids(24))
    talk.pool.resize(3)
    talk.pool.resize(8)
    executor.finish(handle)
    talk.pool.evict(talk.pool.coldest())
    assert talk.count(BlockState.FREE) == 7
    assert talk.pool.state.draining is False or executor.send().tickets == []

"""Sequences that give up their blocks, and come back to be computed again."""

import pytest

from blockmgr.core.messages import Reply, Want
from blockmgr.core.states import BlockState, Refusal, Residency, SequenceFlags
from tests.unit.core.talk import Talk, Talker, ids, ints


def released(talk: Talk, executor: Talker, handle: int) -> Reply:
    reply = executor.send(release=ints(handle))
    assert reply.swaps_refused == []
    assert talk.column("residency", handle) == Residency.RELEASED
    return reply


def test_what_was_full_stays_to_be_hit_and_the_rest_is_free() -> None:
    talk = Talk(blocks=11)
    executor = talk.executor()
    handle = executor.prefilled(ids(10))
    executor.append(handle, 5)
    released(talk, executor, handle)
    assert talk.table(handle) == []
    assert (talk.count(BlockState.CACHED), talk.count(BlockState.FREE)) == (2, 8)
    reply = executor.send(swap_in=ints(handle))
    (seen,) = reply.looked_again
    assert (seen.handle, seen.cached, seen.awaiting) == (handle, 8, 0)
    assert len(talk.table(handle)) == 3
    assert talk.column("residency", handle) == Residency.DEVICE
    executor.run((handle, 11))


def test_full_blocks_of_its_output_are_hit_as_well_as_those_of_its_prompt() -> None:
    talk = Talk(blocks=11)
    executor = talk.executor()
    handle = executor.prefilled(ids(3))
    executor.append(handle, *range(9))
    executor.reserve((handle, 12))
    executor.run((handle, 11))
    released(talk, executor, handle)
    (seen,) = executor.send(swap_in=ints(handle)).looked_again
    assert seen.cached == 8


def test_what_was_evicted_meanwhile_is_computed_again() -> None:
    talk = Talk(blocks=11)
    executor = talk.executor()
    handle = executor.prefilled(ids(10))
    released(talk, executor, handle)
    talk.pool.evict(talk.pool.coldest())
    (seen,) = executor.send(swap_in=ints(handle)).looked_again
    assert seen.cached == 0
    executor.run((handle, 10))
    assert talk.count(BlockState.SEALED) == 2


def test_it_comes_back_with_room_for_all_its_tokens_or_not_at_all() -> None:
    talk = Talk(blocks=7)
    executor = talk.executor()
    handle = executor.prefilled(ids(14))
    released(talk, executor, handle)
    talk.pool.evict(talk.pool.coldest())
    other = executor.prefilled(ids(14, 1))
    (refused,) = executor.send(swap_in=ints(handle)).swaps_refused
    assert (refused.refusal, refused.needed, refused.available) == (Refusal.POOL_EXHAUSTED, 4, 2)
    assert talk.table(handle) == []
    executor.finish(other)
    assert executor.send(swap_in=ints(handle)).swaps_refused == []


def test_nothing_is_given_up_while_work_is_in_flight() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.admit(ids(6)).handle
    executor.launch((handle, 6))
    (refused,) = executor.send(release=ints(handle)).swaps_refused
    assert refused.refusal == Refusal.BUSY
    assert len(talk.table(handle)) == 2


def test_nobody_waits_for_the_prompt_of_one_that_gave_up_its_blocks() -> None:
    talk = Talk()
    executor = talk.executor()
    prompt = ids(12)
    first = executor.admit(prompt, reserve=4).handle
    second = executor.admit(prompt)
    assert second.awaiting == first
    released(talk, executor, first)
    (seen,) = executor.send(look_again=ints(second.handle)).looked_again
    assert (seen.cached, seen.awaiting) == (0, 0)
    (back,) = executor.send(swap_in=ints(first)).looked_again
    assert back.awaiting == second.handle


def test_its_heir_finds_it_without_blocks_and_without_blame() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(6))
    released(talk, executor, handle)
    talk.pool.bury(executor.epoch)
    heir = talk.executor()
    (adopted,) = talk.pool.adopt(heir.epoch)
    assert talk.column("deaths", adopted.handle) == 0
    assert talk.column("residency", adopted.handle) == Residency.RELEASED
    talk.restart()
    assert talk.column("residency", adopted.handle) == Residency.RELEASED
    (seen,) = heir.send(swap_in=ints(adopted.handle)).looked_again
    assert seen.cached == 4


def test_a_failed_step_leaves_it_as_it_is() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(6))
    released(talk, executor, handle)
    executor.send(failed=True)
    assert talk.column("residency", handle) == Residency.RELEASED


def test_others_hear_of_what_comes_first_of_all_that_waits() -> None:
    talk = Talk()
    one, two, three = (talk.executor(name) for name in "abc")
    early = Want(bytes([1] * 16), 0, 5.0, 3, running=True)
    late = Want(bytes([2] * 16), 0, 9.0, 3, running=True)
    waiting = Want(bytes([3] * 16), 7, 1.0, 3)
    for executor in (one, two, three):
        executor.send()
    assert one.send(want=late).wanted is None
    assert two.send(want=waiting).wanted == late
    assert three.send(want=early).wanted == late
    assert two.send(want=waiting).wanted == early
    assert three.send().wanted == late
    assert one.send().wanted == waiting


def test_wants_of_the_dead_are_not_heard_of() -> None:
    talk = Talk()
    one, two = talk.executor("a"), talk.executor("b")
    one.send(want=Want(bytes([1] * 16)))
    talk.pool.bury(one.epoch)
    assert two.send().wanted is None


def test_who_gets_a_dead_ones_row_does_not_inherit_its_want() -> None:
    talk = Talk()
    one, two = talk.executor("a"), talk.executor("b")
    one.send(want=Want(bytes([1] * 16), running=True))
    row = talk.pool.state.executors.find(one.epoch)
    talk.pool.bury(one.epoch)
    heir = talk.executor("c")
    assert talk.pool.state.executors.find(heir.epoch) == row
    talk.pool.ready(heir.epoch)
    assert two.send().wanted is None


@pytest.mark.parametrize("flags", [SequenceFlags.NO_STORE, SequenceFlags.NO_STORE | SequenceFlags.BYPASS])
def test_what_was_forked_finds_in_its_siblings_table_what_the_cache_does_not_have(flags: SequenceFlags) -> None:
    talk = Talk(blocks=11)
    executor = talk.executor()
    parent = executor.prefilled(ids(14), flags=flags)
    (child,) = executor.fork(parent, 1).handles
    executor.append(child, 5)
    released(talk, executor, child)
    (seen,) = executor.send(swap_in=ints(child)).looked_again
    assert seen.cached == 12
    assert talk.table(child)[:3] == talk.table(parent)[:3]
    assert talk.table(child)[3] != talk.table(parent)[3], "the partial one is its own"
    executor.run((child, 15))


def test_what_was_forked_shares_nothing_that_is_not_of_the_prompt() -> None:
    talk = Talk(blocks=21)
    executor = talk.executor()
    parent = executor.prefilled(ids(6), flags=SequenceFlags.NO_STORE)
    (child,) = executor.fork(parent, 1).handles
    for handle, token in ((parent, 1), (child, 2)):
        executor.append(handle, *[token] * 6)
        executor.reserve((handle, 12))
        executor.copy_everything()
        executor.run((handle, 11))
    released(talk, executor, child)
    (seen,) = executor.send(swap_in=ints(child)).looked_again
    assert seen.cached == 4

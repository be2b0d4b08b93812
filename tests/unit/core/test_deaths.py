"""Executors that die, are fenced, come back, and the sequences that they leave."""

import pytest

from blockmgr.core.errors import NotFound, Precondition
from blockmgr.core.geometry import slot_of
from blockmgr.core.states import BlockState, FinishReason, SequenceState
from tests.unit.core.talk import Talk, Talker, ids, ints


def successor(talk: Talk, dead: Talker) -> Talker:
    talk.pool.fence(dead.epoch, "lease")
    talk.pool.bury(dead.epoch)
    return talk.executor(dead.name)


def test_nothing_of_a_revoked_executor_moves_before_it_is_proven_dead() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.admit(ids(9)).handle
    executor.launch((handle, 9))
    talk.pool.fence(executor.epoch, "lease")
    heir = talk.executor()
    table = talk.table(handle)
    with pytest.raises(Precondition, match="not proven dead"):
        talk.pool.adopt(heir.epoch)
    assert talk.table(handle) == table
    assert [talk.block(block) for block in table] == [BlockState.FILLING, BlockState.FILLING, BlockState.OWNED]
    talk.pool.bury(executor.epoch)
    assert talk.table(handle) == []
    (adopted,) = talk.pool.adopt(heir.epoch)
    assert (adopted.previous, adopted.resume, adopted.tokens) == (handle, 0, 9)


def test_an_heir_goes_on_where_completed_steps_ended_and_the_old_handle_is_stale() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(9))
    executor.append(handle, 50)
    executor.reserve((handle, 11))
    executor.launch((handle, 10))
    heir = successor(talk, executor)
    (adopted,) = talk.pool.adopt(heir.epoch)
    assert (adopted.resume, adopted.tokens) == (9, 10)
    assert adopted.handle != handle
    assert heir.reserve((handle, 20)).stale == [handle]
    assert len(talk.table(adopted.handle)) == 3
    assert talk.pool.adopt(heir.epoch)[0].handle == adopted.handle, "asking again gives the same"
    with pytest.raises(NotFound):
        talk.pool.cancel(handle)


def test_the_last_token_that_is_fed_again_is_not_written_into_a_shared_block() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(8))
    other = executor.admit([*ids(8), 1]).handle
    assert talk.table(other)[:2] == talk.table(handle)
    heir = successor(talk, executor)
    adopted = {a.previous: a for a in talk.pool.adopt(heir.epoch)}[handle]
    assert adopted.resume == 7
    (ticket,) = heir.reserve((adopted.handle, 8)).tickets
    heir.launch((adopted.handle, 8))
    heir.complete((adopted.handle, 8), tickets_done=ints(ticket.id))
    assert talk.table(adopted.handle)[1] == ticket.destination


def test_a_dead_executors_copies_are_given_up_and_its_tables_name_the_sources() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    (child,) = executor.fork(parent, 1).handles
    (ticket,) = executor.reserve((parent, 7), (child, 7)).tickets
    heir = successor(talk, executor)
    assert talk.block(ticket.destination) == BlockState.FREE
    handles = [a.handle for a in talk.pool.adopt(heir.epoch)]
    assert {talk.table(handle)[1] for handle in handles} == {ticket.source}
    assert len(heir.reserve(*((handle, 7) for handle in handles)).tickets) == 1


def test_blocks_that_only_a_dead_executors_step_was_filling_are_no_hits() -> None:
    talk = Talk()
    executor = talk.executor()
    first = executor.admit(ids(9)).handle
    executor.launch((first, 8))
    second = executor.admit(ids(9))
    assert second.cached == 8
    heir = successor(talk, executor)
    assert [a.resume for a in talk.pool.adopt(heir.epoch)] == [0, 0]
    assert heir.admit(ids(9)).cached == 0


def test_a_failed_step_seals_nothing_and_the_reply_says_where_each_goes_on() -> None:
    talk = Talk()
    executor = talk.executor()
    executor.cached(ids(5, 3))
    first = executor.prefilled(ids(4))
    executor.reserve((first, 8))
    executor.append(first, 1, 2, 3, 4)
    second = executor.admit(ids(9, 3)).handle
    executor.launch((first, 8), (second, 9))
    follower = executor.admit([*ids(4), 1, 2, 3, 4, 9])
    assert follower.cached == 8
    reply = executor.send(completed_step=executor.step, failed=True)
    going_on = {look.handle: look.cached for look in reply.looked_again}
    assert going_on == {first: 4, second: 4, follower.handle: 4}
    for update in reply.tables:
        assert (update.first, update.blocks.tolist()) == (1, [])
    assert executor.admit([*ids(4), 1, 2, 3, 4, 9]).cached == 4


def test_orphans_that_nobody_adopts_end_unavailable_and_their_blocks_stay_cached() -> None:
    talk = Talk()
    executor = talk.executor()
    request = executor.admission(ids(9))
    handle = executor.send(admissions=[request]).admitted[0].handle
    executor.run((handle, 9))
    talk.pool.bury(executor.epoch)
    assert talk.pool.end_orphans(executor.epoch) == 1
    kept = talk.pool.state.archive.find(request.uuid)
    assert kept is not None
    assert kept.reason == FinishReason.UNAVAILABLE
    assert talk.count(BlockState.CACHED) == 2
    assert talk.pool.state.executors.rows() == []


def test_another_executor_may_adopt_and_gets_all_or_nothing() -> None:
    talk = Talk()
    first, frozen, heir = talk.executor("a"), talk.executor("b"), talk.executor("c")
    handles = [first.prefilled(ids(5)), frozen.prefilled(ids(5, 1))]
    talk.pool.bury(first.epoch)
    talk.pool.fence(frozen.epoch, "lease")
    with pytest.raises(Precondition):
        talk.pool.adopt(heir.epoch, ["a", "b"])
    assert talk.pool.state.sequences.by_owner.get(2, set()) == set()
    talk.pool.bury(frozen.epoch)
    assert [a.previous for a in talk.pool.adopt(heir.epoch, ["a", "b"])] == handles


def test_wishes_reach_the_heir() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(5))
    talk.pool.bury(executor.epoch)
    talk.pool.set_final_length(handle, 5)
    heir = talk.executor()
    (adopted,) = talk.pool.adopt(heir.epoch)
    assert heir.send().final_lengths == [(adopted.handle, 5)]
    talk.pool.cancel(adopted.handle)
    talk.pool.bury(heir.epoch)
    next_heir = talk.executor()
    (adopted,) = talk.pool.adopt(next_heir.epoch)
    assert next_heir.send().cancel == [adopted.handle]


def test_a_cancelled_orphan_ends_at_once() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(5))
    talk.pool.bury(executor.epoch)
    assert talk.pool.cancel(handle)
    assert talk.live() == 0
    assert talk.pool.state.executors.rows() == []


def test_deaths_without_progress_are_counted_and_progress_forgives_them() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(5))
    suspects = []
    for progress in (False, False, True, False):
        if progress:
            executor.append(handle, 7)
        executor = successor(talk, executor)
        (adopted,) = talk.pool.adopt(executor.epoch)
        handle = adopted.handle
        suspects.append(adopted.suspect)
    assert suspects == [False, True, False, True]


def test_what_kills_alone_ends_internal_and_its_neighbours_live() -> None:
    talk = Talk()
    executor = talk.executor()
    request = executor.admission(ids(5))
    killer = executor.send(admissions=[request]).admitted[0].handle
    neighbour = executor.prefilled(ids(5, 1))
    executor.send(solo=killer)
    talk.pool.bury(executor.epoch)
    kept = talk.pool.state.archive.find(request.uuid)
    assert kept is not None
    assert kept.reason == FinishReason.INTERNAL
    assert talk.pool.state.sequences.state.get(slot_of(neighbour)) == SequenceState.ORPHANED


def test_a_row_that_a_dead_executor_left_serves_the_next_without_its_past() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(5))
    talk.pool.cancel(handle)
    executor.launch()
    talk.pool.bury(executor.epoch)
    talk.pool.end_orphans(executor.epoch)
    other = talk.executor("b")
    reply = other.send()
    assert (reply.cancel, reply.stale) == ([], [])
    assert talk.pool.state.executors.launched.get(0) == 0


def test_any_number_of_orphans_ends_however_small_a_transaction_is() -> None:
    talk = Talk(blocks=200, max_sequences=150)
    executor = talk.executor()
    executor.admit_all([ids(3, n) for n in range(130)])
    talk.pool.bury(executor.epoch)
    assert talk.pool.end_orphans(executor.epoch) == 130
    assert (talk.live(), talk.pool.state.executors.rows()) == (0, [])
    assert talk.pool.state.available() == 199


def test_orphans_whose_executor_is_not_proven_dead_do_not_end() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(5))
    talk.pool.fence(executor.epoch, "lease")
    with pytest.raises(Precondition, match="not proven dead"):
        talk.pool.end_orphans(executor.epoch)
    assert talk.column("count", handle) == 5


def test_a_copy_for_a_block_that_a_failed_step_cut_off_ends_in_nobodys_table() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.admit(ids(6)).handle
    executor.run((parent, 4))
    executor.launch((parent, 6))
    (child,) = executor.fork(parent, 1).handles
    (ticket,) = executor.reserve((parent, 7), (child, 7)).tickets
    executor.send(completed_step=executor.step, failed=True)
    assert (len(talk.table(parent)), len(talk.table(child))) == (1, 1)
    executor.send(tickets_done=ints(ticket.id))
    assert (len(talk.table(parent)), len(talk.table(child))) == (1, 1)
    assert [talk.block(block) for block in (ticket.source, ticket.destination)] == [BlockState.FREE] * 2

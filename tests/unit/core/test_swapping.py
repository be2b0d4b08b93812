"""Two tiers: sequences that make room and come back, and cached blocks copied ahead of need."""

import pytest

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.messages import Progress, Reply
from blockmgr.core.states import BlockState, Refusal, Residency, TicketKind
from tests.unit.core.talk import Talk, Talker, ids, ints


def swapped(talk: Talk, executor: Talker, handle: int) -> Reply:
    reply = executor.send(swap_out=ints(handle))
    assert reply.swaps_refused == []
    executor.send(tickets_done=ints(*(ticket.id for ticket in reply.tickets)))
    assert talk.column("residency", handle) == Residency.HOST
    return reply


def back(talk: Talk, executor: Talker, handle: int) -> Reply:
    reply = executor.send(swap_in=ints(handle))
    assert reply.swaps_refused == []
    executor.send(tickets_done=ints(*(ticket.id for ticket in reply.tickets)))
    assert talk.column("residency", handle) == Residency.DEVICE
    return reply


def test_a_preempted_sequence_comes_back_with_a_table_that_replaces_the_old_one() -> None:
    talk = Talk(blocks=11, host_blocks=8)
    executor = talk.executor()
    one, two = executor.prefilled(ids(18)), executor.prefilled(ids(18, 1))
    executor.append(two, 7)
    assert executor.reserve((one, 25)).short == [one]
    swapped(talk, executor, two)
    assert executor.reserve((one, 25)).short == []
    executor.finish(one)
    reply = back(talk, executor, two)
    (update,) = [u for u in reply.tables if u.handle == two]
    assert update.first == 0
    table = update.blocks.tolist()
    assert len(table) == 5
    for ticket in reply.tickets:
        table[ticket.index] = ticket.destination
    assert table == talk.table(two)
    assert talk.column("computed", two) == 18


def test_the_source_is_the_truth_until_a_copy_is_done_in_both_directions() -> None:
    talk = Talk(host_blocks=8)
    executor = talk.executor()
    handle = executor.prefilled(ids(6))
    before = talk.table(handle)
    out = executor.send(swap_out=ints(handle))
    assert talk.table(handle) == before
    executor.send(tickets_done=ints(out.tickets[1].id))
    assert [block >= 40 for block in talk.table(handle)] == [False, True]
    talk.pool.bury(executor.epoch)
    heir = talk.executor()
    talk.pool.adopt(heir.epoch)
    handle = talk.pool.state.sequences.handle(handle & 0xFFFFF)
    assert talk.column("residency", handle) == Residency.HOST
    assert talk.column("computed", handle) == 5, "the last recorded token is fed again"
    reply = heir.send(swap_in=ints(handle))
    assert [ticket.index for ticket in reply.tickets] == [1]
    assert [block >= 40 for block in talk.table(handle)] == [False, True]


def test_nothing_is_launched_for_a_sequence_that_is_away() -> None:
    talk = Talk(host_blocks=8)
    executor = talk.executor()
    handle = executor.prefilled(ids(6))
    executor.send(swap_out=ints(handle))
    executor.append(handle, 3)
    assert executor.reserve((handle, 7)).short == [handle]
    with pytest.raises(InvalidMessage, match="not back on the device"):
        executor.send(progress=Progress(ints(handle), ints(7), ints(6)))


def test_a_sequence_with_work_in_flight_is_not_swapped_out() -> None:
    talk = Talk(host_blocks=8)
    executor = talk.executor()
    handle = executor.admit(ids(6)).handle
    executor.launch((handle, 6))
    (refused,) = executor.send(swap_out=ints(handle)).swaps_refused
    assert refused.refusal == Refusal.BUSY


@pytest.mark.parametrize("host_blocks", [0, 1, 4])
def test_swapping_more_than_the_host_holds_is_refused_and_takes_nothing(host_blocks: int) -> None:
    talk = Talk(blocks=9, host_blocks=host_blocks)
    executor = talk.executor()
    handles = [executor.prefilled(ids(6, n)) for n in range(4)]
    away = 0
    for handle in handles:
        before = (talk.table(handle), talk.pool.state.available())
        reply = executor.send(swap_out=ints(handle))
        executor.send(tickets_done=ints(*(ticket.id for ticket in reply.tickets)))
        if reply.swaps_refused:
            assert reply.swaps_refused[0].refusal == Refusal.HOST_EXHAUSTED
            assert (talk.table(handle), talk.pool.state.available()) == before
        else:
            away += 1
    assert away == host_blocks // 2
    executor.finish(*handles)
    talk.pool.evict(talk.pool.coldest())
    talk.pool.evict(talk.pool.coldest(host=True))
    assert talk.count(BlockState.FREE) == 8 + host_blocks


def test_a_sequence_comes_back_whole_or_not_at_all() -> None:
    talk = Talk(blocks=7, host_blocks=8)
    executor = talk.executor()
    handle = executor.prefilled(ids(14))
    swapped(talk, executor, handle)
    talk.pool.evict(talk.pool.coldest())
    executor.prefilled(ids(14, 1))
    before = talk.table(handle)
    (refused,) = executor.send(swap_in=ints(handle)).swaps_refused
    assert (refused.refusal, refused.needed, refused.available) == (Refusal.POOL_EXHAUSTED, 4, 2)
    assert talk.table(handle) == before


def test_what_the_other_tier_holds_already_is_named_and_not_copied() -> None:
    talk = Talk(host_blocks=8)
    executor = talk.executor()
    handle = executor.prefilled(ids(10))
    swapped(talk, executor, handle)
    reply = back(talk, executor, handle)
    # The full blocks were still cached on the device.
    assert [ticket.index for ticket in reply.tickets] == [2]
    out = executor.send(swap_out=ints(handle))
    assert [ticket.index for ticket in out.tickets] == [2]


def test_a_copy_of_a_partial_block_is_not_labelled_with_what_a_sibling_wrote_into_the_source() -> None:
    talk = Talk(host_blocks=8)
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    (child,) = executor.fork(parent, 1).handles
    out = executor.send(swap_out=ints(parent))
    assert executor.reserve((child, 8)).tickets == [], "the parent leaves, so the child writes in place"
    executor.append(child, 50, 51)
    executor.run((child, 8))
    assert talk.block(talk.table(child)[1]) == BlockState.SEALED
    executor.send(tickets_done=ints(*(ticket.id for ticket in out.tickets)))
    away = talk.table(parent)[1]
    assert talk.block(away) == BlockState.OWNED
    assert not talk.pool.columns["block.indexed"].get(away)


def test_a_prompt_hits_the_host_and_its_blocks_come_back_by_tickets() -> None:
    talk = Talk(blocks=6, host_blocks=8)
    executor = talk.executor()
    executor.cached(ids(9))
    reply = executor.send(demote=2)
    assert [ticket.kind for ticket in reply.tickets] == [TicketKind.DEMOTE] * 2
    executor.send(tickets_done=ints(*(ticket.id for ticket in reply.tickets)))
    talk.pool.evict(talk.pool.coldest())
    reply = executor.send(admissions=[executor.admission(ids(9))])
    assert reply.admitted[0].cached == 8
    assert [ticket.kind for ticket in reply.tickets] == [TicketKind.SWAP_IN] * 2
    assert reply.tables[0].blocks.tolist()[:2] == [0, 0]
    handle = reply.admitted[0].handle
    executor.launch((handle, 9))
    executor.complete((handle, 9), tickets_done=ints(*(ticket.id for ticket in reply.tickets)))
    assert all(block < 6 for block in talk.table(handle))
    assert [talk.block(block) for block in talk.table(handle)[:2]] == [BlockState.SEALED] * 2


def test_a_demoted_block_may_be_hit_meanwhile_and_is_not_evicted_before_the_copy_is_done() -> None:
    talk = Talk(blocks=6, host_blocks=8)
    executor = talk.executor()
    executor.cached(ids(9))
    (ticket,) = executor.send(demote=1).tickets
    assert ticket.source not in talk.pool.coldest()
    handle = executor.admit(ids(9)).handle
    assert ticket.source in talk.table(handle)
    executor.send(tickets_done=ints(ticket.id))
    assert talk.block(talk.geometry.host_base + ticket.destination) == BlockState.CACHED


def test_a_full_host_tier_takes_only_what_was_used_later_than_what_it_holds() -> None:
    talk = Talk(blocks=12, host_blocks=1)
    executor = talk.executor()
    executor.cached(ids(4))
    executor.copy_everything()
    (ticket,) = executor.send(demote=1).tickets
    executor.send(tickets_done=ints(ticket.id))
    executor.cached(ids(4, 1))
    talk.pool.evict([ticket.source])
    (ticket,) = executor.send(demote=1).tickets
    executor.send(tickets_done=ints(ticket.id))
    assert executor.send(demote=1).tickets == []
    assert talk.block(talk.geometry.host_base) == BlockState.CACHED


def test_demotion_evicts_nothing_younger_and_leaves_the_block_the_first_to_go() -> None:
    talk = Talk(blocks=12, host_blocks=1)
    executor = talk.executor()
    executor.cached(ids(8))
    executor.cached(ids(8, 1))
    cold = talk.pool.coldest()
    reply = executor.send(demote=3)
    assert [ticket.source for ticket in reply.tickets] == cold[:1]
    executor.send(tickets_done=ints(reply.tickets[0].id))
    assert talk.pool.coldest() == cold
    assert executor.send(demote=3).tickets == []


def test_a_demotion_in_flight_when_the_pool_is_relabelled_leaves_nothing() -> None:
    talk = Talk(host_blocks=4)
    executor = talk.executor()
    executor.cached(ids(9))
    reply = executor.send(demote=2)
    talk.pool.relabel(b"w" * 16)
    executor.send(tickets_done=ints(*(ticket.id for ticket in reply.tickets)))
    assert talk.count(BlockState.FREE) == 39 + 4


def test_blocks_that_a_returning_sequence_will_name_again_are_no_room_for_the_rest_of_it() -> None:
    talk = Talk(blocks=4, host_blocks=8)
    executor = talk.executor()
    handle = executor.prefilled(ids(10))
    swapped(talk, executor, handle)
    other = executor.prefilled(ids(3, 1))
    assert (talk.count(BlockState.CACHED), talk.pool.state.available()) == (2, 2)
    (refused,) = executor.send(swap_in=ints(handle)).swaps_refused
    assert (refused.refusal, refused.needed, refused.available) == (Refusal.POOL_EXHAUSTED, 1, 0)
    executor.finish(other)
    back(talk, executor, handle)


def test_one_that_went_with_nothing_computed_comes_back_though_a_step_failed_meanwhile() -> None:
    talk = Talk(host_blocks=8)
    executor = talk.executor()
    handle = executor.admit(ids(6)).handle
    swapped(talk, executor, handle)
    assert talk.table(handle) == []
    executor.send(failed=True)
    back(talk, executor, handle)
    assert len(talk.table(handle)) == 2

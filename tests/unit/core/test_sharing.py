"""Blocks that several sequences name, and what happens when one of them writes."""

import numpy as np
import pytest

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.messages import Child, Fork, Progress, Reorder, Reply
from blockmgr.core.states import BlockState, Refusal, TicketKind
from tests.unit.core.talk import Talk, Talker, ids, ints


def reorder(executor: Talker, handles: list[int], parents: list[int], tokens: list[int]) -> Reply:
    return executor.send(reorders=[Reorder(ints(*handles), ints(*parents), ints(*tokens), np.zeros(len(handles)))])


def sampled(talk: Talk, length: int, children: int) -> tuple[Talker, int, list[int]]:
    executor = talk.executor()
    parent = executor.prefilled(ids(length))
    return executor, parent, executor.fork(parent, children).handles


def test_eight_samples_of_a_thousand_tokens_share_all_but_their_own_blocks() -> None:
    talk = Talk(blocks=200, size=16, max_length=2048)
    executor = talk.executor()
    parent = executor.prefilled(ids(1000))
    handles = [parent, *executor.fork(parent, 7).handles]
    free = talk.count(BlockState.FREE)
    assert 199 - free == 63
    executor.reserve(*((handle, 1016) for handle in handles))
    # 62 full blocks are shared; each has a partial one of its own and one more.
    assert 199 - talk.count(BlockState.FREE) <= 62 + 8 * 2


def test_children_copy_nothing_and_the_partial_block_is_copied_before_it_is_written() -> None:
    talk = Talk()
    executor, parent, children = sampled(talk, 6, 2)
    family = [parent, *children]
    assert len({tuple(talk.table(handle)) for handle in family}) == 1
    shared = talk.table(parent)[1]
    assert talk.refs(shared) == 3
    with pytest.raises(InvalidMessage, match="reserve first"):
        executor.launch((parent, 7))
    executor.step -= 1
    reply = executor.reserve(*((handle, 7) for handle in family))
    # The last to ask writes in place: the others leave.
    assert [(t.kind, t.handle, t.source) for t in reply.tickets] == [
        (TicketKind.COPY_ON_WRITE, parent, shared),
        (TicketKind.COPY_ON_WRITE, children[0], shared),
    ]
    assert talk.table(parent)[1] == shared, "the table keeps the source until the copy is done"
    executor.launch(*((handle, 7) for handle in family))
    executor.send(tickets_done=ints(*(ticket.id for ticket in reply.tickets)))
    assert len({talk.table(handle)[1] for handle in family}) == 3
    assert len({talk.table(handle)[0] for handle in family}) == 1


def test_a_full_block_is_never_copied() -> None:
    talk = Talk()
    executor, parent, children = sampled(talk, 8, 3)
    reply = executor.reserve((parent, 9), *((child, 9) for child in children))
    assert reply.tickets == []
    assert len({talk.table(handle)[2] for handle in [parent, *children]}) == 4


def test_the_last_of_the_sharers_writes_in_place() -> None:
    talk = Talk()
    executor, parent, (child,) = sampled(talk, 6, 1)
    executor.finish(child)
    reply = executor.reserve((parent, 7))
    assert reply.tickets == []
    executor.launch((parent, 7))


def test_a_sharer_whose_copy_is_late_may_still_copy_a_block_that_its_sibling_sealed() -> None:
    talk = Talk()
    executor, parent, (child,) = sampled(talk, 6, 1)
    reply = executor.reserve((parent, 7), (child, 7))
    (ticket,) = reply.tickets
    executor.append(child, 50, 51)
    executor.run((child, 8))
    assert talk.block(ticket.source) == BlockState.SEALED
    executor.append(parent, 60, 61)
    executor.launch((parent, 8))
    assert talk.column("published", parent) == 1, "its copy is not done, so what its table names is another's"
    executor.complete((parent, 8), tickets_done=ints(ticket.id))
    assert talk.table(parent)[1] == ticket.destination
    assert talk.block(ticket.destination) == BlockState.SEALED
    assert talk.column("published", parent) == 2
    keys = {talk.pool.columns["block.hash"].key(block) for block in (ticket.source, ticket.destination)}
    assert len(keys) == 2


def test_a_fork_with_too_few_slots_makes_no_child() -> None:
    talk = Talk(blocks=5, size=16, max_sequences=4)
    executor = talk.executor()
    parent = executor.prefilled(ids(48))
    before = talk.columns()
    refused = executor.fork(parent, 7)
    assert (refused.refusal, refused.handles, refused.needed, refused.available) == (Refusal.NO_SLOTS, [], 7, 3)
    assert talk.live() == 1
    assert talk.columns()["block.refs"] == before["block.refs"]


def test_children_that_cannot_grow_are_short_and_take_nothing() -> None:
    talk = Talk(blocks=5, size=16)
    executor = talk.executor()
    parent = executor.prefilled(ids(47))
    children = executor.fork(parent, 7).handles
    reply = executor.reserve(*((handle, 48) for handle in [parent, *children]))
    assert len(reply.tickets) == 1
    assert len(reply.short) == 7
    assert talk.live() == 8


def test_a_fork_that_comes_again_gets_the_same_children() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    fork = Fork(parent, [Child(Talker.uuid()), Child(Talker.uuid())])
    first = executor.send(forks=[fork]).forked[0]
    again = executor.send(forks=[fork]).forked[0]
    assert again.handles == first.handles
    assert executor.send(forks=[Fork(parent, [fork.children[0]])]).forked[0].handles == first.handles[:1]
    mixed = Fork(parent, [fork.children[0], Child(Talker.uuid())])
    assert executor.send(forks=[mixed]).forked[0].refusal == Refusal.DUPLICATE
    assert talk.live() == 3


def test_a_child_shares_no_position_whose_token_is_not_recorded() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.prefilled(ids(4))
    executor.reserve((parent, 8))
    executor.launch((parent, 6))
    (child,) = executor.fork(parent, 1).handles
    assert talk.column("launched", parent) == 6
    assert talk.column("launched", child) == talk.column("count", child) == 4
    assert talk.table(child) == talk.table(parent)[:1]


def test_a_child_does_not_end_where_its_parent_was_told_to() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    talk.pool.set_final_length(parent, 9)
    (child,) = executor.fork(parent, 1).handles
    assert (talk.column("final", parent), talk.column("final", child)) == (9, -1)


@pytest.mark.parametrize("length", [8, 9, 11, 16])
def test_beams_that_change_places_share_full_blocks_and_copy_partial_ones_once(length: int) -> None:
    talk = Talk()
    executor, first, children = sampled(talk, length, 3)
    beams = [first, *children]
    executor.reserve(*((beam, length + 1) for beam in beams))
    executor.send(tickets_done=ints(*pending(talk)))
    reorder(executor, beams, [0, 1, 2, 3], [1, 2, 3, 4])
    executor.run(*((beam, length + 1) for beam in beams))
    before = [talk.table(beam) for beam in beams]
    reorder(executor, beams, [2, 2, 0, 2], [5, 6, 7, 8])
    written = talk.geometry.blocks_for(length + 1)
    for beam, parent in zip(beams, [2, 2, 0, 2], strict=True):
        assert talk.table(beam)[:written] == before[parent][:written]
        tokens = talk.pool.state.sequences.tokens.row(beam & 0xFFFFF, length + 2).tolist()
        assert tokens[length:] == [[3, 5], [3, 6], [1, 7], [3, 8]][beams.index(beam)]
    # Nobody goes on from beams 1 and 3.
    lost = {before[1][written - 1], before[3][written - 1]}
    assert all(talk.refs(block) == 0 for block in lost)
    partial = (length + 1) % 4 != 0
    reply = executor.reserve(*((beam, length + 2) for beam in beams))
    assert len(reply.tickets) == (2 if partial else 0)


def pending(talk: Talk) -> list[int]:
    tickets = talk.pool.state.tickets
    return [tickets.id.get(destination) for destination in sorted(tickets.rows)]


def test_beams_move_only_when_they_are_level_and_nothing_is_being_copied() -> None:
    talk = Talk()
    executor, first, (second, third) = sampled(talk, 6, 2)
    other = executor.prefilled(ids(6, 3))
    before = talk.columns()
    for handles in ([first, other], [first, first], [first, 1 << 40]):
        with pytest.raises(InvalidMessage):
            reorder(executor, handles, [0, 1], [1, 2])
        talk.assert_unchanged(before)
    executor.reserve((first, 7), (second, 7), (third, 7))
    with pytest.raises(InvalidMessage, match="copies"):
        reorder(executor, [first, second, third], [0, 1, 2], [1, 2, 3])


def test_beams_do_not_move_over_a_position_whose_token_is_not_recorded() -> None:
    talk = Talk()
    executor, first, (second,) = sampled(talk, 8, 1)
    executor.reserve((first, 9), (second, 9))
    executor.launch((first, 9), (second, 9))
    with pytest.raises(InvalidMessage, match="append first"):
        reorder(executor, [first, second], [1, 1], [1, 2])


def test_a_list_of_copies_never_chains_and_names_no_destination_twice() -> None:
    talk = Talk(blocks=60, max_device_blocks=60, host_blocks=20)
    executor = talk.executor()
    parents = [executor.prefilled(ids(6, n)) for n in range(4)]
    children = [child for parent in parents for child in executor.fork(parent, 2).handles]
    everyone = [*parents, *children]
    sources: set[int] = set()
    destinations: set[int] = set()
    for length in (7, 8, 9):
        reply = executor.reserve(*((handle, length) for handle in everyone))
        froms, tos = [t.source for t in reply.tickets], [t.destination for t in reply.tickets]
        assert len(set(tos)) == len(tos)
        assert not set(froms) & set(tos)
        sources |= set(froms)
        destinations |= set(tos)
        executor.send(
            progress=Progress(ints(*everyone), np.full(12, length), np.full(12, 6)),
            tickets_done=ints(*(t.id for t in reply.tickets)),
        )
    assert sources
    assert not sources & destinations

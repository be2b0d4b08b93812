"""Messages: each handled once, in order, whole or not at all."""

import pickle

import pytest

from blockmgr.core.errors import AlreadyExists, InvalidMessage, MessageOutOfOrder, Precondition, StaleEpoch
from blockmgr.core.geometry import slot_of
from blockmgr.core.messages import Appends, Message, Progress, Reservations
from blockmgr.core.states import BlockState, FinishReason, Refusal, TicketKind
from tests.unit.core.talk import Talk, Talker, ids, ints


def test_a_message_that_comes_again_gets_the_same_bytes_and_changes_nothing() -> None:
    talk = Talk(host_blocks=8)
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    message = executor.message(
        admissions=[executor.admission(ids(9, 2))], reservations=Reservations(ints(parent), ints(9), ints(4))
    )
    data = talk.pool.exchange(message)
    before = talk.columns()
    assert talk.pool.exchange(message) == data
    talk.assert_unchanged(before)
    talk.restart()
    before = talk.columns()
    assert talk.pool.exchange(message) == data, "after a restart, too"
    talk.assert_unchanged(before)


def test_a_message_out_of_order_is_refused() -> None:
    talk = Talk()
    executor = talk.executor()
    executor.send()
    executor.send()
    before = talk.columns()
    for number in (0, 1, 4, -1):
        with pytest.raises(MessageOutOfOrder, match="send 2 again or 3"):
            talk.pool.exchange(Message(executor.epoch, number))
        talk.assert_unchanged(before)


def test_a_stale_epoch_changes_nothing() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(9))
    talk.pool.fence(executor.epoch, "frozen")
    before = talk.columns()
    with pytest.raises(StaleEpoch):
        executor.finish(handle)
    talk.assert_unchanged(before)


def test_what_is_said_of_a_stale_handle_changes_nothing_and_spares_the_neighbours() -> None:
    talk = Talk()
    executor, other = talk.executor("a"), talk.executor("b")
    gone, mine = executor.prefilled(ids(6)), executor.prefilled(ids(6, 1))
    theirs = other.prefilled(ids(6, 2))
    executor.finish(gone)
    table = talk.table(theirs)
    reply = executor.reserve((gone, 30), (theirs, 30), (mine, 7))
    assert reply.stale == [gone, theirs]
    assert executor.finish(gone, theirs, 1 << 50).stale == [gone, theirs, 1 << 50]
    assert executor.send(progress=Progress(ints(theirs), ints(99), ints(99))).stale == [theirs]
    assert talk.table(theirs) == table


def test_a_sequence_that_is_finished_twice_in_a_message_is_finished_once() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(6))
    assert executor.finish(handle, handle).stale == [handle]
    assert talk.pool.state.available() == 39


def test_copies_reported_twice_late_or_by_another_executor_change_nothing() -> None:
    talk = Talk()
    executor, other = talk.executor("a"), talk.executor("b")
    parent = executor.prefilled(ids(6))
    (child,) = executor.fork(parent, 1).handles
    (ticket,) = executor.reserve((parent, 7), (child, 7)).tickets
    other.send(tickets_done=ints(ticket.id))
    assert talk.block(ticket.destination) == BlockState.TARGET
    executor.send(tickets_done=ints(ticket.id, ticket.id))
    assert talk.table(parent)[1] == ticket.destination
    table, refs = talk.table(parent), talk.pool.columns["block.refs"].flat.copy()
    executor.send(tickets_done=ints(ticket.id, 0, -1, 1 << 60))
    assert talk.table(parent) == table
    assert (talk.pool.columns["block.refs"].flat == refs).all()


def test_a_copy_for_a_sequence_that_has_ended_keeps_its_blocks_until_it_is_done() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    (child,) = executor.fork(parent, 1).handles
    (ticket,) = executor.reserve((parent, 7), (child, 7)).tickets
    executor.finish(parent, child)
    assert [talk.block(b) for b in (ticket.source, ticket.destination)] == [BlockState.FENCED, BlockState.TARGET]
    executor.send(tickets_done=ints(ticket.id))
    assert [talk.block(b) for b in (ticket.source, ticket.destination)] == [BlockState.FREE] * 2


def test_a_refused_message_gives_back_what_it_took_and_its_number() -> None:
    talk = Talk(host_blocks=8)
    executor = talk.executor()
    handle = executor.prefilled(ids(6))
    executor.cached(ids(9, 4))
    bad = executor.message(
        launched_step=9,
        completed_step=9,
        reservations=Reservations(ints(handle), ints(20), ints(0)),
        admissions=[executor.admission(ids(30, 2)), executor.admission(ids(2), uuid=b"short")],
    )
    before, counted = talk.columns(), talk.pool.state.counts.tokens()
    with pytest.raises(InvalidMessage, match="uuid"):
        executor.send(bad)
    talk.assert_unchanged(before)
    assert talk.pool.state.counts.tokens() == counted
    assert executor.admit(ids(30, 2)).refusal == Refusal.NONE


def test_fences_that_a_refused_message_opened_are_closed_again_and_open_later() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(6))
    executor.reserve((handle, 7))
    executor.launch((handle, 7))
    executor.finish(handle)
    assert talk.count(BlockState.FENCED) == 1
    with pytest.raises(InvalidMessage):
        executor.send(completed_step=executor.step, admissions=[executor.admission(ids(2), uuid=b"short")])
    talk.verify()
    assert talk.count(BlockState.FENCED) == 1
    executor.send(completed_step=executor.step)
    assert talk.count(BlockState.FENCED) == 0


def test_a_reply_that_is_too_large_to_keep_is_refused_whole() -> None:
    talk = Talk(reply_bytes=4096)
    executor = talk.executor()
    before = talk.columns()
    with pytest.raises(InvalidMessage, match="ask for less"):
        executor.send(admissions=[executor.admission(ids(4, n)) for n in range(200)])
    talk.assert_unchanged(before)
    assert executor.admit(ids(4)).refusal == Refusal.NONE


def test_no_handle_is_the_number_that_stands_for_none() -> None:
    talk = Talk()
    executor = talk.executor()
    first, second = executor.admit_all([ids(13), ids(13)])
    assert 0 not in (first.handle, second.handle)
    assert second.awaiting == first.handle


def test_a_request_is_admitted_once_whoever_asks_again() -> None:
    talk = Talk()
    one, other = talk.executor("a"), talk.executor("b")
    request = one.admission(ids(9), caller=b"c" * 16, body=b"b" * 16)
    handle = one.send(admissions=[request]).admitted[0].handle
    again = one.send(admissions=[request])
    assert again.admitted[0].handle == handle
    assert again.tables[0].blocks.tolist() == talk.table(handle)
    assert other.send(admissions=[request]).admitted[0].refusal == Refusal.DUPLICATE
    renamed = one.admission(ids(9), caller=b"c" * 16, body=b"b" * 16)
    assert one.send(admissions=[renamed]).admitted[0].refusal == Refusal.DUPLICATE
    changed = one.admission(ids(9), uuid=request.uuid, caller=b"c" * 16, body=b"x" * 16)
    assert one.send(admissions=[changed]).admitted[0].refusal == Refusal.BODY_MISMATCH
    assert talk.live() == 1
    one.finish(handle)
    assert one.send(admissions=[request]).admitted[0].refusal == Refusal.DUPLICATE
    assert other.send(admissions=[renamed]).admitted[0].refusal == Refusal.DUPLICATE
    assert one.send(admissions=[changed]).admitted[0].refusal == Refusal.BODY_MISMATCH
    talk.clock.now += 1000
    talk.pool.tick()
    assert one.send(admissions=[renamed]).admitted[0].refusal == Refusal.NONE


def test_a_cancel_with_a_stale_attachment_number_cancels_nothing() -> None:
    talk = Talk()
    executor = talk.executor()
    request = executor.admission(ids(6))
    executor.send(admissions=[request])
    handle, first = talk.pool.attach(request.uuid)
    _, second = talk.pool.attach(request.uuid)
    assert not talk.pool.cancel(handle, first)
    assert executor.send().cancel == []
    assert talk.pool.cancel(handle, second)
    assert talk.pool.cancel(handle)
    assert executor.send().cancel == [handle]
    assert executor.send().cancel == []


def test_the_smaller_final_length_wins_and_is_told_once() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(6))
    assert talk.pool.set_final_length(handle, 9) == 9
    assert talk.pool.set_final_length(handle, 11) == 9
    assert talk.pool.set_final_length(handle, 2) == 6
    assert executor.send().final_lengths == [(handle, 6)]
    assert executor.send().final_lengths == []


def test_nothing_new_is_admitted_while_draining() -> None:
    talk = Talk()
    one, other = talk.executor("a"), talk.executor("b")
    talk.pool.drain(True, one.epoch)
    assert one.admit(ids(3)).refusal == Refusal.DRAINING
    assert one.send().drain
    assert other.admit(ids(3)).refusal == Refusal.NONE
    talk.pool.drain(True)
    assert other.admit(ids(3)).refusal == Refusal.DRAINING
    talk.pool.drain(False)
    assert other.admit(ids(3)).refusal == Refusal.NONE


def test_a_name_belongs_to_one_living_instance_and_places_run_out_with_an_error() -> None:
    talk = Talk()
    epoch = talk.pool.register("a", b"1" * 16, [1])
    assert talk.pool.register("a", b"1" * 16, [1]) == epoch
    with pytest.raises(AlreadyExists):
        talk.pool.register("a", b"2" * 16, [1])
    for name in "bcd":
        talk.pool.register(name, b"3" * 16, [1])
    before = talk.columns()
    with pytest.raises(Precondition, match="places"):
        talk.pool.register("e", b"3" * 16, [1])
    talk.assert_unchanged(before)
    talk.pool.bury(epoch)
    assert talk.pool.register("e", b"3" * 16, [1]) > epoch


def test_events_have_consecutive_revisions_and_a_reply_knows_the_last() -> None:
    talk = Talk()
    executor = talk.executor()
    reply = executor.send(admissions=[executor.admission(ids(6))])
    events = talk.pool.state.events.since(0)
    assert [event.revision for event in events] == list(range(1, len(events) + 1))
    assert reply.revision == events[-1].revision == talk.pool.revision


def test_the_reply_says_how_many_blocks_are_to_be_had() -> None:
    talk = Talk(blocks=10)
    executor = talk.executor()
    executor.cached(ids(8))
    reply = executor.send(admissions=[executor.admission(ids(5, 1))])
    assert reply.free_blocks == talk.pool.state.available() == 7


def test_pickled_replies_read_back_as_they_were() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(6))
    data = talk.pool.exchange(executor.message(reservations=Reservations(ints(handle), ints(9), ints(0))))
    assert pickle.loads(data).tables[0].handle == handle


def test_a_sequence_ends_with_the_reason_given_and_its_tokens_are_kept() -> None:
    talk = Talk()
    executor = talk.executor()
    request = executor.admission(ids(4), request=b"asked")
    handle = executor.send(admissions=[request]).admitted[0].handle
    executor.append(handle, 9, 8)
    talk.pool.set_final_length(handle, 5)
    executor.finish(handle)
    kept = talk.pool.state.archive.find(request.uuid)
    assert kept is not None
    assert (kept.tokens.tolist(), kept.prompt, kept.final) == ([*ids(4), 9, 8], 4, 5)
    assert (kept.reason, kept.request) == (FinishReason.STOP, b"asked")


def test_kinds_of_tickets_keep_their_numbers() -> None:
    assert [kind.value for kind in TicketKind] == list(range(6))
    assert Talker.uuid() != Talker.uuid()


def test_appends_without_counts_record_one_token_each() -> None:
    talk = Talk()
    executor = talk.executor()
    first, second = executor.prefilled(ids(6)), executor.prefilled(ids(7, 1))
    executor.send(appends=Appends(ints(first, second), ints(6, 7), ids=ints(40, 50)))
    # The second again, beside the next of the first: one by one, each compared with what is there.
    executor.send(appends=Appends(ints(second, first), ints(7, 7), ids=ints(50, 41)))
    seqs = talk.pool.state.sequences
    assert seqs.tokens.row(slot_of(first), 8).tolist() == [*ids(6), 40, 41]
    assert seqs.tokens.row(slot_of(second), 8).tolist() == [*ids(7, 1), 50]
    assert [talk.column("count", handle) for handle in (first, second)] == [8, 8]
    with pytest.raises(InvalidMessage, match=r"length of appends\.ids"):
        executor.send(appends=Appends(ints(first, second), ints(8, 8), ids=ints(1)))


def test_a_sequence_named_twice_in_a_report_is_published_once() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.admit(ids(9)).handle
    twice = Progress(ints(handle, handle), ints(4, 8), ints(0, 4))
    executor.send(launched_step=1, progress=twice)
    blocks = talk.table(handle)
    assert [talk.block(block) for block in blocks] == [BlockState.SEALED, BlockState.FILLING, BlockState.OWNED]

"""Managers that die, and those that go on with what they committed."""

import numpy as np
import pytest

from blockmgr.core.columns import Change
from blockmgr.core.errors import InvalidMessage, LedgerCorrupt
from blockmgr.core.messages import Progress
from blockmgr.core.pool import Pool
from blockmgr.core.states import BlockState, Refusal
from tests.unit.core.memory_ledger import ManagerDied
from tests.unit.core.talk import Talk, ids, ints

SETTLING = {"block.state", "block.fence", "block.used", "pool.clock"}


def test_a_new_manager_knows_everything_and_gives_out_nothing_before_it_has_heard_of_each_executor() -> None:
    talk = Talk(host_blocks=8)
    one, other = talk.executor("a"), talk.executor("b")
    handles = [one.prefilled(ids(9)), other.prefilled(ids(6, 1))]
    one.cached(ids(8, 2))
    one.fork(handles[0], 1)
    talk.pool.pin([talk.table(handles[0])[0]], None, "kept")
    before = talk.columns()
    talk.restart()
    for name, now in talk.columns().items():
        assert name in SETTLING or now == before[name], name
    assert talk.pool.state.available() == 0
    assert one.reserve((handles[0], 13)).short == [handles[0]]
    other.send()
    assert one.reserve((handles[0], 13)).short == []


def test_a_step_launched_meanwhile_keeps_blocks_back_until_it_has_completed() -> None:
    talk = Talk()
    executor = talk.executor()
    executor.cached(ids(8))
    talk.restart()
    executor.step += 1
    executor.send(launched_step=executor.step)
    assert talk.pool.state.available() == 0
    executor.complete()
    assert talk.pool.state.available() == 39


def test_an_executor_that_is_still_loading_is_not_waited_for() -> None:
    talk = Talk()
    executor = talk.executor("a")
    handle = executor.prefilled(ids(4))
    talk.pool.register("loading", b"l" * 16, [2])
    talk.restart()
    executor.send()
    assert executor.reserve((handle, 9)).short == []


def test_an_executor_that_is_proven_dead_after_the_restart_is_not_waited_for() -> None:
    talk = Talk()
    executor, other = talk.executor("a"), talk.executor("b")
    executor.send()
    other.send()
    talk.pool.fence(other.epoch, "lease")
    talk.restart()
    executor.send()
    assert talk.pool.state.available() == 0
    talk.pool.bury(other.epoch)
    assert talk.pool.state.available() == 39


def test_orders_of_reuse_are_what_they_were() -> None:
    talk = Talk()
    executor = talk.executor()
    for first in (2, 0, 1):
        executor.cached(ids(12, first))
    executor.finish(executor.admit(ids(12, 2)).handle)
    cold, free = talk.pool.coldest(), talk.pool.state.blocks.tier(False).free_list().tolist()
    talk.restart()
    executor.send()
    assert talk.pool.coldest() == cold
    assert talk.pool.state.blocks.tier(False).free_list().tolist() == free


def test_a_block_filling_without_a_reference_waits_for_later_steps_too() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.admit(ids(9)).handle
    executor.launch((handle, 8))
    executor.launch((handle, 9))
    executor.finish(handle)
    talk.restart()
    executor.send(completed_step=executor.step - 1)
    assert talk.count(BlockState.CACHED) == 2
    assert talk.pool.coldest() == []
    executor.complete()
    assert len(talk.pool.coldest()) == 2


def test_a_pinned_block_that_was_given_up_is_not_free_after_a_restart() -> None:
    talk = Talk()
    executor = talk.executor()
    one, two = executor.admit_all([ids(5), ids(5, 1)])
    executor.run((one.handle, 5), (two.handle, 5))
    block = talk.table(one.handle)[0]
    pin = talk.pool.pin([block], None)
    executor.finish(one.handle, two.handle)
    talk.pool.bury(executor.epoch)
    talk.restart()
    assert block not in talk.pool.coldest()
    talk.pool.unpin(pin)
    assert block in talk.pool.coldest()


def test_a_copy_pending_at_the_restart_is_still_expected_and_held() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    (child,) = executor.fork(parent, 1).handles
    (ticket,) = executor.reserve((parent, 7), (child, 7)).tickets
    talk.restart()
    executor.launch((parent, 7), (child, 7))
    executor.send(tickets_done=ints(ticket.id))
    assert talk.table(parent)[1] == ticket.destination


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_message_on_which_the_manager_dies_is_handled_once(when: str) -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(4))
    message = executor.message(
        admissions=[executor.admission(ids(9, 1))],
        progress=Progress(ints(handle), ints(4), ints(4)),
    )
    talk.ledger.die = when
    with pytest.raises(ManagerDied):
        talk.pool.exchange(message)
    talk.restart()
    data = talk.pool.exchange(message)
    assert talk.pool.exchange(message) == data
    assert talk.live() == 2
    talk.verify()


def test_a_transaction_that_the_ledger_refuses_is_undone() -> None:
    talk = Talk()
    executor = talk.executor()
    before = talk.columns()

    def refuse(changes: list[Change]) -> None:
        raise InvalidMessage("size of the changes", len(changes), "one transaction holds less")

    commit, talk.ledger.commit = talk.ledger.commit, refuse  # type: ignore[method-assign]
    with pytest.raises(InvalidMessage, match="holds less"):
        executor.admit(ids(9))
    talk.ledger.commit = commit  # type: ignore[method-assign]
    talk.assert_unchanged(before)
    assert executor.admit(ids(9)).refusal == Refusal.NONE


def test_a_ledger_whose_counts_contradict_its_tables_is_called_corrupt() -> None:
    talk = Talk()
    handle = talk.executor().prefilled(ids(4))
    block = talk.table(handle)[0]
    number = talk.pool.columns["block.refs"].number
    talk.ledger.columns[number][block] = 5
    with pytest.raises(LedgerCorrupt, match=f"block {block} has the count 5, but 1"):
        Pool(talk.geometry, talk.ledger, fresh=False)


def test_prompts_still_being_computed_are_waited_for_after_a_restart() -> None:
    talk = Talk()
    executor = talk.executor()
    first = executor.admit(ids(13)).handle
    talk.restart()
    executor.send()
    assert executor.admit(ids(13)).awaiting == first


def test_a_cancel_is_told_again_after_a_restart() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(4))
    talk.pool.cancel(handle)
    talk.restart()
    assert executor.send().cancel == [handle]


def test_a_shrink_goes_on_after_a_restart() -> None:
    talk = Talk(blocks=12)
    executor = talk.executor()
    handle = executor.prefilled(ids(24))
    executor.finish(executor.prefilled(ids(12, 1)))
    talk.pool.resize(8)
    talk.restart()
    executor.send()
    reply = executor.send()
    assert talk.pool.state.draining == bool(reply.tickets) or all(b < 8 for b in talk.table(handle))
    assert np.count_nonzero(talk.pool.state.blocks.state.flat[8:] == BlockState.FREE) == 0

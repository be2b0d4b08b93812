"""When a block that was given up may be given out again."""

from blockmgr.core.states import BlockState, Refusal
from tests.unit.core.talk import Talk, Talker, ids


def successor(talk: Talk, dead: Talker) -> Talker:
    talk.pool.fence(dead.epoch, "lease")
    talk.pool.bury(dead.epoch)
    return talk.executor(dead.name)


def test_blocks_are_given_out_only_when_the_steps_that_may_touch_them_have_completed() -> None:
    talk = Talk(blocks=6)
    executor = talk.executor()
    victim = executor.prefilled(ids(8))
    executor.append(victim, 5)
    executor.reserve((victim, 9))
    executor.launch((victim, 9))
    executor.finish(victim)
    wanted = ids(20, 1)
    assert executor.admit(wanted).refusal == Refusal.POOL_EXHAUSTED
    executor.complete()
    assert executor.admit(wanted).refusal == Refusal.NONE


def test_a_block_waits_for_every_executor_that_has_work_in_flight() -> None:
    talk = Talk()
    one, other = talk.executor("a"), talk.executor("b")
    mine, theirs = one.prefilled(ids(6)), other.prefilled(ids(6, 1))
    other.reserve((theirs, 7))
    other.launch((theirs, 7))
    one.finish(mine)
    assert talk.count(BlockState.FENCED) == 1
    one.run()
    assert talk.count(BlockState.FENCED) == 1
    other.complete()
    assert talk.count(BlockState.FENCED) == 0


def test_a_cached_block_behind_a_fence_may_be_hit_and_not_evicted() -> None:
    talk = Talk(blocks=5)
    executor = talk.executor()
    handle = executor.admit(ids(9)).handle
    executor.run((handle, 9))
    executor.launch()
    chain = talk.table(handle)
    executor.finish(handle)
    assert talk.pool.coldest() == []
    assert talk.pool.evict(chain) == []
    assert executor.admit(ids(9, 1)).refusal == Refusal.POOL_EXHAUSTED
    again = executor.admit(ids(8))
    assert again.cached == 4
    assert talk.table(again.handle)[0] == chain[0]


def test_a_block_given_up_while_a_failed_step_was_filling_it_becomes_free() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.admit(ids(9)).handle
    executor.launch((handle, 8))
    executor.finish(handle)
    assert talk.count(BlockState.FILLING) == 2
    executor.send(completed_step=executor.step, failed=True)
    assert talk.count(BlockState.FREE) == 39


def test_a_block_given_up_while_a_step_fills_it_is_cached_once_it_is_written() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.admit(ids(9)).handle
    executor.launch((handle, 8))
    executor.launch()
    executor.finish(handle)
    executor.send(completed_step=executor.step - 1)
    assert talk.count(BlockState.CACHED) == 2
    assert talk.pool.coldest() == [], "the second step may still read them"
    executor.complete()
    assert len(talk.pool.coldest()) == 2


def test_a_block_given_up_again_waits_for_the_later_fence() -> None:
    talk = Talk()
    executor = talk.executor()
    executor.launch()
    first = executor.admit(ids(5)).handle
    executor.launch((first, 5), completed_step=1)
    executor.complete((first, 5))
    executor.launch()
    executor.finish(first)
    second = executor.admit(ids(5))
    assert second.cached == 4
    executor.launch((second.handle, 5))
    executor.finish(second.handle)
    executor.send(completed_step=executor.step - 1)
    assert talk.pool.coldest() == [], "the step of the second sequence may still read it"
    executor.complete()
    assert len(talk.pool.coldest()) == 1

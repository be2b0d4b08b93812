"""Children that keep tokens alone: outputs that a search has found, without blocks."""

import numpy as np
import pytest

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.geometry import slot_of
from blockmgr.core.messages import Child, Finished, Fork, Forked, Reorder
from blockmgr.core.states import BlockState, FinishReason, Refusal, Residency
from tests.unit.core.talk import Talk, Talker, ids, ints


def keep(executor: Talker, parent: int, *outputs: list[int], score: float = -1.5) -> Forked:
    children = [Child(executor.uuid(), b"kept", score, np.array(output, dtype=np.int32)) for output in outputs]
    return executor.send(forks=[Fork(parent, children)]).forked[0]


def tokens(talk: Talk, handle: int) -> list[int]:
    row = talk.pool.state.sequences.find(handle)
    found: list[int] = talk.pool.state.sequences.tokens.row(row, talk.column("count", handle)).tolist()
    return found


def test_a_kept_output_has_the_prompt_its_own_tokens_and_no_block() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    executor.append(parent, 50, 51)
    free = talk.count(BlockState.FREE)
    found, longer = keep(executor, parent, [60], [50, 51, 52]).handles
    assert tokens(talk, found) == [*ids(6), 60]
    assert tokens(talk, longer) == [*ids(6), 50, 51, 52]
    assert talk.table(found) == talk.table(longer) == []
    assert talk.column("residency", found) == Residency.RELEASED
    assert talk.count(BlockState.FREE) == free


def test_an_output_is_kept_though_its_parent_is_away() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    executor.send(release=ints(parent))
    assert keep(executor, parent, [60]).refusal == Refusal.NONE
    shares = executor.send(forks=[Fork(parent, [Child(executor.uuid())])]).forked[0]
    assert shares.refusal == Refusal.BUSY


def test_a_kept_output_ends_with_its_tokens_and_score() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    uuid = executor.uuid()
    child = Child(uuid, b"kept", -0.75, np.array([7, 8], dtype=np.int32))
    (handle,) = executor.send(forks=[Fork(parent, [child])]).forked[0].handles
    executor.finish(handle)
    record = talk.pool.state.archive.find(uuid)
    assert record is not None
    assert (record.tokens.tolist(), record.score, record.reason) == ([*ids(6), 7, 8], -0.75, FinishReason.STOP)
    assert record.request == b"kept"


def test_kept_outputs_live_through_a_restart_of_the_manager() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    (handle,) = keep(executor, parent, [60]).handles
    talk.restart()
    assert tokens(talk, handle) == [*ids(6), 60]


def test_what_another_took_the_place_of_is_not_kept_longer_for_its_familys_sake() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    handles = keep(executor, parent, [60], [61]).handles
    names = [talk.pool.state.sequences.uuid.key(slot_of(handle)) for handle in handles]
    executor.send(finished=Finished(ints(*handles), [FinishReason.REPLACED, FinishReason.STOP]))
    talk.clock.now += 61
    talk.pool.tick()
    assert [talk.pool.state.archive.find(name) is not None for name in names] == [False, True]


def test_an_output_that_cannot_be_is_refused_and_nothing_changes() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    before = talk.columns()
    with pytest.raises(InvalidMessage, match=r"fork.children.output"):
        keep(executor, parent, [1] * (talk.geometry.max_length - 5))
    with pytest.raises(InvalidMessage, match=r"fork.children.output.ids"):
        keep(executor, parent, [-1])
    talk.assert_unchanged(before)


def test_beams_move_and_what_has_ended_of_them_stays() -> None:
    talk = Talk()
    executor = talk.executor()
    parent = executor.prefilled(ids(6))
    (child,) = executor.fork(parent, 1).handles
    (kept,) = keep(executor, parent, [9]).handles
    move = Reorder(ints(parent, child), ints(0, 0), ints(1, 2), np.array([-1.0, -2.0]))
    executor.send(reorders=[move])
    assert tokens(talk, kept) == [*ids(6), 9]
    executor.finish(parent, child, kept)
    assert talk.live() == 0

"""What a list of handles names holds until a sequence comes, goes or changes hands, and not longer."""

import numpy as np

from blockmgr.core.handles import MOST
from tests.unit.core.talk import Talk, ids, ints


def test_a_list_names_the_same_sequences_until_one_of_them_ends() -> None:
    talk = Talk()
    executor = talk.executor()
    first, second = executor.prefilled(ids(6)), executor.prefilled(ids(6, 1))
    seqs, handles = talk.pool.state.sequences, ints(first, second)
    named = seqs.named(handles, 0)
    assert (named.handles.tolist(), named.stale, named.mine, named.once) == ([first, second], [], None, True)
    assert seqs.named(handles.copy(), 0) is named
    executor.finish(first)
    after = seqs.named(handles, 0)
    assert (after.handles.tolist(), after.stale) == ([second], [first])
    assert after.pick(np.array([10, 20])).tolist() == [20]


def test_a_list_names_nothing_of_another_executor() -> None:
    talk = Talk()
    mine, theirs = talk.executor("a").prefilled(ids(6)), talk.executor("b").prefilled(ids(6, 1))
    seqs = talk.pool.state.sequences
    assert seqs.named(ints(mine, theirs), 0).handles.tolist() == [mine]
    assert seqs.named(ints(mine, theirs), 1).handles.tolist() == [theirs]
    assert seqs.is_owned(mine, 0)
    assert not seqs.is_owned(mine, 1)
    assert not seqs.is_owned(mine | 1 << 19, 0), "a slot that does not exist"


def test_old_handles_are_stale_as_soon_as_their_sequences_are_adopted() -> None:
    talk = Talk()
    executor, heir = talk.executor("a"), talk.executor("b")
    handles = ints(executor.prefilled(ids(6)))
    seqs = talk.pool.state.sequences
    assert seqs.named(handles, 0).stale == []
    talk.pool.bury(executor.epoch)
    talk.pool.adopt(heir.epoch, ["a"])
    assert seqs.named(handles, 0).stale == handles.tolist()
    assert seqs.named(handles, 1).stale == handles.tolist()


def test_a_name_given_twice_is_noticed() -> None:
    talk = Talk()
    handle = talk.executor().prefilled(ids(6))
    assert not talk.pool.state.sequences.named(ints(handle, handle), 0).once


def test_only_so_many_lists_are_remembered() -> None:
    talk = Talk(max_sequences=2)
    handle = talk.executor().prefilled(ids(6))
    seqs = talk.pool.state.sequences
    for stranger in range(3 * MOST):
        assert seqs.named(ints(handle, (stranger + 2) << 20), 0).handles.tolist() == [handle]
        assert len(seqs._handles._known) <= MOST


def test_a_list_longer_than_the_table_is_not_remembered() -> None:
    talk = Talk(max_sequences=2)
    handle = talk.executor().prefilled(ids(6))
    seqs = talk.pool.state.sequences
    for count in (2, 3, 100):
        assert seqs.named(np.full(count, handle), 0).handles.tolist() == [handle] * count
        assert (0, np.full(3, handle).tobytes()) not in seqs._handles._known

"""Which blocks are handed out next, and what they are no longer taken for."""

import numpy as np
import pytest

from blockmgr.core.states import BlockState, Refusal
from tests.unit.core.talk import Talk, ids

SIZE = 4


def test_own_hits_are_not_evicted_for_the_rest_of_the_prompt() -> None:
    talk = Talk(blocks=7)
    executor = talk.executor()
    holder = executor.prefilled(ids(4, 9))
    executor.cached(ids(12))
    executor.append(holder, 1)
    assert talk.count(BlockState.CACHED) == 3
    assert talk.count(BlockState.FREE) == 2
    hits = talk.pool.coldest()
    wanted = ids(12) + ids(9, 5)
    refused = executor.admit(wanted)
    assert (refused.refusal, refused.needed, refused.available) == (Refusal.POOL_EXHAUSTED, 3, 2)
    assert talk.pool.coldest() == hits
    executor.finish(holder)
    admitted = executor.admit(wanted)
    assert admitted.cached == 12
    table = talk.table(admitted.handle)
    assert sorted(table[:3]) == sorted(hits)
    assert len(set(table)) == len(table) == 6


@pytest.mark.parametrize("evicted", [False, True])
def test_a_refused_prompt_leaves_its_hits_as_they_were_and_misses_them_only_once_evicted(evicted: bool) -> None:
    talk = Talk(blocks=7)
    executor = talk.executor()
    executor.cached(ids(4))
    holder = executor.prefilled(ids(8, 7))
    before = talk.pool.coldest()
    assert executor.admit(ids(19)).refusal == Refusal.POOL_EXHAUSTED
    assert talk.pool.coldest() == before
    if evicted:
        talk.pool.evict(before)
        executor.finish(holder)
    admitted = executor.admit(ids(16))
    assert (admitted.cached, len(talk.table(admitted.handle))) == (0 if evicted else 4, 4)


def test_a_recycled_block_is_no_hit_for_what_it_held() -> None:
    talk = Talk(blocks=3)
    executor = talk.executor()
    for first in range(3):
        executor.cached(ids(8, first))
    assert executor.admit(ids(8)).cached == 0


def test_a_block_is_forgotten_before_it_is_handed_out_and_its_generation_rises() -> None:
    talk = Talk(blocks=3)
    executor = talk.executor()
    executor.cached(ids(8))
    old = talk.pool.columns["block.generation"].flat.copy()
    handle = executor.admit(ids(8, 1)).handle
    blocks = talk.table(handle)
    assert not np.any(talk.pool.columns["block.indexed"].flat)
    assert talk.pool.columns["block.generation"].flat[blocks].tolist() == (old[blocks] + 1).tolist()


def test_a_chain_is_hit_only_as_far_as_it_is_whole() -> None:
    for evicted, cached in ((0, 0), (1, 4), (2, 8), (None, 12)):
        talk = Talk()
        executor = talk.executor()
        handle = executor.prefilled(ids(13))
        chain = talk.table(handle)
        executor.finish(handle)
        if evicted is not None:
            assert talk.pool.evict([chain[evicted]]) == [chain[evicted]]
        assert executor.admit(ids(13)).cached == cached


def test_tails_are_evicted_before_heads_and_the_least_recently_used_chain_first() -> None:
    talk = Talk()
    executor = talk.executor()
    chains = []
    for first in range(2):
        handle = executor.prefilled(ids(12, first))
        chains.append(talk.table(handle))
        executor.finish(handle)
    assert talk.pool.coldest() == chains[0][::-1] + chains[1][::-1]
    executor.finish(executor.admit(ids(12, 0)).handle)
    head = chains[0][:2]
    assert talk.pool.coldest() == [chains[0][2], *chains[1][::-1], *head[::-1]]


def test_blocks_with_nothing_worth_keeping_are_reused_last_in_first_out_before_any_is_evicted() -> None:
    talk = Talk(blocks=10)
    executor = talk.executor()
    executor.cached(ids(4, 5))
    first, second = (executor.admit(ids(3, n)).handle for n in range(2))
    mine, yours = talk.table(first)[0], talk.table(second)[0]
    executor.finish(first)
    executor.finish(second)
    third = executor.admit(ids(6, 3)).handle
    assert talk.table(third) == [yours, mine]
    assert talk.count(BlockState.CACHED) == 1

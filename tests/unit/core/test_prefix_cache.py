"""What a prompt may take from others, and what it may not."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from blockmgr.core.errors import IdentityMismatch
from blockmgr.core.geometry import slot_of
from blockmgr.core.states import BlockState, SequenceFlags
from tests.unit.core.talk import Talk, ids, ints

SIZE = 4


@pytest.mark.parametrize(("length", "size"), [(32, 16), (16, 16), (48, 16), (1, 1), (17, 16), (33, 16), (5, 1)])
def test_something_of_a_prompt_is_always_left_to_compute(length: int, size: int) -> None:
    talk = Talk(size=size)
    executor = talk.executor()
    executor.cached(ids(length))
    again = executor.admit(ids(length))
    assert again.cached == (length - 1) // size * size
    assert talk.column("launched", again.handle) == again.cached < length


def test_nothing_of_a_cancelled_prefill_is_a_hit() -> None:
    talk = Talk()
    executor = talk.executor()
    first = executor.admit(ids(12)).handle
    executor.finish(first)
    assert executor.admit(ids(12)).cached == 0


def test_a_block_is_a_hit_before_it_is_written_only_for_the_executor_that_launched_it() -> None:
    talk = Talk()
    one, other = talk.executor("a"), talk.executor("b")
    first = one.admit(ids(9)).handle
    one.launch((first, 8))
    assert one.admit(ids(9)).cached == 8
    stranger = other.admit(ids(9))
    assert (stranger.cached, stranger.awaiting) == (0, first)
    one.complete((first, 8))
    assert other.send(look_again=ints(stranger.handle)).looked_again[0].cached == 8


def test_equal_prompts_admitted_together_are_computed_once() -> None:
    talk = Talk()
    executor = talk.executor()
    first, *others = executor.admit_all([ids(13)] * 4)
    assert [other.awaiting for other in others] == [first.handle] * 3
    assert [talk.table(other.handle) for other in others] == [[]] * 3
    executor.launch((first.handle, 13))
    looked = executor.send(look_again=ints(*(other.handle for other in others))).looked_again
    assert [(look.cached, look.awaiting) for look in looked] == [(12, 0)] * 3
    assert [talk.table(other.handle) for other in others] == [talk.table(first.handle)[:3]] * 3


def test_equal_prompts_are_computed_once_when_prefill_is_chunked() -> None:
    talk = Talk()
    executor = talk.executor()
    first, second = executor.admit_all([ids(17), ids(17)], reserve=4)
    for done in range(4, 17, 4):
        executor.launch((first.handle, done))
        look = executor.send(look_again=ints(second.handle)).looked_again[0]
        assert look.cached == done
        assert look.awaiting == (first.handle if done < 16 else 0)
        executor.reserve((first.handle, min(done + 4, 17)))
    assert talk.table(second.handle) == talk.table(first.handle)[:4]


def test_a_prompt_stops_waiting_when_the_one_that_computes_it_ends() -> None:
    talk = Talk()
    executor = talk.executor()
    first, second, third = executor.admit_all([ids(13)] * 3)
    executor.finish(first.handle)
    look = executor.send(look_again=ints(second.handle)).looked_again[0]
    assert (look.cached, look.awaiting) == (0, 0)
    assert third.handle != second.handle


def test_looking_again_gives_own_unwritten_blocks_back() -> None:
    talk = Talk()
    one, other = talk.executor("a"), talk.executor("b")
    slow = one.admit(ids(9), flags=SequenceFlags.NO_STORE).handle
    other.cached(ids(9))
    before = talk.pool.state.available()
    own = talk.table(slow)
    look = one.send(look_again=ints(slow)).looked_again[0]
    assert look.cached == 8
    assert talk.table(slow)[2] == own[2]
    assert not set(talk.table(slow)[:2]) & set(own)
    # Two cached blocks are in use, two owned ones are free.
    assert talk.pool.state.available() == before


def test_no_hits_are_taken_by_who_bypasses_and_none_left_by_who_does_not_store() -> None:
    talk = Talk()
    executor = talk.executor()
    executor.cached(ids(9))
    assert executor.admit(ids(9), flags=SequenceFlags.BYPASS).cached == 0
    executor.cached(ids(9, 1), flags=SequenceFlags.NO_STORE)
    assert executor.admit(ids(9, 1)).cached == 0
    assert executor.admit(ids(9), flags=SequenceFlags.NO_STORE).cached == 8


def test_salts_and_adapters_are_never_taken_for_each_other() -> None:
    talk = Talk(blocks=80, max_sequences=32)
    executor = talk.executor()
    ways: list[dict[str, Any]] = [
        {},
        {"salt": b"x"},
        {"adapter": "x"},
        {"salt": b"x", "adapter": "x"},
        {"salt": b"xx"},
        {"adapter": "xx"},
    ]
    for way in ways:
        handle = executor.prefilled(ids(9), **way)
        assert talk.column("published", handle) == 2
        assert executor.admit(ids(9), **way).cached == 8
    first_blocks = {talk.table(executor.admit(ids(9), **way).handle)[0] for way in ways}
    assert len(first_blocks) == len(ways)


def test_what_is_left_to_compute_of_a_long_prompt_is_its_length_less_what_is_cached() -> None:
    talk = Talk(blocks=8, size=256, max_length=1024)
    executor = talk.executor()
    executor.cached(ids(256))
    admitted = executor.admit(ids(465))
    assert 465 - admitted.cached == 209
    assert len(talk.table(admitted.handle)) == 2


def test_a_pool_with_other_weights_has_no_hits() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(9))
    with pytest.raises(IdentityMismatch):
        talk.pool.relabel(b"w" * 16)
    executor.finish(handle)
    assert talk.pool.relabel(b"w" * 16)
    assert talk.count(BlockState.CACHED) == 0
    assert executor.admit(ids(9)).cached == 0


def test_a_relabelled_pool_keeps_nothing_of_a_step_still_running() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.admit(ids(9)).handle
    executor.launch((handle, 8))
    executor.finish(handle)
    assert talk.count(BlockState.FILLING) == 2
    talk.pool.relabel(b"w" * 16)
    executor.complete()
    assert talk.count(BlockState.CACHED, BlockState.FILLING, BlockState.FENCED) == 0


def test_hashes_are_the_same_in_every_process() -> None:
    program = (
        "import numpy as np; from blockmgr.core.prefix import chain_of, root_of;"
        "print([h.hex() for h in chain_of(root_of(b'c', 'a', b's'), np.arange(9, dtype=np.int32), 4)])"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2", "77")
    }
    assert len(seen) == 1
    assert len(seen.pop()) > 64


def test_hits_survive_the_executor_that_made_them() -> None:
    talk = Talk()
    first = talk.executor()
    first.cached(ids(9))
    talk.pool.bury(first.epoch)
    assert talk.executor().admit(ids(9)).cached == 8


def test_an_equal_block_of_another_sequence_is_not_indexed_twice() -> None:
    talk = Talk()
    executor = talk.executor()
    one, two = executor.admit(ids(5)).handle, executor.admit(ids(5), flags=SequenceFlags.BYPASS).handle
    executor.run((one, 5), (two, 5))
    assert np.count_nonzero(talk.pool.columns["block.indexed"].flat) == 1
    executor.finish(one, two)
    assert talk.count(BlockState.CACHED) == 1


def test_a_prompt_hits_what_another_generated() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(4))
    executor.append(handle, 50, 51, 52, 53)
    executor.reserve((handle, 8))
    executor.run((handle, 7))
    assert executor.admit([*ids(4), 50, 51, 52, 53, 9]).cached == 4
    executor.run((handle, 8))
    assert executor.admit([*ids(4), 50, 51, 52, 53, 9]).cached == 8


def test_a_block_whose_last_token_is_not_known_yet_is_published_when_it_is() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(3))
    executor.launch((handle, 4))
    assert talk.column("published", handle) == 0
    executor.append(handle, 77)
    assert talk.block(talk.table(handle)[0]) == BlockState.FILLING
    executor.complete((handle, 4))
    assert talk.block(talk.table(handle)[0]) == BlockState.SEALED
    assert talk.pool.state.sequences.tokens.row(slot_of(handle), 4).tolist() == [*ids(3), 77]


def test_equal_prompts_that_an_heir_takes_over_are_computed_once() -> None:
    talk = Talk()
    executor = talk.executor()
    for _ in range(3):
        executor.admit(ids(9))
    talk.pool.fence(executor.epoch, "lease")
    talk.pool.bury(executor.epoch)
    heir = talk.executor(executor.name)
    handles = [adopted.handle for adopted in talk.pool.adopt(heir.epoch)]
    looked = heir.send(look_again=ints(*handles)).looked_again
    assert [look.cached for look in looked] == [0, 0, 0]
    first = next(look.handle for look in looked if not look.awaiting)
    assert [look.awaiting for look in looked if look.handle != first] == [first, first]
    heir.reserve((first, 9))
    heir.launch((first, 9))
    again = heir.send(look_again=ints(*[handle for handle in handles if handle != first])).looked_again
    assert [look.cached for look in again] == [8, 8]

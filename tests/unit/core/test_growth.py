"""Tables and counts, token by token."""

from typing import Any

import numpy as np
import pytest

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.messages import Appends, Progress, Reservations
from blockmgr.core.states import BlockState, Refusal, SequenceFlags
from tests.unit.core.talk import Talk, ids, ints


@pytest.mark.parametrize(
    ("length", "blocks", "in_last"), [(1, 1, 1), (15, 1, 15), (16, 1, 16), (17, 2, 1), (32, 2, 16)]
)
def test_a_prompt_takes_blocks_enough_for_its_tokens_and_gives_them_back_once(
    length: int, blocks: int, in_last: int
) -> None:
    talk = Talk(size=16)
    executor = talk.executor()
    free = talk.count(BlockState.FREE)
    handle = executor.admit(ids(length), flags=SequenceFlags.NO_STORE).handle
    table = talk.table(handle)
    assert len(table) == blocks
    assert length - (blocks - 1) * 16 == in_last
    assert [talk.refs(block) for block in table] == [1] * blocks
    executor.finish(handle)
    assert [talk.refs(block) for block in table] == [0] * blocks
    assert talk.count(BlockState.FREE) == free
    assert sorted(talk.pool.state.blocks.tier(False).free_list().tolist()) == list(range(1, 40))


def test_an_empty_prompt_is_refused() -> None:
    talk = Talk()
    refused = talk.executor().admit([])
    assert (refused.refusal, talk.live()) == (Refusal.INVALID, 0)


@pytest.mark.parametrize("length", [15, 16, 17])
@pytest.mark.parametrize("look_ahead", [0, 5, 16])
def test_a_table_is_as_long_as_what_is_written_and_the_look_ahead(length: int, look_ahead: int) -> None:
    talk = Talk(size=16)
    executor = talk.executor()
    handle = executor.prefilled(ids(length))
    for written in range(length + 1, length + 33):
        executor.append(handle, 7)
        executor.reserve((handle, written), look_ahead=look_ahead)
        assert len(talk.table(handle)) == -(-(written + look_ahead) // 16)
        executor.run((handle, written))


def test_look_ahead_is_best_effort_and_makes_nobody_short() -> None:
    talk = Talk(blocks=5)
    executor = talk.executor()
    one, two = executor.prefilled(ids(4)), executor.prefilled(ids(4, 1))
    executor.append(one, 1)
    executor.append(two, 1)
    reply = executor.reserve((one, 5), (two, 5), look_ahead=8)
    assert reply.short == []
    assert [len(talk.table(one)), len(talk.table(two))] == [2, 2]


def test_a_short_sequence_gets_nothing_and_those_behind_it_what_is_left() -> None:
    talk = Talk(blocks=6)
    executor = talk.executor()
    big, small = executor.prefilled(ids(4)), executor.prefilled(ids(4, 1))
    reply = executor.reserve((big, 24), (small, 8))
    assert reply.short == [big]
    assert [len(talk.table(big)), len(talk.table(small))] == [1, 2]
    assert [update.handle for update in reply.tables] == [small]


def test_a_request_that_can_never_fit_is_told_so_at_once_with_both_numbers() -> None:
    talk = Talk(blocks=5, size=16)
    executor = talk.executor()
    refused = executor.admit(ids(65))
    assert (refused.refusal, refused.needed, refused.available) == (Refusal.NEVER_FITS, 5, 4)
    refused = executor.admit(ids(8), max_length=66)
    assert (refused.refusal, refused.needed, refused.available) == (Refusal.NEVER_FITS, 5, 4)
    refused = executor.admit(ids(8), reserve=66)
    assert (refused.refusal, refused.needed, refused.available) == (Refusal.NEVER_FITS, 5, 4)
    # Its last token is never fed.
    assert executor.admit(ids(8), max_length=65).refusal == Refusal.NONE


def test_too_many_tokens_or_sequences_are_refused_by_name() -> None:
    talk = Talk(blocks=200, max_sequences=1)
    executor = talk.executor()
    assert executor.admit(ids(513)).refusal == Refusal.TOO_LONG
    assert executor.admit(ids(5), max_length=513).refusal == Refusal.TOO_LONG
    assert executor.admit(ids(5)).refusal == Refusal.NONE
    assert executor.admit(ids(5)).refusal == Refusal.NO_SLOTS


@pytest.mark.parametrize("flags", [SequenceFlags.NONE, SequenceFlags.BYPASS | SequenceFlags.NO_STORE])
def test_after_many_short_sequences_no_block_is_missing(flags: SequenceFlags) -> None:
    talk = Talk(blocks=9)
    executor = talk.executor()
    for n in range(100):
        handle = executor.prefilled(ids(5 + n % 9, n % 3), flags=flags)
        executor.append(handle, 1)
        executor.reserve((handle, 6 + n % 9))
        executor.finish(handle)
        assert talk.pool.state.available() == 8
    talk.pool.evict(talk.pool.coldest())
    assert talk.count(BlockState.FREE) == 8


def test_a_reservation_may_be_repeated() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(4))
    executor.reserve((handle, 9))
    table = talk.table(handle)
    assert executor.reserve((handle, 9)).tables == []
    assert talk.table(handle) == table


def test_one_sequence_may_not_reserve_twice_in_a_message() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(4))
    before = talk.columns()
    with pytest.raises(InvalidMessage, match="once"):
        executor.reserve((handle, 9), (handle, 13))
    talk.assert_unchanged(before)


def test_tokens_recorded_already_may_come_again_and_others_may_not_take_their_place() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.admit(ids(4)).handle
    executor.append(handle, 10, 11)
    executor.append(handle, 10, 11, 12, start=4)
    executor.append(handle, 11, start=5)
    before = talk.columns()
    for start, tokens in ((5, (12,)), (8, (1,)), (3, (3,)), (0, (0,))):
        with pytest.raises(InvalidMessage):
            executor.append(handle, *tokens, start=start)
        talk.assert_unchanged(before)
    assert talk.column("count", handle) == 7


def test_token_ids_beyond_what_is_kept_are_refused() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.admit(ids(4)).handle
    for wrong in (-1, 1 << 31):
        with pytest.raises(InvalidMessage, match="token ids"):
            executor.append(handle, wrong)
    executor.append(handle, (1 << 31) - 1)
    assert talk.column("count", handle) == 5


def test_progress_takes_nothing_back_and_claims_nothing_impossible() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.prefilled(ids(4))
    before = talk.columns()
    for launched, computed in ((3, 3), (5, 4), (4, 5)):
        with pytest.raises(InvalidMessage):
            executor.send(progress=Progress(ints(handle), ints(launched), ints(computed)))
        talk.assert_unchanged(before)


def test_an_executor_that_knows_less_of_its_hits_than_the_pool_takes_nothing_back() -> None:
    talk = Talk()
    executor = talk.executor()
    executor.cached(ids(9))
    handle = executor.admit(ids(9)).handle
    assert talk.column("computed", handle) == 8
    executor.send(progress=Progress(ints(handle), ints(8), ints(0)))
    assert talk.column("computed", handle) == 8


def test_arrays_that_do_not_run_parallel_are_refused_by_name() -> None:
    talk = Talk()
    executor = talk.executor()
    handle = executor.admit(ids(4)).handle
    one, two = ints(handle), ints(1, 2)
    before = talk.columns()
    wrong: dict[str, Any] = {
        "progress": Progress(one, two, ints(1)),
        "appends": Appends(one, two, ints(1), ints(1)),
        "reservations": Reservations(one, two, ints(1)),
    }
    for name, part in wrong.items():
        with pytest.raises(InvalidMessage, match=f"length of {name}"):
            executor.send(**{name: part})
        talk.assert_unchanged(before)
    with pytest.raises(InvalidMessage, match=r"appends\.logprobs"):
        executor.send(appends=Appends(one, ints(4), ints(1), ints(1), np.zeros(2, dtype=np.float32)))


def test_logprobs_are_kept_with_their_tokens_and_never_left_to_the_next_tenant() -> None:
    talk = Talk()
    executor = talk.executor()
    first = executor.admission(ids(4))
    handle = executor.send(admissions=[first]).admitted[0].handle
    given = np.array([-0.5, -1.5], dtype=np.float32)
    executor.send(appends=Appends(ints(handle), ints(4), ints(2), ints(8, 9), given))
    executor.finish(handle)
    kept = talk.pool.state.archive.find(first.uuid)
    assert kept is not None
    assert kept.logprobs.tolist() == [0.0, 0.0, 0.0, 0.0, -0.5, -1.5]
    second = executor.admission(ids(4))
    handle = executor.send(admissions=[second]).admitted[0].handle
    executor.append(handle, 8, 9)
    executor.finish(handle)
    kept = talk.pool.state.archive.find(second.uuid)
    assert kept is not None
    assert kept.logprobs.tolist() == []

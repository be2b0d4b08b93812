"""Who is in a step."""

from hypothesis import given
from hypothesis import strategies as st

from blockmgr.core.states import FinishReason
from executor.engine.scheduler import Budget, plan
from executor.engine.sequence import Sequence
from tests.unit.engine.sequences import BLOCK, decoding, sequence

BUDGET = Budget(step_tokens=64, chunk=32, rows=16)


def counts(sequences: list[Sequence], budget: Budget = BUDGET) -> list[tuple[int, int]]:
    return [(one.slot, count) for one, count in plan(sequences, budget, BLOCK)]


def test_decodes_come_first_and_prompts_share_what_is_left_in_order() -> None:
    prompts = [sequence(100, slot=0), sequence(20, slot=1), sequence(40, slot=2)]
    assert counts([prompts[0], decoding(3), prompts[1], decoding(4), prompts[2]]) == [
        (3, 1), (4, 1), (0, 32), (1, 20), (2, 10),
    ]  # fmt: skip


def test_a_prompt_of_one_token_counts_as_a_decode() -> None:
    assert counts([sequence(1, slot=5)]) == [(5, 1)]


def test_what_ends_by_count_is_not_launched_again() -> None:
    last = decoding(max_tokens=2)
    assert counts([last]) == [(0, 1)]
    last.launch(1)
    assert counts([last]) == []


def test_two_steps_may_be_ahead_of_what_is_known() -> None:
    ahead = decoding(max_tokens=10)
    for _ in range(2):
        assert counts([ahead]) == [(0, 1)]
        ahead.launch(1)
    assert ahead.length == 13
    assert len(ahead.tokens) == 11


def test_who_waits_for_blocks_or_for_another_or_has_ended_sits_out() -> None:
    short, frozen, awaiting, ended, absent = (decoding(slot, prompt=16, blocks=1) for slot in range(5))
    for one in (frozen, awaiting, ended, absent):
        one.update(1, [50])
    frozen.frozen = True
    awaiting.awaiting = 1
    ended.end(FinishReason.CANCELLED)
    absent.update(1, [0])
    assert counts([short, frozen, awaiting, ended, absent]) == []
    frozen.frozen = False
    absent.redirect(1, 9)
    assert counts([short, frozen, awaiting, ended, absent]) == [(1, 1), (4, 1)]


def test_a_chunk_ends_with_the_blocks_that_are_there() -> None:
    assert counts([sequence(100, blocks=1)]) == [(0, 16)]


def test_rows_are_limited_whatever_the_budget_of_tokens() -> None:
    many = [decoding(slot) for slot in range(20)]
    assert len(counts(many)) == 16
    assert counts([*many[:15], sequence(20, slot=30), sequence(20, slot=31)])[-1] == (30, 20)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 200), st.integers(0, 14)), max_size=30),
    st.integers(1, 100),
    st.integers(1, 64),
    st.integers(1, 20),
)
def test_no_step_is_larger_than_its_budget_and_every_part_can_be_computed(
    kinds: list[tuple[bool, int, int]], step_tokens: int, chunk: int, rows: int
) -> None:
    sequences = [
        decoding(slot, prompt, blocks=14) if decodes else sequence(prompt, slot=slot, blocks=blocks)
        for slot, (decodes, prompt, blocks) in enumerate(kinds)
    ]
    parts = plan(sequences, Budget(step_tokens, chunk, rows), BLOCK)
    assert sum(count for _, count in parts) <= step_tokens
    assert len(parts) <= rows
    assert len({one.slot for one, _ in parts}) == len(parts)
    for one, count in parts:
        assert 1 <= count <= chunk
        assert one.launched + count <= min(one.length, one.limit, one.blocks * BLOCK)
    if not parts:
        assert all(not one.runnable(chunk, BLOCK) for one in sequences)

"""Beam search as a function: ties, resumption, and what is named too little or too much."""

import pytest

from executor.engine.beams import Beam, Candidates, EarlyStopping, Hypothesis, Rules, advance

END = 9


def rules(width: int = 2, **changes: object) -> Rules:
    values: dict[str, object] = {
        "width": width,
        "length_penalty": 1.0,
        "early_stopping": EarlyStopping.OFF,
        "end_ids": frozenset({END}),
        "max_tokens": 10,
    }
    return Rules(**{**values, **changes})  # type: ignore[arg-type]


def test_before_the_first_token_only_the_first_beam_counts() -> None:
    named = Candidates([4, 5, 6], [-1.0, -2.0, -3.0])
    ahead = advance(rules(), [[], []], [0.0, 0.0], [], [named, named])
    assert ahead.beams == [Beam(0, 4, -1.0), Beam(0, 5, -2.0)]


def test_among_equals_the_earlier_beam_comes_first_then_the_order_in_which_it_names_them() -> None:
    named = [Candidates([7, 8, 1], [-1.0, -1.0, -9.0]), Candidates([2, 3, 4], [-1.0, -1.0, -1.0])]
    ahead = advance(rules(3), [[1], [1], [1]], [-2.0, -2.0, -50.0], [], [*named, Candidates([1, 2, 3], [-1.0] * 3)])
    assert ahead.beams == [Beam(0, 7, -3.0), Beam(0, 8, -3.0), Beam(1, 2, -3.0)]


def test_only_what_is_among_the_best_can_end() -> None:
    named = [Candidates([1, 2, END], [-1.0, -1.5, -1.6]), Candidates([3, END, 4], [-1.0, -9.0, -9.5])]
    ahead = advance(rules(), [[5], [6]], [-1.0, -1.0], [], named)
    assert not ahead.ended
    assert [beam.token for beam in ahead.beams] == [1, 3]


def test_a_hypothesis_of_equal_rank_does_not_take_the_place_of_an_earlier_one() -> None:
    earlier = [Hypothesis((5, END), -1.0), Hypothesis((6, END), -1.5)]
    named = [Candidates([END, 1, 2], [-2.5, -3.0, -4.0]), Candidates([1, 2, 3], [-9.0] * 3)]
    ahead = advance(rules(), [[5, 5], [6, 6]], [-2.0, -2.0], earlier, named)
    assert ahead.hypotheses == earlier
    assert not ahead.ended


def test_at_the_most_tokens_everything_ends_and_nothing_goes_on() -> None:
    named = [Candidates([1, 2, 3], [-1.0, -2.0, -3.0])] * 2
    ahead = advance(rules(max_tokens=2), [[5], [6]], [-1.0, -1.1], [], named)
    assert ahead.is_done
    assert not ahead.beams
    assert [one.tokens for one in ahead.hypotheses] == [(5, 1), (6, 1)]


def test_a_step_that_is_done_again_comes_to_the_same() -> None:
    earlier = [Hypothesis((5, END), -1.0)]
    named = [Candidates([END, 1, 2], [-0.1, -3.0, -4.0]), Candidates([1, 2, END], [-1.0] * 3)]
    given = (rules(), [[5, 5], [6, 6]], [-0.5, -2.0], earlier, named)
    assert advance(*given) == advance(*given)


def test_enough_candidates_are_asked_for_to_go_on_whatever_ends_or_is_held_back() -> None:
    assert rules(4, end_ids=frozenset({1, 2})).candidates == 6
    assert rules(4, end_ids=frozenset({1}), min_tokens=3, held_back=frozenset({1, 2})).candidates == 6
    assert rules(4, end_ids=frozenset({1}), held_back=frozenset({1, 2})).candidates == 5


@pytest.mark.parametrize(
    ("stopping", "is_done"), [(EarlyStopping.ON, True), (EarlyStopping.OFF, True), (EarlyStopping.NEVER, False)]
)
def test_what_may_yet_become_of_a_beam_is_judged_as_asked(stopping: EarlyStopping, is_done: bool) -> None:
    # As it stands the best beam ranks -4.5 / 3; ten tokens long at the same score it would rank -0.45.
    full = [Hypothesis((1, END), -0.5), Hypothesis((2, END), -0.6)]
    named = [Candidates([1, 2, 3], [-0.5, -2.0, -3.0])] * 2
    ahead = advance(rules(early_stopping=stopping), [[1, 1], [2, 2]], [-4.0, -4.5], full, named)
    assert ahead.is_done is is_done

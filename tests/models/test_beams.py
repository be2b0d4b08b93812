"""Beam search is transformers': the same ids, and the same scores."""

from pathlib import Path
from typing import Any

import pytest

from executor.engine.beams import EarlyStopping, Rules
from executor.models.generate import generate
from executor.models.loader import load_model
from executor.models.model import PagedModel
from tests.models.beam_search import Found, reference_beams, searched_beams
from tests.models.checkpoints import configuration, random_ids, saved

STOPPING: dict[EarlyStopping, bool | str] = {
    EarlyStopping.ON: True,
    EarlyStopping.OFF: False,
    EarlyStopping.NEVER: "never",
}
LENGTHS = (1, 2, 15, 16, 17, 31, 32, 33, 47, 48)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, PagedModel]:
    folder: Path = tmp_path_factory.mktemp("llama")
    return saved(configuration("llama"), folder), load_model(folder)


def compare(
    pair: tuple[Any, PagedModel], prompt: list[int], width: int, max_tokens: int, **rules: Any
) -> tuple[Found, Found]:
    """Search both ways, and hold the scores against each other."""
    stopping = rules.pop("early_stopping", EarlyStopping.OFF)
    end_ids = frozenset(rules.pop("end_ids", ()))
    penalty = rules.pop("length_penalty", 1.0)
    min_tokens = rules.pop("min_tokens", 0)
    expected = reference_beams(
        pair[0], prompt, width, max_tokens,
        length_penalty=penalty, early_stopping=STOPPING[stopping], end_ids=sorted(end_ids), min_tokens=min_tokens,
    )  # fmt: skip
    held_back = end_ids if min_tokens else frozenset[int]()
    searched = searched_beams(
        pair[1], prompt, Rules(width, penalty, stopping, end_ids, max_tokens, min_tokens, held_back)
    )
    assert [score for _, score in searched] == pytest.approx([score for _, score in expected], abs=1e-4)
    return searched, expected


KNOWN_ENDS: dict[tuple[tuple[int, ...], int, int], list[int]] = {}
"""What ``ends_for`` has found, of the one model that there is here."""


def ends_for(pair: tuple[Any, PagedModel], prompt: list[int], width: int, step: int) -> list[int]:
    """Ids that beams have in this step of a search without ends: as ends of another search they come early."""
    key = tuple(prompt), width, step
    if key not in KNOWN_ENDS:
        KNOWN_ENDS[key] = sorted({output[step] for output, _ in reference_beams(pair[0], prompt, width, step + 2)})
    return KNOWN_ENDS[key]


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("length", LENGTHS)
def test_beams_without_an_end_are_transformers(pair: tuple[Any, PagedModel], length: int, penalty: float) -> None:
    searched, expected = compare(pair, random_ids(length, seed=length), 4, 12, length_penalty=penalty)
    assert [ids for ids, _ in searched] == [ids for ids, _ in expected]


@pytest.mark.parametrize("stopping", list(EarlyStopping))
@pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0, 2.0])
@pytest.mark.parametrize("length", [1, 16, 33])
def test_beams_that_end_are_transformers(
    pair: tuple[Any, PagedModel], length: int, penalty: float, stopping: EarlyStopping
) -> None:
    prompt = random_ids(length, seed=100 + length)
    for step in (0, 2, 5) if length == 16 else (2,):
        ends = ends_for(pair, prompt, 4, step)[:2]
        searched, expected = compare(pair, prompt, 4, 14, length_penalty=penalty, early_stopping=stopping, end_ids=ends)
        assert [ids for ids, _ in searched] == [ids for ids, _ in expected]


def test_outputs_end_early_where_they_may(pair: tuple[Any, PagedModel]) -> None:
    prompt = random_ids(16, seed=116)
    ends = ends_for(pair, prompt, 4, 2)[:2]
    searched, _ = compare(pair, prompt, 4, 14, length_penalty=0.0, end_ids=ends)
    assert all(ids[-1] in ends for ids, _ in searched)
    assert len({len(ids) for ids, _ in searched}) > 1


@pytest.mark.parametrize("width", [2, 3, 8])
def test_every_width_is_transformers(pair: tuple[Any, PagedModel], width: int) -> None:
    ends = ends_for(pair, random_ids(9), 4, 3)[:1]
    searched, expected = compare(pair, random_ids(9), width, 16, end_ids=ends)
    assert [ids for ids, _ in searched] == [ids for ids, _ in expected]


def test_one_beam_is_the_greedy_output(pair: tuple[Any, PagedModel]) -> None:
    searched = searched_beams(pair[1], random_ids(9), Rules(1, 1.0, EarlyStopping.OFF, frozenset(), 9))
    assert [ids for ids, _ in searched] == generate(pair[1], [random_ids(9)], 9)


def test_ends_are_held_back_until_enough_tokens_are_there(pair: tuple[Any, PagedModel]) -> None:
    prompt = random_ids(20, seed=7)
    ends = ends_for(pair, prompt, 4, 1)
    searched, expected = compare(pair, prompt, 4, 12, end_ids=ends, min_tokens=5, early_stopping=EarlyStopping.ON)
    assert [ids for ids, _ in searched] == [ids for ids, _ in expected]
    assert min(len(ids) for ids, _ in searched) > 5


def test_a_step_whose_best_all_end_goes_on_with_others(pair: tuple[Any, PagedModel]) -> None:
    prompt = random_ids(12, seed=3)
    ends = [output[0] for output, _ in reference_beams(pair[0], prompt, 8, 1)][:6]
    searched, expected = compare(
        pair, prompt, 4, 10, end_ids=ends, early_stopping=EarlyStopping.NEVER, length_penalty=2.0
    )
    assert [ids for ids, _ in searched] == [ids for ids, _ in expected]

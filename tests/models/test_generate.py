"""The reference loop: transformers' greedy answers, and draws that depend on nothing but their own sequence."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from executor.models.generate import PagedSequence, Sampling, SequenceRunner, generate
from executor.models.loader import load_model
from executor.models.model import PagedModel
from tests.models.checkpoints import configuration, random_ids, reference_logits, saved

PROMPTS = [random_ids(length, seed=length) for length in (1, 16, 33, 40)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, PagedModel]:
    folder: Path = tmp_path_factory.mktemp("gemma2")
    # Logits far apart, so that no choice is a matter of rounding.
    return saved(configuration("gemma2", final_logit_softcapping=None), folder), load_model(folder)


def greedy_reference(model: Any, prompt: list[int], count: int) -> list[int]:
    ids = list(prompt)
    for _ in range(count):
        ids.append(int(reference_logits(model, ids)[-1].argmax()))
    return ids[len(prompt) :]


def test_greedy_answers_are_transformers(pair: tuple[Any, PagedModel]) -> None:
    reference, model = pair
    expected = [greedy_reference(reference, prompt, 25) for prompt in PROMPTS]
    assert generate(model, PROMPTS, 25) == expected
    assert generate(model, PROMPTS, 25, chunk_tokens=7, tokens_per_block=8) == expected


def test_an_answer_ends_with_a_stop_id_and_others_go_on(pair: tuple[Any, PagedModel]) -> None:
    _, model = pair
    answers = generate(model, PROMPTS, 25)
    stop = answers[1][4]
    expected = [answer[: answer.index(stop) + 1] if stop in answer else answer for answer in answers]
    assert len(expected[1]) <= 5
    assert generate(model, PROMPTS, 25, stop_ids=frozenset({stop})) == expected


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_greedy_and_sampled_rows_do_not_touch_each_other(pair: tuple[Any, PagedModel], order: tuple[int, ...]) -> None:
    _, model = pair
    ways = [Sampling(), Sampling(temperature=0.8, top_k=5, seed=42), Sampling()]
    alone = [generate(model, [PROMPTS[row]], 12, sampling=[ways[row]])[0] for row in range(3)]
    together = generate(model, [PROMPTS[row] for row in order], 12, sampling=[ways[row] for row in order])
    assert together == [alone[row] for row in order]


def test_a_seed_repeats_and_another_does_not(pair: tuple[Any, PagedModel]) -> None:
    _, model = pair

    def drawn(seed: int) -> list[int]:
        return generate(model, [PROMPTS[2]], 20, sampling=[Sampling(temperature=1.0, seed=seed)])[0]

    assert drawn(42) == drawn(42)
    assert drawn(42) != drawn(43)


def test_a_draw_after_recomputation_is_the_draw_it_would_have_been(pair: tuple[Any, PagedModel]) -> None:
    _, model = pair
    way = [Sampling(temperature=0.8, seed=42)]
    whole = generate(model, [PROMPTS[2]], 20, sampling=way)[0]
    # As after a preemption or a restart: what was generated so far is now part of what is computed anew.
    resumed = generate(model, [PROMPTS[2] + whole[:9]], 11, sampling=way)[0]
    assert resumed == whole[9:]


def test_a_step_gives_the_logits_after_the_last_token_alone(pair: tuple[Any, PagedModel]) -> None:
    _, model = pair
    runner, other = SequenceRunner(model, 9), SequenceRunner(model, 9)
    work = [(PagedSequence(), PROMPTS[1]), (PagedSequence(), PROMPTS[3])]
    again = [(PagedSequence(), PROMPTS[1]), (PagedSequence(), PROMPTS[3])]
    for last, every in zip(runner.step(work), other.all_logits(again), strict=True):
        assert torch.equal(last, every[-1])

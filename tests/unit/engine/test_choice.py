"""From hidden states to tokens: what rows that ask for their likeliest tokens get beside the others."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from executor.engine.choice import choose, choosing_of
from executor.engine.model_inputs import SlotState, Tables
from executor.engine.step import Sampling, Step, TableChanges, nothing

VOCABULARY = 40


def step(rows: int, **more: Any) -> Step:
    numbers = np.arange(rows, dtype=np.int64)
    sampling = Sampling(
        rows=numbers,
        temperature=np.zeros(rows, dtype=np.float32),
        top_k=np.zeros(rows, dtype=np.int64),
        top_p=np.ones(rows, dtype=np.float32),
        min_p=np.zeros(rows, dtype=np.float32),
        seeds=numbers,
        positions=numbers,
        **({"masked_rows": nothing(), "masked_ids": nothing()} | more),
    )
    ones = np.ones(rows, dtype=np.int64)
    return Step(1, numbers, ones, ones, ones, ones, TableChanges(nothing(), nothing(), nothing()), sampling)


def results(logits: torch.Tensor, given: Step) -> dict[str, Any]:
    model: Any = SimpleNamespace(logits=lambda hidden: hidden.clone())
    choosing = choosing_of(given, torch.from_numpy)
    assert choosing is not None
    state = SlotState(Tables(8, 4, 16), torch.device("cpu"))
    return choose(model, logits, choosing, state, VOCABULARY).results()


def test_rows_that_ask_get_their_likeliest_tokens_and_the_others_none() -> None:
    logits = torch.randn((4, 50), generator=torch.Generator().manual_seed(1))
    found = results(logits, step(4, ranked=np.array([1, 3]), ranking=6))
    expected = torch.log_softmax(logits, -1)[[1, 3], :VOCABULARY].topk(6)
    assert found["ranked_ids"].tolist() == expected.indices.tolist()
    assert found["ranked_logprobs"].tolist() == expected.values.tolist()
    assert found["ids"].tolist() == logits[:, :VOCABULARY].argmax(-1).tolist()
    assert set(results(logits, step(4))) == {"ids"}


def test_a_mask_changes_what_is_sampled_and_not_the_ranking() -> None:
    logits = torch.randn((2, 50), generator=torch.Generator().manual_seed(2))
    likeliest = int(logits[0, :VOCABULARY].argmax())
    masks = {"masked_rows": np.array([0]), "masked_ids": np.array([likeliest])}
    found = results(logits, step(2, ranked=np.array([0]), ranking=2, **masks))
    assert found["ids"][0] != likeliest
    assert found["ranked_ids"][0][0] == likeliest

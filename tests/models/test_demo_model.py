"""The demo model, whose weights `make test` installs: a real one, small enough for any machine."""

from typing import Any

import pytest
import torch

from benchmarks.demo_model import compare, demo_file, demo_prompts, demo_reference, demo_tokenizer, question
from executor.models.generate import PagedSequence, SequenceRunner, generate
from executor.models.loader import load_model
from executor.models.model import PagedModel


@pytest.fixture(scope="module")
def model() -> PagedModel:
    return load_model(demo_file())


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return demo_tokenizer()


def test_the_capital_of_france_is_paris(model: PagedModel, tokenizer: Any) -> None:
    answer = generate(model, [question(tokenizer)], 20, stop_ids=frozenset({tokenizer.eos_token_id}))[0]
    assert "Paris" in tokenizer.decode(answer)


def test_ids_are_transformers_wherever_its_choice_is_clear(model: PagedModel, tokenizer: Any) -> None:
    result = compare(model, demo_reference(), demo_prompts(tokenizer, 4), 32)
    assert result.tokens == 128
    assert result.wrong_beyond_gap == 0
    assert result.differing_prompts <= 1


def test_the_same_bits_in_a_batch_in_chunks_and_on_other_blocks(model: PagedModel, tokenizer: Any) -> None:
    first, second = demo_prompts(tokenizer, 2)[1], demo_prompts(tokenizer, 3)[1]
    alone = SequenceRunner(model, 30).all_logits([(PagedSequence(), first[:150])])[0]
    runner = SequenceRunner(model, 60, block_order=range(59, 0, -1))
    sequence, neighbour = PagedSequence(), PagedSequence()
    pieces = runner.all_logits([(sequence, first[:77])])
    pieces += runner.all_logits([(sequence, first[77:148]), (neighbour, second)])[:1]
    for token in first[148:150]:
        pieces += runner.all_logits([(neighbour, second[:1]), (sequence, [token])])[1:]
    assert torch.equal(torch.cat(pieces), alone)

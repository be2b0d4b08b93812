"""A sequence's logits, to the bit, whoever shares its steps, however it is cut, and wherever its blocks lie."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.models.generate import PagedSequence, SequenceRunner
from executor.models.loader import LoadOptions, load_model
from executor.models.model import PagedModel
from tests.models.checkpoints import configuration, random_ids, saved

TOKENS_PER_BLOCK = 16
NUM_BLOCKS = 24
MAX_TOKENS = 90
FAMILIES = ["llama", "qwen2-window", "qwen3", "phi3-longrope", "gemma2", "opt", "opt-350m"]


@dataclass(frozen=True)
class Plan:
    """How to compute some sequences: their lengths; in which step each gets how many tokens; where blocks lie."""

    lengths: tuple[int, ...]
    steps: tuple[tuple[tuple[int, int], ...], ...]
    """Of (sequence, tokens)."""
    block_order: tuple[int, ...]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    lengths = draw(st.lists(st.integers(1, MAX_TOKENS), min_size=1, max_size=4))
    left = dict(enumerate(lengths))
    steps = []
    # Mostly chunks, and single tokens now and then; a sequence may sit out a step.
    sizes = st.one_of(st.integers(1, 40), st.just(1), st.just(MAX_TOKENS))
    while left:
        rows = draw(st.lists(st.sampled_from(sorted(left)), min_size=1, max_size=len(left), unique=True))
        step = [(row, min(left[row], draw(sizes))) for row in rows]
        for row, count in step:
            left[row] -= count
            if not left[row]:
                del left[row]
        steps.append(tuple(step))
    order = draw(st.permutations(range(1, NUM_BLOCKS)))
    return Plan(tuple(lengths), tuple(steps), tuple(order))


@pytest.fixture(scope="module", params=[*FAMILIES, "llama-in-transformers"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PagedModel:
    name, _, transformers = request.param.partition("-in-")
    folder = tmp_path_factory.mktemp(request.param)
    saved(configuration(name), folder)
    return load_model(folder, LoadOptions(implementation="transformers" if transformers else "decoder"))


def logits_by(plan: Plan, model: PagedModel) -> list[torch.Tensor]:
    """Each sequence's logits. Every block starts full of NaN, so that nothing unwritten can be read unseen."""
    runner = SequenceRunner(model, NUM_BLOCKS, TOKENS_PER_BLOCK, plan.block_order)
    runner.pool[1:] = torch.nan
    everything = [random_ids(length, seed=row) for row, length in enumerate(plan.lengths)]
    sequences = [PagedSequence(rope_length=length) for length in plan.lengths]
    pieces: list[list[torch.Tensor]] = [[] for _ in plan.lengths]
    for step in plan.steps:
        work = []
        for row, count in step:
            start = len(sequences[row].ids)
            work.append((sequences[row], everything[row][start : start + count]))
        for (row, _), logits in zip(step, runner.all_logits(work), strict=True):
            pieces[row].append(logits)
    return [torch.cat(parts) for parts in pieces]


def alone(length: int, row: int, model: PagedModel) -> torch.Tensor:
    """A sequence's logits when nobody shares its one step."""
    runner = SequenceRunner(model, NUM_BLOCKS, TOKENS_PER_BLOCK)
    return runner.all_logits([(PagedSequence(rope_length=length), random_ids(length, seed=row))])[0]


@settings(max_examples=12)
@given(plan=plans())
def test_logits_are_the_same_bits_in_any_batch_chunking_and_placement(model: PagedModel, plan: Plan) -> None:
    for row, logits in enumerate(logits_by(plan, model)):
        assert torch.equal(logits, alone(plan.lengths[row], row, model))


def test_one_token_at_a_time_gives_the_bits_of_one_prefill(model: PagedModel) -> None:
    steps = tuple(((0, 1),) for _ in range(MAX_TOKENS))
    plan = Plan((MAX_TOKENS,), steps, tuple(range(NUM_BLOCKS - 1, 0, -1)))
    assert torch.equal(logits_by(plan, model)[0], alone(MAX_TOKENS, 0, model))


def test_a_long_prefill_gives_the_bits_of_its_chunks(model: PagedModel) -> None:
    plan = Plan((MAX_TOKENS, 33), (((0, 50),), ((1, 33), (0, 40))), tuple(range(1, NUM_BLOCKS)))
    for row, logits in enumerate(logits_by(plan, model)):
        assert torch.equal(logits, alone(plan.lengths[row], row, model))

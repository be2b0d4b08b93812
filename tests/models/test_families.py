"""Each family's logits, against transformers' on the same checkpoint."""

from pathlib import Path
from typing import Any

import pytest
import torch

from executor.models.batch import Chunk, step_input
from executor.models.decoder import Decoder
from executor.models.generate import PagedSequence, SequenceRunner
from executor.models.loader import load_model
from executor.models.model import PagedModel
from tests.models.checkpoints import CONFIGURATIONS, configuration, random_ids, reference_logits, saved

TOKENS_PER_BLOCK = 16
EDGES = (1, 15, 16, 17, 31, 32, 33, 48, 70)
"""Lengths around block edges, and beyond every window that the configurations have."""


@pytest.fixture(scope="module", params=sorted(CONFIGURATIONS))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, PagedModel]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    reference = saved(configuration(request.param), folder)
    return reference, load_model(folder)


def computed_logits(model: PagedModel, ids: list[int], cuts: list[int]) -> torch.Tensor:
    """Logits of a sequence that is computed in pieces which end at `cuts`."""
    runner = SequenceRunner(model, 8, TOKENS_PER_BLOCK, block_order=[5, 2, 7, 1, 6])
    sequence = PagedSequence(rope_length=len(ids))
    pieces = [ids[start:end] for start, end in zip([0, *cuts], [*cuts, len(ids)], strict=True)]
    return torch.cat([runner.all_logits([(sequence, piece)])[0] for piece in pieces])


def assert_same(computed: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(computed, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("length", EDGES)
def test_prefill_gives_transformers_logits(pair: tuple[Any, PagedModel], length: int) -> None:
    reference, model = pair
    ids = random_ids(length)
    assert_same(computed_logits(model, ids, []), reference_logits(reference, ids))


@pytest.mark.parametrize("cuts", [[16], [7, 23, 40, 41, 60], [1, 2, 3, 50], [15, 33, 48]])
def test_chunked_prefill_gives_transformers_logits(pair: tuple[Any, PagedModel], cuts: list[int]) -> None:
    reference, model = pair
    ids = random_ids(70, seed=1)
    assert_same(computed_logits(model, ids, cuts), reference_logits(reference, ids))


def test_decode_gives_transformers_logits(pair: tuple[Any, PagedModel]) -> None:
    reference, model = pair
    ids = random_ids(70, seed=2)
    assert_same(computed_logits(model, ids, list(range(13, 70))), reference_logits(reference, ids))


def test_chunks_and_decodes_of_many_sequences_share_a_step(pair: tuple[Any, PagedModel]) -> None:
    reference, model = pair
    lengths = (1, 20, 33, 47)
    everything = [random_ids(length + 3, seed=length) for length in lengths]
    runner = SequenceRunner(model, 20, TOKENS_PER_BLOCK)
    sequences = [PagedSequence(rope_length=len(ids)) for ids in everything]
    runner.hidden([(sequences[1], everything[1][:20]), (sequences[3], everything[3][:40])])
    mixed = [(0, 0, 1), (1, 20, 21), (2, 0, 33), (3, 40, 41)]
    logits = runner.all_logits([(sequences[row], everything[row][start:end]) for row, start, end in mixed])
    for (row, start, end), computed in zip(mixed, logits, strict=True):
        # The whole sequence's length, as the runner was told, and then the part that this step computed.
        assert_same(computed, reference_logits(reference, everything[row])[start:end])


def test_a_brief_model_has_a_layer_of_every_window_and_works_in_the_same_pool(pair: tuple[Any, PagedModel]) -> None:
    _, model = pair
    assert isinstance(model, Decoder)
    layers, windows = model.config.num_layers, model.config.attention.windows
    brief = model.brief()
    count = brief.config.num_layers
    assert min(2, layers) <= count <= layers
    assert set(windows[:count]) == set(windows)
    step = step_input([Chunk(random_ids(20, 0), 0, [1, 2])], TOKENS_PER_BLOCK)
    pool = torch.zeros(model.cache_shape.pool(3, TOKENS_PER_BLOCK), dtype=model.dtype)
    assert brief.forward(step.ids, step.positions, step.batch, pool).isfinite().all()
    written = pool.transpose(0, 1).flatten(1).any(1)
    assert written.tolist() == [layer < count for layer in range(layers)]

"""Models on a GPU, against transformers on a CPU in float32."""

from pathlib import Path

import pytest
import torch

from executor.models.generate import PagedSequence, SequenceRunner
from executor.models.loader import LoadOptions, load_model
from tests.models.checkpoints import CONFIGURATIONS, configuration, random_ids, reference_logits, saved

NAMES = sorted(CONFIGURATIONS)


def computed(folder: Path, ids: list[int], options: LoadOptions, cuts: list[int]) -> torch.Tensor:
    runner = SequenceRunner(load_model(folder, options), 8, block_order=[5, 2, 7, 1, 6])
    sequence = PagedSequence(rope_length=len(ids))
    pieces = [ids[start:end] for start, end in zip([0, *cuts], [*cuts, len(ids)], strict=True)]
    return torch.cat([runner.all_logits([(sequence, piece)])[0] for piece in pieces]).cpu()


@pytest.mark.parametrize("cuts", [[], [7, 23, 40, *range(60, 70)]])
@pytest.mark.parametrize("name", NAMES)
def test_float32_gives_transformers_logits(tmp_path: Path, name: str, cuts: list[int]) -> None:
    reference = saved(configuration(name), tmp_path)
    ids = random_ids(70)
    logits = computed(tmp_path, ids, LoadOptions(device="cuda", dtype=torch.float32), cuts)
    torch.testing.assert_close(logits, reference_logits(reference, ids), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("cuts", [[], [7, 23, 40, *range(60, 70)]])
@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_is_near_transformers_logits(tmp_path: Path, name: str, cuts: list[int]) -> None:
    reference = saved(configuration(name), tmp_path)
    ids = random_ids(70)
    logits = computed(tmp_path, ids, LoadOptions(device="cuda"), cuts)
    expected = reference_logits(reference, ids)
    # Eight bits of mantissa through three layers: a few hundredths of the logits' spread.
    assert (logits - expected).abs().mean() < 0.03 * expected.std()


@pytest.mark.parametrize("name", ["llama", "gemma2", "qwen3"])
def test_the_transformers_implementation_gives_the_same_logits(tmp_path: Path, name: str) -> None:
    reference = saved(configuration(name), tmp_path)
    ids = random_ids(70)
    options = LoadOptions(device="cuda", dtype=torch.float32, implementation="transformers")
    logits = computed(tmp_path, ids, options, [7, 23, 40, 41, 42])
    torch.testing.assert_close(logits, reference_logits(reference, ids), atol=1e-3, rtol=1e-3)


def test_random_weights_are_made_on_the_device(tmp_path: Path) -> None:
    configuration("llama").save_pretrained(tmp_path)
    model = load_model(tmp_path, LoadOptions(device="cuda", weights="random"))
    assert (model.device.type, model.dtype) == ("cuda", torch.bfloat16)
    logits = SequenceRunner(model, 3).step([(PagedSequence(), random_ids(20))])[0]
    assert torch.isfinite(logits).all()

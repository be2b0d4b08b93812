"""Rope: every scaling, in both spellings, against transformers' own; and lengths that are each sequence's own."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from executor.models.batch import Chunk, step_input
from executor.models.errors import UnsupportedModel
from executor.models.generate import PagedSequence, SequenceRunner
from executor.models.loader import LoadOptions, load_model
from executor.models.model import PagedModel
from executor.models.rope import Rope
from tests.models.checkpoints import LONGROPE, configuration, random_ids, reference_logits, reference_model, saved

SCALINGS: dict[str, dict[str, Any]] = {
    "none": {},
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    "yarn-tuned": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "mscale": 1.2,
        "mscale_all_dim": 0.7,
    },
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "longrope": {**LONGROPE, "original_max_position_embeddings": 32},
    "proportional": {"rope_type": "proportional", "partial_rotary_factor": 0.5},
}
LENGTHS = (5, 32, 33, 64, 65, 90, 127)


def configuration_file(folder: Path, scaling: dict[str, Any], key: str, spelling: str) -> Any:
    """A config.json as checkpoints have it: scaling under `key`, its type called `spelling`; and its configuration."""
    configuration("llama", max_position_embeddings=64).save_pretrained(folder)
    path = folder / "config.json"
    values = json.loads(path.read_text())
    del values["rope_parameters"]
    values["rope_theta"] = 5000.0
    if scaling:
        values[key] = {(spelling if name == "rope_type" else name): value for name, value in scaling.items()}
    path.write_text(json.dumps(values))
    return AutoConfig.from_pretrained(folder)


def rotations(rope: Rope, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    given = step_input([Chunk([0] * length, 0, range(1, 20))], 16)
    rows = rope.rows(given.positions, given.batch)
    return rows.cos[rows.rows], rows.sin[rows.rows]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("spelling", ["rope_type", "type"])
@pytest.mark.parametrize("scaling", sorted(SCALINGS))
def test_rotations_equal_transformers(tmp_path: Path, scaling: str, spelling: str, key: str, length: int) -> None:
    config = configuration_file(tmp_path, SCALINGS[scaling], key, spelling)
    positions = torch.arange(length)
    expected_cos, expected_sin = LlamaRotaryEmbedding(config)(torch.zeros(1), positions[None])
    cos, sin = rotations(Rope(config, 128, torch.device("cpu")), length)
    assert torch.equal(cos, expected_cos[0, :, : cos.shape[1]])
    assert torch.equal(sin, expected_sin[0, :, : sin.shape[1]])


def test_a_part_of_each_head_is_rotated_in_phi3(tmp_path: Path) -> None:
    config = configuration("phi3", partial_rotary_factor=0.5)
    model = saved(config, tmp_path)
    loaded = load_model(tmp_path)
    ids = random_ids(40)
    computed = SequenceRunner(loaded, 5).all_logits([(PagedSequence(), ids)])[0]
    torch.testing.assert_close(computed, reference_logits(model, ids), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("implementation", ["auto", "decoder", "transformers"])
def test_an_unknown_rope_type_is_refused_by_name(tmp_path: Path, implementation: Any) -> None:
    configuration_file(tmp_path, {"rope_type": "nonesuch", "factor": 2.0}, "rope_scaling", "type")
    with pytest.raises(UnsupportedModel, match="rope type 'nonesuch' is not one of default, linear"):
        load_model(tmp_path, LoadOptions(weights="random", implementation=implementation))


def test_a_rope_type_that_a_family_refuses_is_named_with_its_file(tmp_path: Path) -> None:
    configuration("phi3").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"rope_type": "default"', '"rope_type": "nonesuch"'))
    with pytest.raises(UnsupportedModel, match=r"(?s)config.json: .*nonesuch"):
        load_model(tmp_path, LoadOptions(weights="random"))


def test_scaling_stretches_the_longest_sequence(tmp_path: Path) -> None:
    longest = {}
    for name, scaling in SCALINGS.items():
        configuration_file(tmp_path, scaling, "rope_scaling", "rope_type")
        longest[name] = load_model(tmp_path, LoadOptions(weights="random")).max_length
    assert longest == {
        "none": 64, "default": 64, "linear": 192, "dynamic": 128, "yarn": 128, "yarn-tuned": 128, "llama3": 64,
        "longrope": 64, "proportional": 64,
    }  # fmt: skip


@pytest.fixture(scope="module", params=["dynamic", "longrope"])
def stretched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, PagedModel]:
    """A configuration whose rope depends on a sequence's length, and its model."""
    folder = tmp_path_factory.mktemp(request.param)
    parameters = {**SCALINGS[request.param], "rope_theta": 10000.0}
    limit = 32 if request.param == "dynamic" else 128
    config = configuration("llama", max_position_embeddings=limit, rope_parameters=parameters)
    saved(config, folder)
    return config, load_model(folder)


def test_each_sequence_is_rotated_by_its_own_length(stretched: tuple[Any, PagedModel]) -> None:
    config, model = stretched
    assert model.rope_depends_on_length
    runner = SequenceRunner(model, 20)
    prompts = [random_ids(length, seed=length) for length in (20, 60, 33, 32)]
    computed = runner.all_logits([(PagedSequence(rope_length=len(ids)), ids) for ids in prompts])
    for ids, logits in zip(prompts, computed, strict=True):
        # A fresh model each time: transformers' keeps the frequencies of the longest sequence it has seen.
        expected = reference_logits(reference_model(config), ids)
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


def test_chunks_and_decodes_rotate_as_their_whole_sequence(stretched: tuple[Any, PagedModel]) -> None:
    config, model = stretched
    ids = random_ids(60)
    sequence, runner = PagedSequence(rope_length=60), SequenceRunner(model, 6)
    pieces = [ids[:10], ids[10:31], ids[31:50], *([token] for token in ids[50:])]
    logits = torch.cat([runner.all_logits([(sequence, piece)])[0] for piece in pieces])
    torch.testing.assert_close(logits, reference_logits(reference_model(config), ids), atol=1e-5, rtol=1e-5)


def test_lengths_of_one_regime_rotate_alike_and_others_do_not(stretched: tuple[Any, PagedModel]) -> None:
    config, model = stretched
    rope = Rope(config, model.max_length, torch.device("cpu"))
    for first in (20, 32, 33, 40):
        for second in (20, 32, 33, 40):
            rows = []
            for length in (first, second):
                given = step_input([Chunk([0] * 9, 0, [1], rope_length=length)], 16)
                found = rope.rows(given.positions, given.batch)
                rows.append(found.cos[found.rows])
            assert torch.equal(*rows) == (model.rope_regime(first) == model.rope_regime(second))


def test_a_batch_without_rope_lengths_is_refused_where_they_matter(stretched: tuple[Any, PagedModel]) -> None:
    config, _ = stretched
    given = step_input([Chunk([0], 0, [1])], 16)
    batch = type(given.batch)(**{**given.batch.__dict__, "rope_lengths": None})
    with pytest.raises(ValueError, match="rope_lengths"):
        Rope(config, 64, torch.device("cpu")).rows(given.positions, batch)

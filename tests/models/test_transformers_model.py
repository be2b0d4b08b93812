"""Models that run through transformers' own code, over the paged cache."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from executor.models.errors import MissingTensor, UnsupportedModel, UnusedTensor
from executor.models.generate import PagedSequence, SequenceRunner
from executor.models.loader import LoadOptions, load_model
from executor.models.model import PagedModel
from executor.models.transformers_model import TransformersModel
from tests.models.checkpoints import (
    SMALL,
    SMALL_OPT,
    configuration,
    random_ids,
    reference_logits,
    reference_model,
    saved,
)
from tests.models.test_loader import edit
from tests.models.test_rope import SCALINGS

OTHERS: dict[str, Any] = {
    "cohere": transformers.CohereConfig(**SMALL, logit_scale=0.2),
    "gemma3": transformers.Gemma3TextConfig(**{**SMALL, "num_hidden_layers": 6}, head_dim=16, sliding_window=20),
    "granite": transformers.GraniteConfig(
        **SMALL, logits_scaling=3.0, attention_multiplier=0.3, embedding_multiplier=2.0
    ),
    "olmo2": transformers.Olmo2Config(**SMALL),
    "stablelm": transformers.StableLmConfig(**SMALL),
    "starcoder2": transformers.Starcoder2Config(**SMALL, sliding_window=24),
}
"""Families that the decoder does not cover: capped or scaled logits, norms in other places, windows, plain layers."""


@pytest.fixture(scope="module", params=sorted(OTHERS))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, PagedModel]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    return saved(OTHERS[request.param], folder), load_model(folder)


@pytest.mark.parametrize("cuts", [[], [7, 16, 33, 40, 41, 42, 43]])
def test_what_the_decoder_does_not_cover_gives_transformers_logits(
    pair: tuple[Any, PagedModel], cuts: list[int]
) -> None:
    reference, model = pair
    assert isinstance(model, TransformersModel)
    ids, other = random_ids(60), random_ids(30, seed=1)
    runner, sequence, neighbour = SequenceRunner(model, 10), PagedSequence(), PagedSequence()
    pieces = []
    for start, end in zip([0, *cuts], [*cuts, 60], strict=True):
        work = [(neighbour, other[len(neighbour.ids) :][:5]), (sequence, ids[start:end])]
        pieces.append(runner.all_logits([(rows, tokens) for rows, tokens in work if tokens])[-1])
    torch.testing.assert_close(torch.cat(pieces), reference_logits(reference, ids), atol=1e-5, rtol=1e-5)


def test_the_decoders_families_run_through_transformers_where_asked(tmp_path: Path) -> None:
    reference = saved(configuration("gemma2"), tmp_path)
    model = load_model(tmp_path, LoadOptions(implementation="transformers"))
    assert isinstance(model, TransformersModel)
    ids = random_ids(60)
    computed = SequenceRunner(model, 5).all_logits([(PagedSequence(), ids)])[0]
    torch.testing.assert_close(computed, reference_logits(reference, ids), atol=1e-5, rtol=1e-5)


def test_random_weights_need_nothing_but_a_configuration(tmp_path: Path) -> None:
    OTHERS["olmo2"].save_pretrained(tmp_path)
    first, again, other = (
        SequenceRunner(load_model(tmp_path, LoadOptions(weights="random", seed=seed)), 3).step(
            [(PagedSequence(), random_ids(20))]
        )[0]
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.allclose(first, other, atol=1e-3)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    saved(OTHERS["olmo2"], tmp_path)
    edit(tmp_path, lambda tensors: tensors.pop("model.layers.1.self_attn.k_proj.weight"))
    with pytest.raises(MissingTensor, match=r"model.layers.1.self_attn.k_proj.weight"):
        load_model(tmp_path)


def test_an_unused_tensor_is_named(tmp_path: Path) -> None:
    saved(OTHERS["olmo2"], tmp_path)
    edit(tmp_path, lambda tensors: tensors.update({"model.layers.1.extra.weight": torch.ones(3)}))
    with pytest.raises(UnusedTensor, match=r"model.layers.1.extra.weight"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["bloom", "chunks", "gpt_oss", "mamba", "opt", "silent window"])
def test_a_model_that_the_paged_kernels_cannot_serve_is_refused_at_load(tmp_path: Path, name: str) -> None:
    configs: dict[str, Any] = {
        # Attention by biases that grow with distance, outside the attention function.
        "bloom": lambda: transformers.BloomConfig(vocab_size=131, hidden_size=64, n_layer=2, n_head=4),
        # Sinks.
        "gpt_oss": lambda: transformers.GptOssConfig(**SMALL, head_dim=16, num_local_experts=2, num_experts_per_tok=1),
        # Layers that only a mask would keep from what they must not see.
        "chunks": lambda: transformers.Olmo2Config(**{**SMALL, "layer_types": ["chunked_attention"] * 3}),
        "silent window": lambda: transformers.Olmo2Config(**{**SMALL, "sliding_window": 16}),
        # A head that reaches into the body.
        "opt": lambda: transformers.OPTConfig(**SMALL_OPT),
        # No attention at all.
        "mamba": lambda: transformers.MambaConfig(vocab_size=131, hidden_size=64, num_hidden_layers=2),
    }
    configs[name]().save_pretrained(tmp_path)
    reasons = {
        "bloom": "max_position_embeddings",
        "gpt_oss": "attention with s_aux",
        "chunks": "chunked_attention",
        "silent window": "does not tell its attention function the window of layer 0",
        "mamba": "num_attention_heads",
        "opt": "cannot be run in parts",
    }
    with pytest.raises(UnsupportedModel, match=reasons[name]):
        load_model(tmp_path, LoadOptions(weights="random", implementation="transformers"))


def test_heads_that_do_not_divide_are_refused(tmp_path: Path) -> None:
    config = transformers.Olmo2Config(**{**SMALL, "hidden_size": 33 * 8, "num_attention_heads": 33})
    config.save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModel, match="num_attention_heads is 33 and num_key_value_heads 2"):
        load_model(tmp_path, LoadOptions(weights="random"))


@pytest.mark.parametrize(("scaling", "longest"), [("dynamic", 64), ("longrope", 32), ("yarn", 128)])
def test_a_rope_that_depends_on_length_limits_sequences_to_one_regime(
    tmp_path: Path, scaling: str, longest: int
) -> None:
    parameters = {**SCALINGS[scaling], "rope_theta": 10000.0}
    config = transformers.Olmo2Config(**{**SMALL, "max_position_embeddings": 64}, rope_parameters=parameters)
    saved(config, tmp_path)
    model = load_model(tmp_path)
    assert model.max_length == longest
    assert not model.rope_depends_on_length
    everything = [random_ids(length) for length in (longest, 10)]
    computed = SequenceRunner(model, 12).all_logits([(PagedSequence(), ids) for ids in everything])
    for ids, logits in zip(everything, computed, strict=True):
        torch.testing.assert_close(logits, reference_logits(reference_model(config), ids), atol=1e-5, rtol=1e-5)


def test_a_configuration_that_names_foreign_code_does_not_run_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(
            {"model_type": "nonesuch", "auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}}
        )
    )
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(UnsupportedModel):
        load_model(tmp_path)
    assert not (tmp_path / "ran").exists()

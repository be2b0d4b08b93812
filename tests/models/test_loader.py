"""What a checkpoint may lack, hold too much of, or have wrong, and what is said then."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from executor.models.checkpoint import INDEX_FILE, SINGLE_FILE
from executor.models.errors import DamagedCheckpoint, MissingTensor, UnsupportedModel, UnusedTensor
from executor.models.generate import PagedSequence, SequenceRunner
from executor.models.loader import LoadOptions, load_model
from executor.models.model import PagedModel
from tests.models.checkpoints import configuration, random_ids, reference_logits, saved

Tensors = dict[str, torch.Tensor]
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def logits_of(model: PagedModel, ids: list[int]) -> torch.Tensor:
    return SequenceRunner(model, 4).all_logits([(PagedSequence(), ids)])[0]


def assert_answers(folder: Path, expected: torch.Tensor, ids: list[int]) -> None:
    torch.testing.assert_close(logits_of(load_model(folder), ids), expected, atol=1e-5, rtol=1e-5)


def edit(folder: Path, change: Callable[[Tensors], object]) -> None:
    tensors = load_file(folder / SINGLE_FILE)
    change(tensors)
    save_file(tensors, folder / SINGLE_FILE, metadata={"format": "pt"})


def shards_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("model-*.safetensors"))


@pytest.fixture
def sharded(tmp_path: Path) -> tuple[Path, torch.Tensor]:
    """A checkpoint of two shards, and transformers' logits."""
    model = saved(configuration("llama"), tmp_path, max_shard_size="250KB")
    assert len(shards_of(tmp_path)) == 2
    return tmp_path, reference_logits(model, random_ids(20))


def test_shards_are_read_by_their_index(sharded: tuple[Path, torch.Tensor]) -> None:
    assert_answers(*sharded, random_ids(20))


def test_a_missing_shard_is_named(sharded: tuple[Path, torch.Tensor]) -> None:
    folder, _ = sharded
    gone = shards_of(folder)[1]
    gone.unlink()
    with pytest.raises(DamagedCheckpoint, match=rf"{gone.name}: the file is missing"):
        load_model(folder)


def test_a_truncated_shard_is_named(sharded: tuple[Path, torch.Tensor]) -> None:
    folder, _ = sharded
    cut = shards_of(folder)[0]
    cut.write_bytes(cut.read_bytes()[:-1000])
    with pytest.raises(DamagedCheckpoint, match=cut.name):
        load_model(folder)


def test_an_empty_shard_is_named(sharded: tuple[Path, torch.Tensor]) -> None:
    folder, _ = sharded
    cut = shards_of(folder)[0]
    cut.write_bytes(b"")
    with pytest.raises(DamagedCheckpoint, match=cut.name):
        load_model(folder)


def test_a_tensor_that_its_shard_lacks_is_named(sharded: tuple[Path, torch.Tensor]) -> None:
    folder, _ = sharded
    shard = shards_of(folder)[1]
    tensors = load_file(shard)
    name = sorted(tensors)[0]
    del tensors[name]
    save_file(tensors, shard)
    with pytest.raises(DamagedCheckpoint, match=rf"{shard.name}: tensor {name}"):
        load_model(folder)


def test_a_stray_file_changes_nothing(sharded: tuple[Path, torch.Tensor]) -> None:
    folder, expected = sharded
    zeros = {name: torch.zeros_like(tensor) for path in shards_of(folder) for name, tensor in load_file(path).items()}
    save_file(zeros, folder / "model-00003-of-00002.safetensors")
    save_file(zeros, folder / SINGLE_FILE)
    assert_answers(folder, expected, random_ids(20))


def test_a_tensor_beyond_the_index_changes_nothing(sharded: tuple[Path, torch.Tensor]) -> None:
    folder, expected = sharded
    first, second = shards_of(folder)
    duplicate = sorted(load_file(first))[0]
    tensors = load_file(second)
    tensors[duplicate] = torch.zeros(3, 3)
    save_file(tensors, second)
    assert_answers(folder, expected, random_ids(20))


def test_a_broken_index_is_named(sharded: tuple[Path, torch.Tensor]) -> None:
    folder, _ = sharded
    (folder / INDEX_FILE).write_text('{"weight_map": [1')
    with pytest.raises(DamagedCheckpoint, match=INDEX_FILE):
        load_model(folder)


def test_an_index_reads_no_file_outside_its_folder(sharded: tuple[Path, torch.Tensor]) -> None:
    folder, _ = sharded
    inside = folder / "inside"
    inside.mkdir()
    (folder / "config.json").rename(inside / "config.json")
    index = json.loads((folder / INDEX_FILE).read_text())
    index["weight_map"] = {name: f"../{shard}" for name, shard in index["weight_map"].items()}
    (inside / INDEX_FILE).write_text(json.dumps(index))
    with pytest.raises(DamagedCheckpoint, match=r"inside/model-00001-of-00002.safetensors: the file is missing"):
        load_model(inside)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    saved(configuration("llama"), tmp_path)
    edit(tmp_path, lambda tensors: tensors.pop("model.layers.1.self_attn.k_proj.weight"))
    with pytest.raises(MissingTensor, match=r"model.layers.1.self_attn.k_proj.weight of llama is missing"):
        load_model(tmp_path)


def test_an_unused_tensor_is_named(tmp_path: Path) -> None:
    saved(configuration("llama"), tmp_path)
    edit(tmp_path, lambda tensors: tensors.update({"model.layers.1.self_attn.q_norm.weight": torch.ones(16)}))
    with pytest.raises(UnusedTensor, match=r"no use for tensor model.layers.1.self_attn.q_norm.weight"):
        load_model(tmp_path)


def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path: Path) -> None:
    saved(configuration("llama"), tmp_path)
    edit(tmp_path, lambda tensors: tensors.update({"model.norm.weight": torch.ones(65)}))
    with pytest.raises(MissingTensor, match=r"model.norm.weight has shape \[65\]; config.json asks for \[64\]"):
        load_model(tmp_path)


def test_inverse_frequencies_of_older_checkpoints_are_left_alone(tmp_path: Path) -> None:
    model = saved(configuration("llama"), tmp_path)
    edit(tmp_path, lambda tensors: tensors.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}))
    assert_answers(tmp_path, reference_logits(model, random_ids(20)), random_ids(20))


def test_a_model_saved_without_its_head_is_read(tmp_path: Path) -> None:
    model = saved(configuration("smollm2"), tmp_path)
    model.model.save_pretrained(tmp_path)
    names = load_file(tmp_path / SINGLE_FILE)
    assert "embed_tokens.weight" in names
    assert_answers(tmp_path, reference_logits(model, random_ids(20)), random_ids(20))


def test_a_tied_model_needs_no_head(tmp_path: Path) -> None:
    model = saved(configuration("smollm2"), tmp_path)
    assert HEAD not in load_file(tmp_path / SINGLE_FILE)
    assert_answers(tmp_path, reference_logits(model, random_ids(20)), random_ids(20))


def test_a_tied_model_may_carry_its_head(tmp_path: Path) -> None:
    model = saved(configuration("smollm2"), tmp_path)
    edit(tmp_path, lambda tensors: tensors.update({HEAD: tensors[EMBEDDING].clone()}))
    assert_answers(tmp_path, reference_logits(model, random_ids(20)), random_ids(20))


@pytest.mark.parametrize("kept", ["both", "head"])
def test_a_tied_model_with_another_head_answers_as_in_transformers(tmp_path: Path, kept: str) -> None:
    config = configuration("smollm2")
    saved(config, tmp_path)

    def change(tensors: Tensors) -> None:
        tensors[HEAD] = tensors[EMBEDDING].flip(0).contiguous()
        if kept == "head":
            del tensors[EMBEDDING]

    edit(tmp_path, change)
    reference = type(saved(config, tmp_path / "other")).from_pretrained(tmp_path, attn_implementation="eager")
    assert_answers(tmp_path, reference_logits(reference, random_ids(20)).detach(), random_ids(20))


def test_an_untied_model_without_a_head_is_refused_by_name(tmp_path: Path) -> None:
    saved(configuration("llama"), tmp_path)
    edit(tmp_path, lambda tensors: tensors.pop(HEAD))
    with pytest.raises(MissingTensor, match=HEAD):
        load_model(tmp_path)


def test_heads_that_do_not_divide_are_refused(tmp_path: Path) -> None:
    configuration("llama", hidden_size=33 * 8, num_attention_heads=33).save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModel, match=r"num_attention_heads is 33 and num_key_value_heads 2"):
        load_model(tmp_path, LoadOptions(weights="random"))


def test_the_cache_is_sized_by_the_head_size_that_the_configuration_states(tmp_path: Path) -> None:
    saved(configuration("qwen3"), tmp_path)
    model = load_model(tmp_path)
    assert model.cache_shape.pool(10, 16) == (10, 3, 2, 2, 16, 32)


def test_a_folder_without_a_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(DamagedCheckpoint, match=r"config.json: the file is missing"):
        load_model(tmp_path)


def test_a_broken_configuration_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DamagedCheckpoint, match=r"config.json"):
        load_model(tmp_path)


def test_a_kind_of_model_that_nobody_knows_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "nonesuch"}')
    with pytest.raises(UnsupportedModel, match=r"nonesuch"):
        load_model(tmp_path)


def test_a_folder_without_weights_says_what_it_found(tmp_path: Path) -> None:
    configuration("llama").save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(DamagedCheckpoint, match=r"neither model.safetensors .*found config.json, .*pytorch_model.bin"):
        load_model(tmp_path)


def test_a_path_that_is_neither_folder_nor_gguf_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"nowhere: neither a folder nor a .gguf file"):
        load_model(tmp_path / "nowhere")


def test_weights_become_the_dtype_that_is_asked_for(tmp_path: Path) -> None:
    saved(configuration("qwen2"), tmp_path)
    model = load_model(tmp_path, LoadOptions(dtype=torch.float16))
    assert model.dtype == torch.float16
    assert logits_of(model, random_ids(5)).dtype == torch.float32


@pytest.mark.parametrize("name", ["llama", "gemma2", "opt-350m", "qwen3"])
def test_random_weights_need_nothing_but_a_configuration(tmp_path: Path, name: str) -> None:
    configuration(name).save_pretrained(tmp_path)
    first, again, other = (
        logits_of(load_model(tmp_path, LoadOptions(weights="random", seed=seed)), random_ids(20)) for seed in (1, 1, 2)
    )
    assert torch.isfinite(first).all()
    assert first.std() > 0.01
    assert torch.equal(first, again)
    assert not torch.allclose(first, other, atol=1e-3)


def test_a_sequence_may_be_limited_to_fewer_tokens_but_not_to_more(tmp_path: Path) -> None:
    configuration("llama").save_pretrained(tmp_path)
    assert load_model(tmp_path, LoadOptions(weights="random", max_length=50)).max_length == 50
    with pytest.raises(UnsupportedModel, match=r"max_length is 129; this model allows 1 to 128 tokens"):
        load_model(tmp_path, LoadOptions(weights="random", max_length=129))


def test_quantised_weights_are_refused_by_the_decoder(tmp_path: Path) -> None:
    config = configuration("llama")
    config.quantization_config = {"quant_method": "gptq", "bits": 4}
    config.save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModel, match=r"quantization_config"):
        load_model(tmp_path, LoadOptions(implementation="decoder"))

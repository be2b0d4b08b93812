"""GGUF files: the same model as the one they were made from, converted once and never half."""

import os
import threading
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf.quants import dequantize, quantize
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast

from executor.models import gguf_conversion
from executor.models.errors import DamagedCheckpoint, MissingTensor, UnsupportedModel, UnusedTensor
from executor.models.generate import PagedSequence, SequenceRunner
from executor.models.gguf_folder import converted_folder
from executor.models.loader import load_model, model_folder
from executor.models.user_cache import cache_root
from tests.models.checkpoints import SMALL, configuration, random_ids, reference_logits, reference_model
from tests.models.gguf_files import ARCHITECTURES, write_gguf

SIZES: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96}
"""Multiples of 32, which is what quantised rows come in."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pagehold" / "gguf"


def tiny(name: str, **changes: Any) -> Any:
    # What the format has no field for stands at the values that its programs assume.
    fixed = {"gemma2": {"query_pre_attn_scalar": 256}, "qwen2": {"hidden_size": 112}}.get(name, {})
    return reference_model(configuration(name, **{**SIZES, **fixed, **changes}))


def computed(path: Path, ids: list[int]) -> torch.Tensor:
    return SequenceRunner(load_model(path), 5).all_logits([(PagedSequence(rope_length=len(ids)), ids)])[0]


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_a_file_gives_the_logits_of_the_model_it_was_made_from(tmp_path: Path, name: str) -> None:
    model = tiny(name)
    write_gguf(tmp_path / "tiny.gguf", model)
    ids = random_ids(60)
    torch.testing.assert_close(
        computed(tmp_path / "tiny.gguf", ids), reference_logits(model, ids), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "F16", "BF16"])
def test_quantised_weights_give_the_logits_of_the_rounded_model(tmp_path: Path, kind: str) -> None:
    model = tiny("llama")
    quantisation = gguf.GGMLQuantizationType[kind]
    write_gguf(tmp_path / "tiny.gguf", model, quantisation=quantisation)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            rounded = dequantize(quantize(parameter.numpy(), quantisation), quantisation)
            parameter.copy_(torch.from_numpy(rounded))
    ids = random_ids(40)
    torch.testing.assert_close(
        computed(tmp_path / "tiny.gguf", ids), reference_logits(model, ids), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("kind", "stored"), [("F16", torch.float16), ("BF16", torch.bfloat16), ("Q8_0", torch.float32)]
)
def test_weights_of_16_bits_are_kept_in_16_bits(tmp_path: Path, kind: str, stored: torch.dtype) -> None:
    write_gguf(tmp_path / "tiny.gguf", tiny("llama"), quantisation=gguf.GGMLQuantizationType[kind])
    tensors = load_file(model_folder(tmp_path / "tiny.gguf") / "model-00001.safetensors")
    assert tensors["model.layers.0.self_attn.q_proj.weight"].dtype == stored


def test_a_large_quantised_model_becomes_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executor.models.gguf_file.FLOAT32_LIMIT", 100_000)
    write_gguf(tmp_path / "tiny.gguf", tiny("llama"), quantisation=gguf.GGMLQuantizationType.Q8_0)
    tensors = load_file(model_folder(tmp_path / "tiny.gguf") / "model-00001.safetensors")
    assert tensors["model.layers.0.self_attn.q_proj.weight"].dtype == torch.bfloat16


def test_a_model_of_several_shards_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_conversion, "SHARD_BYTES", 60_000)
    model = tiny("qwen2")
    write_gguf(tmp_path / "tiny.gguf", model)
    folder = model_folder(tmp_path / "tiny.gguf")
    assert len(list(folder.glob("model-*.safetensors"))) > 2
    ids = random_ids(40)
    torch.testing.assert_close(
        computed(tmp_path / "tiny.gguf", ids), reference_logits(model, ids), atol=1e-5, rtol=1e-5
    )


def test_the_tokenizer_comes_along(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", tiny("llama"))
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model_folder(tmp_path / "tiny.gguf"))
    ids = tokenizer("in the end", add_special_tokens=False)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["in", "Ġthe", "Ġ", "e", "n", "d"]
    assert tokenizer.decode(ids) == "in the end"


def test_a_file_without_a_vocabulary_is_converted(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", tiny("llama"), tokenizer=False)
    assert {path.name for path in model_folder(tmp_path / "tiny.gguf").iterdir()} == {
        "config.json", "model-00001.safetensors", "model.safetensors.index.json",
    }  # fmt: skip


def test_factors_of_llama_3_are_applied(tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32, "rope_theta": 10000.0,
    }  # fmt: skip
    model = tiny("llama", rope_parameters=scaling)
    plain = 1.0 / 10000.0 ** (torch.arange(0, 16, 2) / 16)
    factors = (plain / model.model.rotary_emb.inv_freq).float().numpy()
    assert factors.max() > 7
    write_gguf(tmp_path / "tiny.gguf", model, extra={"rope_freqs.weight": factors})
    ids = random_ids(60)
    torch.testing.assert_close(
        computed(tmp_path / "tiny.gguf", ids), reference_logits(model, ids), atol=1e-5, rtol=1e-5
    )


def test_the_same_content_is_converted_once_whatever_its_name(tmp_path: Path, own_cache: Path) -> None:
    write_gguf(tmp_path / "one.gguf", tiny("llama"))
    (tmp_path / "two.gguf").write_bytes((tmp_path / "one.gguf").read_bytes())
    folder = converted_folder(tmp_path / "one.gguf")
    made = os.stat(folder / "config.json").st_ino
    assert converted_folder(tmp_path / "two.gguf") == folder
    assert os.stat(folder / "config.json").st_ino == made
    assert folder.parent == own_cache == cache_root() / "gguf"


def test_other_content_is_another_conversion(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", tiny("llama"))
    first = converted_folder(tmp_path / "tiny.gguf")
    (tmp_path / "tiny.gguf").unlink()
    write_gguf(tmp_path / "tiny.gguf", tiny("qwen2"))
    assert converted_folder(tmp_path / "tiny.gguf") != first


def test_two_at_once_convert_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(tmp_path / "tiny.gguf", tiny("llama"))
    converted = []
    convert = gguf_conversion.convert

    def counted(*arguments: Any) -> None:
        converted.append(1)
        convert(*arguments)

    monkeypatch.setattr(gguf_conversion, "convert", counted)
    folders: list[Path] = []
    threads = [
        threading.Thread(target=lambda: folders.append(converted_folder(tmp_path / "tiny.gguf"))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(folders)) == 1
    assert len(folders) == 2
    assert converted == [1]


def test_a_conversion_that_was_interrupted_is_done_again(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gguf(tmp_path / "tiny.gguf", tiny("llama"))

    class PowerCut(BaseException):
        pass

    def die(*_: object) -> None:
        raise PowerCut

    with monkeypatch.context() as patched:
        # As after a power cut: what was written stays where it is.
        patched.setattr(gguf_conversion, "_flush", die)
        patched.setattr("shutil.rmtree", lambda *_, **__: None)
        with pytest.raises(PowerCut):
            converted_folder(tmp_path / "tiny.gguf")
    left = [path for path in own_cache.iterdir() if path.is_dir()]
    assert len(left) == 1
    assert left[0].name.endswith(".unfinished")
    folder = converted_folder(tmp_path / "tiny.gguf")
    assert [path for path in own_cache.iterdir() if path.is_dir()] == [folder]
    assert load_model(folder).vocab_size == SMALL["vocab_size"]


def test_a_truncated_file_is_named_and_leaves_nothing_behind(tmp_path: Path, own_cache: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny("llama"))
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(DamagedCheckpoint, match=r"tiny.gguf"):
        load_model(path)
    assert [entry for entry in own_cache.iterdir() if entry.is_dir()] == []


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all" * 10])
def test_a_file_that_is_no_gguf_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tiny.gguf").write_bytes(content)
    with pytest.raises(DamagedCheckpoint, match=r"tiny.gguf"):
        load_model(tmp_path / "tiny.gguf")


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", tiny("llama"), without="blk.1.attn_k.weight")
    with pytest.raises(MissingTensor, match=r"tensor blk.1.attn_k.weight of llama is missing"):
        load_model(tmp_path / "tiny.gguf")


def test_an_unused_tensor_is_named(tmp_path: Path) -> None:
    extra = {"blk.1.attn_q_norm.weight": np.ones(16, np.float32)}
    write_gguf(tmp_path / "tiny.gguf", tiny("llama"), extra=extra)
    with pytest.raises(UnusedTensor, match=r"no use for tensor blk.1.attn_q_norm.weight"):
        load_model(tmp_path / "tiny.gguf")


def test_an_architecture_that_the_decoder_lacks_is_refused_by_name(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "nonesuch")
    writer.add_block_count(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UnsupportedModel, match="nonesuch"):
        load_model(tmp_path / "tiny.gguf")

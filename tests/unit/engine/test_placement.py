"""Where an engine computes, and how it comes by its pool there."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
import torch

from blockmgr.arena import ArenaError, NoSuchGpu
from executor.engine import joining
from executor.engine.gpu import placement
from executor.engine.gpu.placement import Place, settle_place
from executor.engine.joining import join_pool
from executor.engine.loading import Prepared
from executor.engine.model_source import ModelSource
from executor.engine.settings import EngineSettings
from executor.engine.sizing import GPU_SHARE, CacheFormat
from executor.models.config import CacheShape
from executor.models.loader import LoadOptions
from pagehold.blockmgr.v1 import pool_pb2

UUID, OTHER = "GPU-11111111-0000-0000-0000-000000000000", "GPU-22222222-0000-0000-0000-000000000000"
CACHE = CacheFormat(CacheShape(2, 3, 8), torch.bfloat16, 1000)


class Refusal(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine with two GPUs, as far as the choice of one goes. Returns what was done."""
    done: list[str] = []

    def find(uuid: str) -> None:
        if uuid not in (UUID, OTHER):
            raise NoSuchGpu(f"GPU {uuid} is not in this machine: it has {UUID}, {OTHER}")

    def visible() -> list[str]:
        wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
        return [UUID, OTHER] if wanted is None else [{"1": OTHER}.get(wanted, wanted)]

    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: done.append(str(device)))
    monkeypatch.setattr(placement, "find_gpu", find)
    monkeypatch.setattr(placement, "visible_gpus", visible)
    monkeypatch.setattr(placement, "ordinal_of", lambda uuid: visible().index(uuid))
    monkeypatch.setattr(placement, "pin_cublas", lambda: done.append("pinned"))
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    return done


def test_without_a_gpu_it_is_the_cpu_unless_a_gpu_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)
    assert settle_place("auto") == settle_place("cpu") == Place(torch.device("cpu"))
    with pytest.raises(ArenaError, match=f"device is {UUID}, but this torch"):
        settle_place(UUID)


def test_the_first_gpu_that_may_be_used_is_taken(machine: list[str]) -> None:
    assert settle_place("auto") == Place(torch.device("cuda", 0), OTHER)
    assert machine == ["pinned", "cuda:0"]


def test_a_uuid_counts_whatever_devices_are_visible(machine: list[str]) -> None:
    assert settle_place(UUID, same_bits=False) == Place(torch.device("cuda", 0), UUID)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == UUID
    assert machine == ["cuda:0"]
    with pytest.raises(NoSuchGpu, match="GPU-3 is not in this machine"):
        settle_place("GPU-3")


class Joining:
    """What an engine does to join a pool, noted down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, exists: bool) -> None:
        self.done: list[str] = []
        self.proposed: list[pool_pb2.PoolSpec] = []
        self.exists = exists
        self.model: Any = SimpleNamespace()
        monkeypatch.setattr(joining, "register", self.register)
        monkeypatch.setattr(joining, "load", self.load)
        monkeypatch.setattr(joining, "memory_left", self.left)

    def register(self, folder: Path, name: str, spec: pool_pb2.PoolSpec, **options: Any) -> Any:
        self.done.append("asked" if options["must_exist"] else "registered")
        if options["must_exist"] and not self.exists:
            raise Refusal(grpc.StatusCode.NOT_FOUND)
        self.proposed.append(spec)
        pool = pool_pb2.Pool(name="default", geometry=spec.geometry)
        return SimpleNamespace(epoch=1, response=SimpleNamespace(pool=pool, created=True, waiting_sequences=0))

    def load(self, prepared: Prepared) -> Any:
        self.done.append("loaded")
        return self.model

    def left(self, *arguments: Any, **options: Any) -> int:
        self.done.append("tried")
        return 5000 * CACHE.block_bytes(16)

    def join(self, place: Place, **settings: Any) -> Prepared:
        prepared = Prepared(ModelSource(Path("/"), "m"), LoadOptions(), "r", CACHE)
        return join_pool(EngineSettings.load(**settings), place, prepared)[1]


GPU = Place(torch.device("cuda", 0), UUID)


def test_on_a_gpu_a_new_pool_is_what_the_largest_steps_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Joining(monkeypatch, exists=False)
    assert world.join(GPU, max_running=500).model is world.model
    assert world.done == ["asked", "loaded", "tried", "registered"]
    assert world.proposed[0].geometry.device_blocks == int(5000 * GPU_SHARE)
    assert [shard.gpu_uuid for shard in world.proposed[0].shards] == [UUID]
    assert world.join(GPU, max_running=500, kv_memory=0.5).model is world.model
    assert world.proposed[1].geometry.device_blocks == 2500


def test_a_pool_that_exists_is_joined_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Joining(monkeypatch, exists=True)
    assert world.join(GPU).model is None
    assert world.done == ["asked"]


@pytest.mark.parametrize("settings", [{"blocks": 77}, {"kv_memory": 77.5 * CACHE.block_bytes(16)}])
def test_a_size_that_is_set_needs_no_trial(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> None:
    world = Joining(monkeypatch, exists=False)
    assert world.join(GPU, **settings).model is None
    assert world.done == ["registered"]
    assert world.proposed[0].geometry.device_blocks == 77


def test_on_a_cpu_the_pool_is_proposed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Joining(monkeypatch, exists=False)
    assert world.join(Place(torch.device("cpu"))).model is None
    assert world.done == ["registered"]
    assert not world.proposed[0].shards


def test_a_gpu_has_defaults_of_its_own_and_what_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGEHOLD_ENGINE_CHUNK", "300")
    settings = EngineSettings.load(max_running=100, model="x").on_gpu()
    assert (settings.max_running, settings.step_tokens, settings.chunk, settings.model) == (100, 2048, 300, "x")
    assert EngineSettings.load(model="x").on_gpu().max_running == 512

"""Several samples of one prompt: computed once, shared as far as they are equal, and each what it would be alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from executor.models.generate import Sampling, generate
from executor.outputs import seed_of, uuids_of
from pagehold.engine.v1 import request_pb2, submit_pb2
from tests.engines.door import Door, start_of
from tests.engines.world import EngineWorld, engine_world, save_tiny, tiny
from tests.models.checkpoints import random_ids

BLOCK = 16
SAMPLED: dict[str, Any] = {"temperature": 0.9, "top_k": 30}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"), max_position_embeddings=1200)


@pytest.fixture
def world() -> Iterator[EngineWorld]:
    with engine_world() as world:
        yield world


def samples_of(prompt: list[int], outputs: int, **parameters: Any) -> submit_pb2.Start:
    """A request for so many samples."""
    kept = request_pb2.Request(outputs=outputs)
    return start_of(prompt, request=kept, **SAMPLED | parameters)


def alone(model: Path, prompt: list[int], outputs: int, seed: int, max_tokens: int) -> list[list[int]]:
    """What each sample is if it is asked for alone, with its seed."""
    ways = [Sampling(seed=signed(seed_of(seed, output)), **SAMPLED) for output in range(outputs)]
    return generate(tiny(model), [prompt] * outputs, max_tokens, sampling=ways)


def signed(seed: int) -> int:
    return seed - (1 << 64) if seed >> 63 else seed


def keys_of(start: submit_pb2.Start) -> list[bytes]:
    return uuids_of(start.uuid, start.request)


def outputs_of(door: Door, start: submit_pb2.Start, seconds: float = 120.0) -> list[list[int]]:
    return [door.output(key, seconds) for key in keys_of(start)]


@pytest.mark.parametrize("length", [1, 15, 16, 17, 33, 48])
def test_each_sample_is_what_a_request_with_its_seed_gives(model: Path, world: EngineWorld, length: int) -> None:
    world.start_engine(model, "--blocks", "100", "--chunk", "32", "--step-tokens", "64")
    door = world.door()
    prompt = random_ids(length, 40000 + length)
    start = samples_of(prompt, 4, seed=7, max_tokens=20)
    door.start(start)
    assert outputs_of(door, start) == alone(model, prompt, 4, 7, 20)
    # Found in the cache, and what each needs of its own.
    again = samples_of(prompt, 4, seed=8, max_tokens=20)
    door.start(again)
    assert outputs_of(door, again) == alone(model, prompt, 4, 8, 20)
    assert {door.accepted[key].cached_tokens for key in keys_of(again)} == {(length - 1) // BLOCK * BLOCK}
    world.check_all_free()

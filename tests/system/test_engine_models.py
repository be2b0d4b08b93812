"""Models that want something particular of an engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.models.generate import generate
from executor.models.loader import LoadOptions, load_model
from tests.engines.door import start_of
from tests.engines.world import EngineWorld, engine_world, save_tiny, tiny
from tests.models.checkpoints import random_ids


@pytest.fixture(scope="module")
def world() -> Iterator[EngineWorld]:
    with engine_world() as world:
        yield world


def test_blocks_are_shared_only_by_sequences_whose_keys_are_rotated_alike(tmp_path: Path, world: EngineWorld) -> None:
    model = save_tiny(tmp_path / "longrope", "phi3-longrope")
    prompt = random_ids(40, 7000)
    world.start_engine(model, "--chunk", "16")
    door = world.door()
    # Up to 32 tokens rotate in one way, more in the other.
    for length, output, cached in ((20, 5, 0), (20, 9, 16), (40, 20, 0), (40, 9, 32), (20, 30, 16)):
        key = door.start(start_of(prompt[:length], max_tokens=output))[0]
        assert door.output(key) == generate(tiny(model), [prompt[:length]], output)[0]
        assert door.accepted[key].cached_tokens == cached


def test_transformers_own_code_is_served_too(tmp_path: Path) -> None:
    model = save_tiny(tmp_path / "tiny")
    prompts = [random_ids(length, 7100 + length) for length in (3, 16, 50)]
    reference = load_model(model, LoadOptions(implementation="transformers", progress=False))
    with engine_world() as world:
        world.start_engine(model, "--chunk", "16", PAGEHOLD_ENGINE_IMPLEMENTATION="transformers")
        door = world.door()
        keys = door.start(*[start_of(prompt) for prompt in prompts])
        assert [door.output(key) for key in keys] == generate(reference, prompts, 16)


def test_a_model_that_cannot_be_had_ends_the_engine_with_the_code_for_wrong_settings(
    tmp_path: Path, world: EngineWorld
) -> None:
    engine = world.start_engine(tmp_path / "absent", "--name", "absent")
    assert engine.process.wait(120) == 78
    assert f"{tmp_path}/absent: neither a folder nor a .gguf file" in engine.log.read_text()

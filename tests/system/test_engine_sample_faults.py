"""Several samples of one prompt where things go wrong: steps that fail, callers that go at any moment, engines that share."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from pagehold.common.v1 import states_pb2
from tests.engines.world import EngineWorld, engine_world, save_tiny
from tests.models.checkpoints import random_ids
from tests.scripted.processes import wait_until
from tests.system.test_engine_samples import alone, keys_of, outputs_of, samples_of


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"), max_position_embeddings=400)


@pytest.fixture
def world() -> Iterator[EngineWorld]:
    with engine_world() as world:
        yield world


@pytest.mark.parametrize("last", [True, False])
def test_a_step_that_fails_once_changes_no_sample(model: Path, world: EngineWorld, last: bool) -> None:
    prompt = random_ids(40, 50000)
    wanted = alone(model, prompt, 4, 2, 24)
    # The prompt's last token is fed by each of them, the other is one of an output.
    poison = prompt[-1] if last else wanted[3][5]
    world.start_engine(model, "--blocks", "60", faulty=True, RAISE_ONCE=str(poison))
    door = world.door()
    start = samples_of(prompt, 4, seed=2, max_tokens=24)
    door.start(start)
    assert outputs_of(door, start) == wanted
    world.check_all_free()


def test_a_sample_that_cannot_be_computed_ends_alone(model: Path, world: EngineWorld) -> None:
    prompt = random_ids(40, 50100)
    wanted = alone(model, prompt, 4, 2, 24)
    token = next(one for one in wanted[1] if not any(one in ids for ids in (prompt, *wanted[:1], *wanted[2:])))
    world.start_engine(model, "--blocks", "60", faulty=True, NAN_AT=str(token))
    door = world.door()
    start = samples_of(prompt, 4, seed=2, max_tokens=24)
    door.start(start)
    outputs = outputs_of(door, start)
    reasons = [door.ended[key].reason for key in keys_of(start)]
    length = states_pb2.FINISH_REASON_LENGTH
    assert reasons == [length, states_pb2.FINISH_REASON_INTERNAL, length, length]
    assert outputs[1] == wanted[1][: wanted[1].index(token) + 1]
    assert [outputs[place] for place in (0, 2, 3)] == [wanted[place] for place in (0, 2, 3)]
    world.check_all_free()


def test_cancels_at_any_moment_leave_nothing_behind(model: Path, world: EngineWorld) -> None:
    ways = ("--blocks", "60", "--host-blocks", "30", "--chunk", "16", "--step-tokens", "64", "--max-running", "12")
    world.start_engine(model, *ways)
    door = world.door()
    door.describe()
    numbers = random.Random(5)
    asked = []
    for place in range(60):
        start = samples_of(random_ids(numbers.randrange(1, 90), 50200 + place), 4, seed=place, max_tokens=60)
        door.start(start)
        asked.append((start, numbers.choice(keys_of(start)), numbers.randrange(30)))
        for one, key, tokens in list(asked):
            accepted = door.accepted.get(key)
            if accepted is not None and door.recorded.get(accepted.handle, 0) >= accepted.prompt_tokens + tokens:
                door.say(cancels=[key])
                asked.remove((one, key, tokens))
    for start, _, _ in asked:
        door.say(cancels=[start.uuid])
    wait_until(lambda: not world.statistics().sequences.live, "all have ended", 120)
    assert door.errors == []
    world.check_all_free()


def test_engines_that_share_a_pool_too_small_for_their_families_do_not_starve_each_other(
    model: Path, world: EngineWorld
) -> None:
    lengths = [60, 33, 17, 48, 80, 5, 31, 64]
    prompts = [random_ids(length, 50300 + place) for place, length in enumerate(lengths)]
    for name in ("one", "two"):
        world.start_engine(
            model,
            *("--name", name, "--blocks", "34", "--host-blocks", "20", "--max-running", "16"),
            *("--chunk", "64", "--step-tokens", "128"),
        )
        world.door(name).describe()
    starts = [samples_of(prompt, 4, seed=place, max_tokens=40) for place, prompt in enumerate(prompts)]
    for place, door in enumerate(world.doors):
        door.start(*starts[place::2])
    for place, start in enumerate(starts):
        assert outputs_of(world.doors[place % 2], start, 240) == alone(model, prompts[place], 4, place, 40)
    world.check_all_free()

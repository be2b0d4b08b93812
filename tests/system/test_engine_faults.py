"""A model that fails: whose fault it is ends with an id to ask for, and everybody else gets what was to come."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.models.generate import PagedSequence, SequenceRunner
from pagehold.common.v1 import states_pb2
from pagehold.engine.v1 import submit_pb2
from tests.engines.door import Door, start_of
from tests.engines.world import EngineWorld, engine_world, save_tiny, tiny
from tests.models.checkpoints import random_ids

OUTPUT = 30
NAN_AT, RAISE_AT, RAISE_ONCE = 0, 1, 2
"""Ids that no prompt here has by chance: those are 3 and above."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Nothing but a prompt brings these ids: they are the model's ends, and held back.
    return save_tiny(tmp_path_factory.mktemp("tiny"), eos_token_id=[NAN_AT, RAISE_AT, RAISE_ONCE])


@pytest.fixture(scope="module")
def world(model: Path) -> Iterator[EngineWorld]:
    with engine_world() as world:
        world.start_engine(
            model,
            *("--chunk", "16"),
            faulty=True,
            NAN_AT=str(NAN_AT),
            RAISE_AT=str(RAISE_AT),
            RAISE_ONCE=str(RAISE_ONCE),
        )
        world.door().describe()
        yield world
        world.check_all_free()


@pytest.fixture
def door(world: EngineWorld) -> Iterator[Door]:
    door = world.door()
    yield door
    door.close()


def answer(model: Path, prompt: list[int], count: int) -> list[int]:
    """What the model says, but for its ends."""
    runner, sequence, output = SequenceRunner(tiny(model), 20), PagedSequence(), list[int]()
    new = prompt
    while len(output) < count:
        logits = runner.step([(sequence, new)])[0]
        logits[[NAN_AT, RAISE_AT, RAISE_ONCE]] = float("-inf")
        output.append(int(logits.argmax()))
        new = output[-1:]
    return output


LENGTHS = range(10, 46, 7)
"""Of neighbours' prompts."""


def beside(world: EngineWorld, door: Door, seed: int, start: submit_pb2.Start) -> dict[bytes, list[int]]:
    """Start something once its neighbours decode, and before they have come far: their prompts by key."""
    prompts = [random_ids(length, seed + length) for length in LENGTHS]
    with world.held(position=LENGTHS[-1] + 3) as hold:
        keys = door.start(*[start_of(prompt, max_tokens=OUTPUT, min_tokens=OUTPUT) for prompt in prompts])
        for key in keys:
            door.await_output(key, 3, hold=hold)
        door.start(start)
        door.await_accepted(start.uuid)
    return dict(zip(keys, prompts, strict=True))


def check_neighbours(model: Path, door: Door, prompts: dict[bytes, list[int]]) -> None:
    for key, prompt in prompts.items():
        assert door.output(key) == answer(model, prompt, OUTPUT)


@pytest.mark.parametrize("length", [1, 32, 40])
def test_a_row_without_a_number_ends_its_sequence_and_nobody_elses(
    model: Path, world: EngineWorld, door: Door, length: int
) -> None:
    start = start_of([*random_ids(length - 1, 5100), NAN_AT], max_tokens=5)
    prompts = beside(world, door, 5000 + length, start)
    ended = door.await_ended(start.uuid)
    assert ended.reason == states_pb2.FINISH_REASON_INTERNAL
    assert ended.tokens == length
    assert len(ended.error_id) == 32
    check_neighbours(model, door, prompts)


@pytest.mark.parametrize("length", [1, 20, 40])
def test_who_makes_steps_fail_again_and_again_ends_and_nobody_else(
    model: Path, world: EngineWorld, door: Door, length: int
) -> None:
    start = start_of([*random_ids(length - 1, 5300), RAISE_AT], max_tokens=5)
    prompts = beside(world, door, 5200 + length, start)
    ended = door.await_ended(start.uuid)
    assert ended.reason == states_pb2.FINISH_REASON_INTERNAL
    assert ended.error_id
    check_neighbours(model, door, prompts)


def test_a_step_that_fails_once_costs_nobody_a_token(model: Path, world: EngineWorld, door: Door) -> None:
    prompt = [*random_ids(30, 5500), RAISE_ONCE, *random_ids(30, 5501)]
    start = start_of(prompt, max_tokens=20, min_tokens=20)
    prompts = beside(world, door, 5400, start)
    assert door.output(start.uuid) == answer(model, prompt, 20)
    check_neighbours(model, door, prompts)

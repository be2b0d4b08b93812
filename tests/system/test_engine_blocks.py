"""Blocks of a real engine: as many as its sequences need, and nothing of what was in one before is ever seen."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from executor.models.generate import generate
from pagehold.admin.v1 import sequence_pb2 as admin_pb2
from pagehold.blockmgr.v1 import sequence_pb2
from pagehold.common.v1 import states_pb2
from pagehold.engine.v1 import request_pb2
from tests.engines.door import Door, start_of
from tests.engines.world import EngineWorld, engine_world, save_tiny, tiny
from tests.models.checkpoints import random_ids
from tests.scripted.processes import wait_until

BLOCK = 16
FILLING = 4
"""Sequences of 128 tokens that fill the pool at their longest."""

MOST_AHEAD = 2 * BLOCK
"""Positions that blocks may be asked for ahead of what is recorded, beside a manager that answers soon: two steps in flight,
and look-ahead.
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def world(model: Path) -> Iterator[EngineWorld]:
    with engine_world() as world:
        blocks = FILLING * 128 // BLOCK + 1
        world.start_engine(
            model,
            *("--blocks", str(blocks), "--chunk", "16", "--step-tokens", "48", "--max-running", "24"),
            faulty=True,
        )
        world.door().describe()
        yield world
        world.check_all_free()


@pytest.fixture(scope="module")
def poisoned(model: Path) -> Iterator[EngineWorld]:
    """Six usable blocks, for one sequence at a time: in all blocks but its own there is no number."""
    with engine_world() as world:
        world.start_engine(model, "--blocks", "7", faulty=True, POISON="1", NEAR="1")
        yield world


@pytest.fixture
def door(world: EngineWorld) -> Iterator[Door]:
    door = world.door()
    yield door
    door.close()
    world.await_idle()


def test_tables_grow_block_by_block_and_what_others_left_in_blocks_is_never_read(
    model: Path, poisoned: EngineWorld
) -> None:
    door = poisoned.door()
    alone = request_pb2.Request(bypass_cache=True, no_store=True)
    for length in (BLOCK - 1, BLOCK, BLOCK + 1):
        prompt = random_ids(length, 9000 + length)
        start = start_of(prompt, request=alone, max_tokens=2 * BLOCK)
        with poisoned.held(position=length) as hold:
            door.start(start)
            for position in range(length, length + 2 * BLOCK - 2, 3):
                hold.move(position=position)
                door.await_output(start.uuid, position + 1 - length, hold=hold)
                check_table(poisoned, start.uuid)
        assert door.output(start.uuid) == generate(tiny(model), [prompt], 2 * BLOCK)[0]
    poisoned.check_all_free()


def check_table(world: EngineWorld, key: bytes) -> None:
    """A living sequence has blocks for all that is written, and few beyond that."""
    found = world.admin.GetSequence(admin_pb2.GetSequenceRequest(uuid=str(uuid.UUID(bytes=key))), timeout=60)
    live = found.live
    assert len(found.table) == live.blocks
    assert 0 < -(-live.launched // BLOCK) <= live.blocks
    assert live.blocks <= -(-(max(live.tokens, live.prompt) + MOST_AHEAD) // BLOCK)


def by_count(door: Door, key: bytes) -> None:
    """It ends by itself."""


def cancel_at_engine(door: Door, key: bytes) -> None:
    door.say(cancels=[key])


def cancel_at_manager(door: Door, key: bytes) -> None:
    door.manager.CancelSequence(sequence_pb2.CancelSequenceRequest(uuid=key), timeout=60)


def stop(door: Door, key: bytes) -> None:
    handle, length = door.accepted[key].handle, 20 + 10
    door.manager.SetFinalLength(sequence_pb2.SetFinalLengthRequest(handle=handle, length=length), timeout=60)


ENDS = [
    (by_count, states_pb2.FINISH_REASON_LENGTH),
    (cancel_at_engine, states_pb2.FINISH_REASON_CANCELLED),
    (cancel_at_manager, states_pb2.FINISH_REASON_CANCELLED),
    (stop, states_pb2.FINISH_REASON_STOP),
]


@pytest.mark.parametrize(("end", "reason"), ENDS, ids=lambda value: getattr(value, "__name__", ""))
def test_whoever_gets_the_blocks_of_one_that_ends_has_the_ids_that_it_gets_alone(
    model: Path, world: EngineWorld, door: Door, end: Callable[[Door, bytes], None], reason: int
) -> None:
    first = [start_of(random_ids(20, 9100 + place), max_tokens=108) for place in range(FILLING)]
    prompts = [random_ids(60, 9200 + place) for place in range(FILLING)]
    with world.held(position=24) as hold:
        door.start(*first)
        for start in first:
            door.await_output(start.uuid, 3, hold=hold)
        waiting = door.start(*[start_of(prompt, max_tokens=68) for prompt in prompts])
        door.await_listed(*waiting)
        for start in first:
            end(door, start.uuid)
        if reason == states_pb2.FINISH_REASON_CANCELLED:
            door.await_over(*[start.uuid for start in first])
    assert {door.await_ended(start.uuid).reason for start in first} == {reason}
    assert [door.output(key) for key in waiting] == generate(tiny(model), prompts, 68)


def test_short_ones_beside_long_prompts_in_chunks_all_get_their_own_ids(
    model: Path, world: EngineWorld, door: Door
) -> None:
    lengths = [1 + place for place in range(7)] + [100] + [8 + place for place in range(7)] + [110]
    prompts = [random_ids(length, 9300 + place) for place, length in enumerate(lengths)]
    with world.held(position=64):
        keys = door.start(*[start_of(prompt, max_tokens=16) for prompt in prompts])
        handle = door.await_accepted(keys[lengths.index(100)]).handle
        # The step that stands still feeds the fifth chunk of one of them.
        wait_until(lambda: door.computing.get(handle), "chunks are told of")
    for key, answer in zip(keys, generate(tiny(model), prompts, 16), strict=True):
        assert (door.output(key), door.ended[key].tokens) == (answer, len(prompts[keys.index(key)]) + 16)


def test_blocks_of_one_that_is_cancelled_in_mid_step_are_given_out_behind_that_step(
    model: Path, poisoned: EngineWorld
) -> None:
    held = 0
    gone, prompt = [*random_ids(40, 9400), held], random_ids(90, 9401)
    door = poisoned.door()
    with poisoned.held(token=held):
        first = door.start(start_of(gone, max_tokens=40))[0]
        door.await_accepted(first)
        door.say(cancels=[first])
        # It takes all six blocks.
        second = door.start(start_of(prompt, max_tokens=7))[0]
        wait_until(lambda: poisoned.statistics().tiers[0].fenced, "the manager knows that the first one has ended")
        door.await_listed(second)
        turns = poisoned.statistics().counters.turns
        wait_until(lambda: poisoned.statistics().counters.turns > turns, "the engine has spoken since then")
        assert second not in door.accepted
    assert door.await_ended(first).reason == states_pb2.FINISH_REASON_CANCELLED
    assert door.output(second) == generate(tiny(model), [prompt], 7)[0]
    poisoned.check_all_free()

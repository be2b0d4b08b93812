"""Too little of everything: blocks, places in the queue, time. Whoever has to wait waits, and whoever runs runs on."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from executor.engine.waiting import MOST_PASSES
from executor.models.generate import generate
from pagehold.admin.v1 import pool_pb2
from pagehold.blockmgr.v1 import sequence_pb2
from pagehold.common.v1 import states_pb2
from pagehold.engine.v1 import description_pb2, request_pb2, submit_pb2
from tests.engines.door import Door, start_of
from tests.engines.world import EngineWorld, engine_world, save_tiny, tiny
from tests.models.checkpoints import random_ids
from tests.scripted.processes import wait_until

USABLE = 11
"""Blocks of the pool, of which a sequence of 128 tokens needs 8."""

LONG: dict[str, Any] = {"max_tokens": 88}
"""With a prompt of 40 tokens: beside it there is no room for a prompt of 120."""

BEGUN = 40 + 5
"""Where it stands still for as long as a test wants it to have blocks."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def world(model: Path) -> Iterator[EngineWorld]:
    with engine_world() as world:
        world.start_engine(
            model,
            *("--blocks", str(USABLE + 1), "--chunk", "16", "--step-tokens", "32", "--max-running", "16"),
            *("--max-waiting", "40"),
            faulty=True,
        )
        world.door().describe()
        yield world
        world.check_all_free()


@pytest.fixture
def door(world: EngineWorld) -> Iterator[Door]:
    door = world.door()
    yield door
    door.close()
    world.await_idle()


def test_requests_that_have_to_wait_for_blocks_get_the_same_ids(model: Path, door: Door) -> None:
    prompts = [random_ids(1 + 2 * index, 8000 + index) for index in range(32)]
    keys = door.start(*[start_of(prompt, max_tokens=64) for prompt in prompts])
    assert [door.output(key, 240) for key in keys] == generate(tiny(model), prompts, 64)


def test_a_sequence_fills_all_but_the_whole_pool_alone(model: Path, door: Door) -> None:
    prompt = random_ids(60, 8100)
    key = door.start(start_of(prompt, max_tokens=68))[0]
    assert door.output(key) == generate(tiny(model), [prompt], 68)[0]


def test_one_that_needs_much_is_passed_only_so_often(world: EngineWorld, door: Door) -> None:
    running = start_of(random_ids(80, 8200), max_tokens=40)
    big = start_of(random_ids(120, 8201), max_tokens=8)
    small = [start_of(random_ids(4, 8300 + place), max_tokens=8) for place in range(24)]
    with world.held(position=90):
        door.start(running)
        door.await_accepted(running.uuid)
        door.start(big, *small)
        door.await_accepted(small[0].uuid)
    door.await_accepted(big.uuid)
    passed = list(door.accepted).index(big.uuid) - 1
    assert 1 <= passed <= MOST_PASSES
    for one in (running, big, *small):
        door.output(one.uuid)


def test_a_greater_priority_is_admitted_earlier(world: EngineWorld, door: Door) -> None:
    blocker = start_of(random_ids(40, 8400), **LONG)
    low, high = (
        start_of(random_ids(120, 8401), request=request_pb2.Request(priority=priority), max_tokens=8)
        for priority in (-1, 5)
    )
    with world.held(position=BEGUN):
        door.start(blocker)
        door.await_accepted(blocker.uuid)
        door.start(low, high)
        door.await_listed(low.uuid, high.uuid)
    for one in (blocker, low, high):
        door.output(one.uuid)
    assert list(door.accepted) == [blocker.uuid, high.uuid, low.uuid]


def test_a_full_queue_refuses_with_its_limit(world: EngineWorld, door: Door) -> None:
    blocker = start_of(random_ids(40, 8500), **LONG)
    starts = [start_of(random_ids(120, 8501 + place), max_tokens=8) for place in range(44)]
    with world.held(position=BEGUN):
        door.start(blocker)
        door.await_accepted(blocker.uuid)
        door.start(*starts)
        refused = door.await_refused(starts[-1].uuid)
        assert (refused.by, refused.available) == (submit_pb2.REFUSED_BY_QUEUE, 40)
        listed = door.engine.ListWork(description_pb2.ListWorkRequest(limit=5), timeout=60)
        assert listed.total == 41
        assert listed.work[0].uuid == blocker.uuid
        door.say(cancels=[start.uuid for start in [blocker, *starts]])
        for start in starts[:40]:
            assert door.await_refused(start.uuid).by == submit_pb2.REFUSED_BY_CANCEL
        assert door.await_ended(blocker.uuid).reason == states_pb2.FINISH_REASON_CANCELLED


def is_past(when: float) -> bool:
    return time.time() > when


def test_a_deadline_ends_what_runs_with_what_it_has_and_refuses_what_waits(world: EngineWorld, door: Door) -> None:
    seconds = 0.5
    while True:
        deadline = time.time() + seconds
        blocker = start_of(random_ids(40, 8600), deadline=deadline, **LONG)
        waiting = start_of(random_ids(120, 8601), max_tokens=8, deadline=deadline)
        with world.held(position=BEGUN):
            door.start(blocker, waiting)
            wait_until(partial(is_past, deadline), "their time is over")
        assert door.await_refused(waiting.uuid).by == submit_pb2.REFUSED_BY_DEADLINE
        door.await_over(blocker.uuid)
        if blocker.uuid in door.ended:
            break
        # It was not reached in time.
        seconds *= 2
        assert seconds < 60
    assert door.ended[blocker.uuid].reason == states_pb2.FINISH_REASON_DEADLINE
    assert door.ended[blocker.uuid].tokens < 40 + 88


def test_a_final_length_found_by_a_door_ends_the_sequence_as_a_stop(world: EngineWorld, door: Door) -> None:
    start = start_of(random_ids(20, 8700), max_tokens=100)
    with world.held(position=32) as hold:
        door.start(start)
        door.await_output(start.uuid, 10, hold=hold)
        handle = door.accepted[start.uuid].handle
        door.manager.SetFinalLength(sequence_pb2.SetFinalLengthRequest(handle=handle, length=27), timeout=60)
    ended = door.await_ended(start.uuid)
    assert (ended.reason, ended.tokens) == (states_pb2.FINISH_REASON_STOP, 27)
    assert len(door.output(start.uuid)) == 7


def test_draining_refuses_what_waits_and_lets_the_rest_end(world: EngineWorld, door: Door) -> None:
    blocker, waiting = start_of(random_ids(40, 8800), **LONG), start_of(random_ids(120, 8801), max_tokens=8)
    with world.held(position=BEGUN) as hold:
        door.start(blocker)
        door.await_output(blocker.uuid, 3, hold=hold)
        door.start(waiting)
        door.await_listed(waiting.uuid)
        world.admin.Drain(pool_pb2.DrainRequest(), timeout=60)
        assert door.await_refused(waiting.uuid).by == submit_pb2.REFUSED_BY_DRAINING
        world.admin.Undrain(pool_pb2.UndrainRequest(), timeout=60)
    assert len(door.output(blocker.uuid)) == 88
    wait_until(lambda: not door.loads[-1].draining, "the engine takes on more")
    again = door.start(start_of([5, 6]))[0]
    assert len(door.output(again)) == 16


def test_eight_small_ones_may_pass_one_that_needs_more_than_is_free(tmp_path: Path) -> None:
    model = save_tiny(tmp_path / "tiny", max_position_embeddings=200)
    running, big = start_of(random_ids(40, 8900), max_tokens=24), start_of(random_ids(180, 8901), max_tokens=12)
    small = [start_of(random_ids(4, 8910 + place), max_tokens=8) for place in range(8)]
    with engine_world() as world:
        # Four of the fourteen are the first one's, and twelve are needed.
        world.start_engine(model, "--blocks", "15", "--chunk", "64", faulty=True)
        door = world.door()
        with world.held(position=50):
            door.start(running)
            door.await_accepted(running.uuid)
            door.start(big, *small)
            door.await_accepted(small[0].uuid)
        ended = [door.await_ended(one.uuid) for one in (running, big, *small)]
        assert {one.reason for one in ended} == {states_pb2.FINISH_REASON_LENGTH}
        passed = list(door.accepted).index(big.uuid) - 1
        assert 1 <= passed <= MOST_PASSES
        for one in (running, big, *small):
            count = one.request.parameters.max_tokens
            assert door.output(one.uuid) == generate(tiny(model), [list(one.prompt)], count)[0]
        world.check_all_free()

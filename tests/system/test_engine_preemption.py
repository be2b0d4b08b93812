"""A pool that holds far less than what is asked for: everybody ends, with the ids of a run without pressure."""

import json
import re
import uuid
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from executor.models.generate import Sampling, generate
from pagehold.admin.v1 import sequence_pb2, watch_pb2
from pagehold.common.v1 import event_pb2, states_pb2
from tests.engines.door import start_of
from tests.engines.world import EngineWorld, engine_world, save_tiny, tiny
from tests.models.checkpoints import random_ids
from tests.scripted.processes import wait_until

LONG = pytest.mark.long
REQUESTS, OUTPUT = 64, 72

LENGTHS = [3 + index * 7 % 53 for index in range(REQUESTS)]
"""Of the prompts: most of what each needs, it needs only in the end."""

PEAK = sum(-(-(length + OUTPUT - 1) // 16) for length in LENGTHS)
"""Blocks that all of them need at their longest, if all run at once."""

STEPS = 50
"""After which nobody has ended, and those that have begun together need far more than there is of a small pool."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"))


def watched(world: EngineWorld, count: int, *kinds: str) -> Counter[str]:
    """The first ``count`` events of these kinds, by kind, as ``watch`` tells of them."""
    names = [f"EVENT_KIND_{kind}" for kind in kinds]
    found: Counter[str] = Counter()
    watching = world.admin.WatchEvents(watch_pb2.WatchEventsRequest(after_revision=0, kinds=names), timeout=60)
    for response in watching:
        found.update(event_pb2.EventKind.Name(event.kind) for event in response.events.events)
        if found.total() >= count:
            watching.cancel()
            break
    return found


@pytest.mark.parametrize(
    ("preempt", "host_blocks"),
    [pytest.param("swap", 600, marks=LONG), ("recompute", 0), ("swap", 12), pytest.param("auto", 60, marks=LONG)],
)
def test_a_third_of_the_blocks_needed_is_enough_for_all(model: Path, preempt: str, host_blocks: int) -> None:
    prompts = [random_ids(length, 20000 + index) for index, length in enumerate(LENGTHS)]
    sampled: dict[str, Any] = {"temperature": 0.9, "top_k": 30}
    with engine_world() as world:
        engine = world.start_engine(
            model,
            *("--blocks", str(PEAK // 3 + 1), "--host-blocks", str(host_blocks), "--preempt", preempt),
            *("--max-running", str(REQUESTS), "--chunk", "64", "--step-tokens", "256"),
        )
        door = world.door()
        door.describe()
        starts = [
            start_of(prompt, max_tokens=OUTPUT, seed=index, **(sampled if index % 2 else {}))
            for index, prompt in enumerate(prompts)
        ]
        keys = door.start(*starts)
        outputs = [door.output(key, 240) for key in keys]
        sampling = [Sampling(seed=index, **(sampled if index % 2 else {})) for index in range(REQUESTS)]
        assert outputs == generate(tiny(model), prompts, OUTPUT, sampling=sampling)
        gone = Counter(event["way"] for event in engine.events("makes room"))
        assert 0 < gone.total() <= 2 * REQUESTS
        if preempt != "auto":
            assert set(gone) == {preempt}
        world.check_all_free()
        seen = watched(world, 2 * gone.total(), "SWAPPING_OUT", "SWAPPING_IN", "RELEASED", "RETURNED")
        assert seen["EVENT_KIND_SWAPPING_OUT"] == seen["EVENT_KIND_SWAPPING_IN"]
        assert seen["EVENT_KIND_RELEASED"] == seen["EVENT_KIND_RETURNED"]
        assert seen.total() == 2 * gone.total()


def test_two_engines_in_one_pool_that_is_too_small_for_both_do_not_starve_each_other(model: Path) -> None:
    prompts = [random_ids(length, 21000 + index) for index, length in enumerate(LENGTHS[:32])]
    with engine_world() as world:
        for name in ("one", "two"):
            world.start_engine(
                model,
                *("--name", name, "--blocks", str(PEAK // 8), "--host-blocks", "20", "--max-running", "16"),
                *("--chunk", "64", "--step-tokens", "128"),
            )
            world.door(name).describe()
        keys = [
            door.start(*[start_of(prompt, max_tokens=OUTPUT) for prompt in prompts[place::2]])
            for place, door in enumerate(world.doors)
        ]
        outputs: list[list[int]] = [[]] * len(prompts)
        for place, door in enumerate(world.doors):
            outputs[place::2] = [door.output(key, 240) for key in keys[place]]
        assert outputs == generate(tiny(model), prompts, OUTPUT)
        world.check_all_free()


@pytest.mark.long
def test_what_made_room_is_taken_up_by_the_next_engine_and_goes_on(model: Path) -> None:
    prompts = [random_ids(length, 22000 + index) for index, length in enumerate(LENGTHS[:24])]
    ways = ("--blocks", str(PEAK // 12), "--host-blocks", "200", "--chunk", "64", "--step-tokens", "128")
    with engine_world() as world:
        for preempt in ("swap", "recompute"):
            engine = world.start_engine(model, *ways, "--preempt", preempt, faulty=True)
            door = world.door()
            door.describe()
            with world.held(steps=STEPS):
                keys = door.start(*[start_of(prompt, max_tokens=OUTPUT) for prompt in prompts])
                wait_until(partial(engine.events, "makes room"), "somebody makes room")
                wait_until(lambda: world.statistics().sequences.swapped, "somebody is away")
                engine.kill()
            world.start_engine(model, *ways, "--preempt", preempt)
            assert [door.output(key, 240) for key in keys] == generate(tiny(model), prompts, OUTPUT)
            world.engines[-1].stop()
            prompts = [[*prompt, 1] for prompt in prompts]
        world.start_engine(model, *ways)
        world.check_all_free()


@pytest.mark.parametrize("preempt", ["swap", "recompute"])
def test_what_is_away_can_be_cancelled_and_gives_back_all_it_has(model: Path, preempt: str) -> None:
    prompts = [random_ids(length, 23000 + index) for index, length in enumerate(LENGTHS[:24])]
    with engine_world() as world:
        world.start_engine(
            model,
            *("--blocks", str(PEAK // 12), "--host-blocks", "200", "--preempt", preempt, "--chunk", "64"),
            faulty=True,
        )
        door = world.door()
        door.describe()
        with world.held(steps=STEPS):
            keys = door.start(*[start_of(prompt, max_tokens=OUTPUT) for prompt in prompts])
            wait_until(lambda: world.statistics().sequences.swapped, "somebody is away")
            door.say(cancels=keys[1:])
            door.await_over(*keys[1:])
        assert door.output(keys[0]) == generate(tiny(model), prompts[:1], OUTPUT)[0]
        world.check_all_free()


@pytest.mark.parametrize(
    ("blocks", "host_blocks"), [(6, 0), pytest.param(8, 1, marks=LONG), (8, 4), pytest.param(10, 20, marks=LONG)]
)
def test_a_pool_of_hardly_more_than_one_sequence_needs_serves_twenty(
    model: Path, blocks: int, host_blocks: int
) -> None:
    prompts = [random_ids(40, 24000 + index) for index in range(20)]
    with engine_world() as world:
        engine = world.start_engine(
            model,
            *("--blocks", str(blocks + 1), "--host-blocks", str(host_blocks), "--preempt", "swap", "--chunk", "32"),
            *("--metrics-port", str(world.metrics_port)),
        )
        door = world.door()
        keys = door.start(*[start_of(prompt, max_tokens=40) for prompt in prompts])
        assert [door.output(key, 240) for key in keys] == generate(tiny(model), prompts, 40)
        gone = engine.events("makes room")
        assert len(gone) <= 3 * len(prompts)
        # No step without work: each brings a token or a chunk, of which a prompt has two and what comes back three at most.
        assert steps_of(world) <= (2 + 40) * len(prompts) + 3 * len(gone)
        world.check_all_free()


def steps_of(world: EngineWorld) -> float:
    """Steps that the engine has done."""
    with urlopen(f"http://127.0.0.1:{world.metrics_port}/metrics", timeout=60) as answer:
        return float(re.findall(r"^pagehold_engine_steps_total (\S+)$", answer.read().decode(), re.MULTILINE)[0])


@pytest.mark.parametrize("preempt", ["swap", "recompute"])
def test_one_that_comes_back_has_the_table_that_the_manager_has(model: Path, preempt: str) -> None:
    prompts = [random_ids(48, 25000 + index) for index in range(2)]
    with engine_world() as world:
        tables = world.directory / "tables"
        engine = world.start_engine(
            model,
            *("--blocks", "11", "--host-blocks", "20", "--preempt", preempt, "--chunk", "16"),
            faulty=True,
            TABLES=str(tables),
        )
        door = world.door()
        # They come to need seven blocks and eight, of ten; from 112 on the second is alone.
        with world.held(position=114) as hold:
            first, second = door.start(
                *[start_of(prompt, max_tokens=64 + 16 * place) for place, prompt in enumerate(prompts)]
            )
            door.await_ended(first)
            for position in range(114, 126, 3):
                hold.move(position=position)
                door.await_output(second, position + 1 - 48)
                (table,) = json.loads(tables.read_text())
                known = table_of(world, second)
                assert known[: len(table)] == table
                assert known
        assert engine.events("makes room")
        assert door.output(first) == generate(tiny(model), prompts[:1], 64)[0]
        assert door.output(second) == generate(tiny(model), prompts[1:], 80)[0]
        world.check_all_free()


def table_of(world: EngineWorld, key: bytes) -> list[int]:
    """The block table of a sequence as the manager has it."""
    found = world.admin.GetSequence(sequence_pb2.GetSequenceRequest(uuid=str(uuid.UUID(bytes=key))), timeout=60)
    assert all(entry.tier == states_pb2.TIER_DEVICE for entry in found.table)
    return [entry.block for entry in found.table]


@pytest.mark.parametrize("host_blocks", [pytest.param(600, marks=LONG), 12])
def test_blocks_are_given_out_only_when_late_copies_have_left_them(model: Path, host_blocks: int) -> None:
    prompts = [random_ids(length, 26000 + index) for index, length in enumerate(LENGTHS[:24])]
    with engine_world() as world:
        engine = world.start_engine(
            model,
            *("--blocks", str(PEAK // 9), "--host-blocks", str(host_blocks), "--preempt", "swap"),
            *("--chunk", "64", "--step-tokens", "256"),
            faulty=True,
            LATE_COPIES="0.05",
        )
        door = world.door()
        keys = door.start(*[start_of(prompt, max_tokens=OUTPUT) for prompt in prompts])
        assert [door.output(key, 240) for key in keys] == generate(tiny(model), prompts, OUTPUT)
        assert engine.events("makes room")
        assert world.statistics().counters.copies
        # What was demoted, and what came back, is what it is taken for.
        again = door.start(*[start_of(prompt, max_tokens=OUTPUT) for prompt in prompts])
        assert [door.output(key, 240) for key in again] == generate(tiny(model), prompts, OUTPUT)
        world.check_all_free()

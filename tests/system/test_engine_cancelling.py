"""Requests cancelled in every state: their blocks come back, and nobody else's output changes."""

import os
import random
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import grpc
import pytest

from executor.models.generate import generate
from pagehold.blockmgr.v1 import sequence_pb2
from pagehold.common.v1 import states_pb2
from pagehold.engine.v1 import submit_pb2
from tests.engines.door import Door, start_of
from tests.engines.world import EngineProcess, EngineWorld, engine_world, save_tiny, tiny
from tests.models.checkpoints import random_ids
from tests.scripted.processes import open_descriptors, resident_kilobytes, wait_until

CANCELLED = states_pb2.FINISH_REASON_CANCELLED


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def world(model: Path) -> Iterator[EngineWorld]:
    with engine_world() as world:
        world.start_engine(
            model,
            *("--blocks", "41", "--chunk", "16", "--step-tokens", "32", "--max-running", "12"),
            *("--metrics-port", str(world.metrics_port)),
            faulty=True,
        )
        world.door().describe()
        yield world


@pytest.fixture
def door(world: EngineWorld) -> Iterator[Door]:
    door = world.door()
    yield door
    world.check_all_free()
    door.close()


def cancel_at_manager(door: Door, key: bytes) -> None:
    try:
        door.manager.CancelSequence(sequence_pb2.CancelSequenceRequest(uuid=key), timeout=60)
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.NOT_FOUND:
            raise


def test_one_in_prefill_stops_within_a_chunk_and_the_next_begins(model: Path, world: EngineWorld, door: Door) -> None:
    ids, prompt = random_ids(120, 1), random_ids(8, 2)
    stands_at = next(id_ for place, id_ in enumerate(ids) if place >= 40 and id_ not in ids[:place])
    long = start_of(ids, max_tokens=8)
    with world.held(token=stands_at):
        door.start(long)
        handle = door.await_accepted(long.uuid).handle
        wait_until(lambda: door.computing.get(handle), "a chunk is computed")
        door.say(cancels=[long.uuid])
        short = door.start(start_of(prompt, max_tokens=4))[0]
        door.await_listed(short)
    assert door.await_ended(long.uuid).reason == CANCELLED
    assert door.computing[handle][-1] < 112
    assert door.output(short) == generate(tiny(model), [prompt], 4)[0]


def test_one_that_decodes_ends_with_what_is_recorded(model: Path, world: EngineWorld, door: Door) -> None:
    prompt = random_ids(20, 3)
    whole = generate(tiny(model), [prompt], 100)[0]
    known = [*prompt, *whole]
    stands_at = next(id_ for place, id_ in enumerate(whole) if place >= 8 and id_ not in known[: len(prompt) + place])
    start = start_of(prompt, max_tokens=100)
    with world.held(token=stands_at):
        door.start(start)
        door.await_output(start.uuid, 5)
        cancel_at_manager(door, start.uuid)
        assert door.await_ended(start.uuid).reason == CANCELLED
    have = door.output(start.uuid)
    assert 5 <= len(have) < 100
    assert have == whole[: len(have)]


def test_one_that_waits_for_a_peer_and_the_peer_itself(model: Path, world: EngineWorld, door: Door) -> None:
    prompt = random_ids(100, 4)
    starts = [start_of(prompt, max_tokens=4) for _ in range(4)]
    with world.held(position=40):
        door.start(*starts)
        for start in starts:
            door.await_accepted(start.uuid)
        # The first computes for all; then the next one does.
        door.say(cancels=[starts[0].uuid, starts[2].uuid])
        for start in (starts[0], starts[2]):
            assert door.await_ended(start.uuid).reason == CANCELLED
    for start in (starts[1], starts[3]):
        assert door.output(start.uuid) == generate(tiny(model), [prompt], 4)[0]


def test_twice_after_the_end_and_unknown_change_nothing_for_neighbours(model: Path, door: Door) -> None:
    prompts = [random_ids(10 + place, 5 + place) for place in range(4)]
    keys = door.start(*[start_of(prompt, max_tokens=40) for prompt in prompts])
    gone = door.start(start_of([7], max_tokens=1))[0]
    door.await_ended(gone)
    cancelled = door.start(start_of(random_ids(10, 9), max_tokens=100))[0]
    door.say(cancels=[cancelled, cancelled, gone, uuid.uuid4().bytes])
    door.say(cancels=[cancelled, gone])
    door.await_over(cancelled)
    assert [door.output(key) for key in keys] == generate(tiny(model), prompts, 40)


def test_a_hundred_cancelled_at_once_are_counted_and_nothing_runs_any_more(world: EngineWorld, door: Door) -> None:
    before = figures(world)
    with world.held(position=30) as hold:
        keys = door.start(*[start_of(random_ids(20, 500 + place), max_tokens=100) for place in range(100)])
        door.await_output(keys[0], 2, hold=hold)
        door.say(cancels=keys)
        door.await_over(*keys)

    def quiet() -> bool:
        now = figures(world)
        return now["running_sequences"] == now["waiting_requests"] == now["preempted_sequences"] == 0.0

    wait_until(quiet, "the engine says that nothing runs")
    after = figures(world)
    gone = ('sequences_ended_total{reason="cancelled"}', 'requests_refused_total{reason="cancel"}')
    assert sum(after[name] - before.get(name, 0.0) for name in gone) == 100
    assert after["prompt_tokens_cached_total"] == before["prompt_tokens_cached_total"]


def figures(world: EngineWorld) -> dict[str, float]:
    """What the engine counts."""
    with urlopen(f"http://127.0.0.1:{world.metrics_port}/metrics", timeout=60) as answer:
        lines = re.findall(r"^pagehold_engine_(\S+) (\S+)$", answer.read().decode(), re.MULTILINE)
    return {name: float(value) for name, value in lines}


def threads(engine: EngineProcess) -> int:
    return len(os.listdir(f"/proc/{engine.pid}/task"))


@pytest.mark.long
def test_hundreds_cancelled_at_random_moments_leave_nothing_behind(world: EngineWorld, door: Door) -> None:
    engine = world.engines[0]
    chance = random.Random(6)
    flood(door, chance, 60)
    world.await_idle()
    before = threads(engine), open_descriptors(engine.pid), resident_kilobytes(engine.pid)
    for _ in range(4):
        flood(door, chance, 60)
    world.await_idle()
    # gRPC ends and starts threads of its own as it likes; what were left of each request would be more.
    wait_until(lambda: threads(engine) <= before[0] + 4, "no thread is left")
    wait_until(lambda: open_descriptors(engine.pid) <= before[1] + 1, "no descriptor is left")
    assert resident_kilobytes(engine.pid) < before[2] + 8192
    assert world.violated_invariants() == []


def flood(door: Door, chance: random.Random, count: int) -> None:
    """Many requests, half of them cancelled, each at a moment of its own, in one way or the other."""
    shared = random_ids(40, 7)
    for _ in range(count):
        prompt = shared if chance.random() < 0.3 else random_ids(chance.randint(1, 60), chance.randrange(1 << 30))
        start = start_of(prompt, max_tokens=chance.randint(1, 30))
        door.start(start)
        if chance.random() < 0.5:
            ways = ("at once", "accepted", "computed", "at the end")
            cancel(door, start, chance.choice(ways), through_manager=chance.random() < 0.3)
    door.await_over(*door.submitted)


def cancel(door: Door, start: submit_pb2.Start, when: str, through_manager: bool) -> None:
    key = start.uuid
    prompt, last = len(start.prompt), len(start.prompt) + start.request.parameters.max_tokens

    def recorded() -> int:
        accepted = door.accepted.get(key)
        return max(door.recorded.get(accepted.handle, 0), accepted.tokens) if accepted else 0

    def is_over() -> bool:
        return key in door.ended or key in door.refused

    if when == "accepted":
        wait_until(lambda: key in door.accepted or is_over(), "it is accepted", 60)
    if when == "computed":
        wait_until(lambda: recorded() > prompt or is_over(), "it decodes", 60)
    if when == "at the end":
        wait_until(lambda: recorded() >= last - 1 or is_over(), "it is about to end", 60)
    if through_manager:
        cancel_at_manager(door, key)
        if key not in door.accepted:
            door.say(cancels=[key])
    else:
        door.say(cancels=[key])

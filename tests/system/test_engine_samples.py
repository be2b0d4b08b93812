"""Several samples of one prompt: computed once, shared as far as they are equal, and each what it would be alone."""

import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from executor.models.generate import Sampling, generate
from executor.outputs import seed_of, uuids_of
from pagehold.admin.v1 import stats_pb2, watch_pb2
from pagehold.common.v1 import event_pb2, states_pb2
from pagehold.engine.v1 import request_pb2, submit_pb2
from tests.engines.door import Door, start_of
from tests.engines.world import EngineWorld, engine_world, save_tiny, tiny
from tests.models.checkpoints import random_ids
from tests.scripted.processes import wait_until

BLOCK = 16
HELD = frozenset(
    {
        states_pb2.BLOCK_STATE_OWNED,
        states_pb2.BLOCK_STATE_FILLING,
        states_pb2.BLOCK_STATE_SEALED,
        states_pb2.BLOCK_STATE_TARGET,
    }
)
"""States of blocks that sequences have."""
SAMPLED: dict[str, Any] = {"temperature": 0.9, "top_k": 30}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"), max_position_embeddings=1200)


@pytest.fixture
def world() -> Iterator[EngineWorld]:
    with engine_world() as world:
        yield world


@pytest.fixture(scope="module")
def served(model: Path) -> Iterator[EngineWorld]:
    """A world with an engine, which tests share that leave it as it was."""
    with engine_world() as world:
        ways = ("--blocks", "121", "--chunk", "32", "--step-tokens", "64", "--max-running", "8")
        world.start_engine(model, *ways, faulty=True)
        yield world


MORTAL = ("--blocks", "100", "--chunk", "16", "--step-tokens", "64")


@pytest.fixture(scope="module")
def mortal(model: Path) -> Iterator[EngineWorld]:
    """A world whose last engine may be killed, by tests that start another one like it."""
    with engine_world() as world:
        world.start_engine(model, *MORTAL, faulty=True)
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


def revision_of(world: EngineWorld) -> int:
    """How far the pool has come."""
    return world.admin.GetPoolStats(stats_pb2.GetPoolStatsRequest(), timeout=60).version.revision


def events(world: EngineWorld, revision: int, count: int, *kinds: str) -> Counter[str]:
    """The first ``count`` events of these kinds after a revision, by kind."""
    names = [f"EVENT_KIND_{kind}" for kind in kinds]
    found: Counter[str] = Counter()
    watching = world.admin.WatchEvents(watch_pb2.WatchEventsRequest(after_revision=revision, kinds=names), timeout=60)
    for response in watching:
        found.update(
            event_pb2.EventKind.Name(event.kind).removeprefix("EVENT_KIND_") for event in response.events.events
        )
        if found.total() >= count:
            watching.cancel()
            break
    return found


def outputs_of(door: Door, start: submit_pb2.Start, seconds: float = 120.0) -> list[list[int]]:
    return [door.output(key, seconds) for key in keys_of(start)]


def test_each_sample_is_what_a_request_with_its_seed_gives(model: Path, served: EngineWorld) -> None:
    door = served.door()
    for length in (1, 15, 16, 17, 33, 48):
        prompt = random_ids(length, 40000 + length)
        start = samples_of(prompt, 4, seed=7, max_tokens=20)
        door.start(start)
        assert outputs_of(door, start) == alone(model, prompt, 4, 7, 20)
        # Found in the cache, and what each needs of its own.
        again = samples_of(prompt, 4, seed=8, max_tokens=20)
        door.start(again)
        assert outputs_of(door, again) == alone(model, prompt, 4, 8, 20)
        assert {door.accepted[key].cached_tokens for key in keys_of(again)} == {(length - 1) // BLOCK * BLOCK}
    served.check_all_free()


def test_eight_samples_of_a_thousand_tokens_hold_what_they_share_once(model: Path, served: EngineWorld) -> None:
    door = served.door()
    door.describe()
    prompt, tokens = random_ids(1000, 40100), 40
    start = samples_of(prompt, 8, seed=1, max_tokens=tokens)
    before = revision_of(served)
    held = []
    with served.held(position=1000) as hold:
        door.start(start)
        for position in range(1000, 1000 + tokens - 1, 6):
            hold.move(position=position)
            for key in keys_of(start):
                door.await_output(key, position + 1 - 1000, hold=hold)
            held.append(sum(count.blocks for count in served.statistics().tiers[0].states if count.state in HELD))
    assert outputs_of(door, start) == alone(model, prompt, 8, 1, tokens)
    # 1,000 tokens fill 62 blocks; each has one of its own for what is left of the prompt, and for its output.
    own = -(-(1000 + tokens - 1) // BLOCK) - 62
    assert min(held) >= 62 + 8
    assert max(held) <= 62 + 8 * own
    assert events(served, before, 15, "COPY_ORDERED", "FINISHED") == {"COPY_ORDERED": 7, "FINISHED": 8}
    served.check_all_free()


def test_each_sample_ends_at_its_own_end_and_gives_back_its_blocks(model: Path, served: EngineWorld) -> None:
    prompt = random_ids(30, 40400)
    whole = alone(model, prompt, 4, 9, 60)
    start = samples_of(prompt, 4, seed=9, max_tokens=60, end_ids=[whole[1][2]])
    door = served.door()
    door.start(start)
    wanted = [ids[: ids.index(whole[1][2]) + 1] if whole[1][2] in ids else ids for ids in whole]
    assert outputs_of(door, start) == wanted
    assert len(wanted[1]) == 3
    served.check_all_free()


@pytest.mark.parametrize("state", ["waiting", "prefill", "decode", "one"])
def test_a_cancel_ends_all_samples_wherever_they_are(model: Path, served: EngineWorld, state: str) -> None:
    door = served.door()
    other = samples_of(random_ids(20, 40500), 2, seed=1, max_tokens=60)
    start = samples_of(random_ids(200, 40501), 7 if state == "waiting" else 4, seed=1, max_tokens=200)
    keys = keys_of(start)
    with served.held(position={"waiting": 30, "prefill": 100}.get(state, 210)) as hold:
        door.start(other)
        for key in keys_of(other):
            door.await_output(key, 1, hold=hold)
        door.start(start)
        if state == "waiting":
            door.say(cancels=keys[:1])
            door.await_refused(keys[0])
        else:
            door.await_accepted(keys[0])
            for key in keys if state != "prefill" else ():
                door.await_output(key, 2, hold=hold)
            door.say(cancels=keys[2:3] if state == "one" else keys[:1])
            assert {door.await_ended(key).reason for key in keys} == {states_pb2.FINISH_REASON_CANCELLED}
    assert outputs_of(door, other) == alone(model, random_ids(20, 40500), 2, 1, 60)
    served.check_all_free()


def test_who_follows_a_sample_before_it_is_forked_hears_of_it_then(served: EngineWorld) -> None:
    door, other = served.door(), served.door()
    start, nobody = samples_of(random_ids(300, 40600), 3, seed=1, max_tokens=5), bytes(range(16))
    key = keys_of(start)[2]
    with served.held(position=200):
        door.start(start)
        door.await_accepted(start.uuid)
        other.say(follows=[key, nobody])
        wait_until(lambda: nobody in other.unknown, "the engine has heard of both")
    other.await_accepted(key)
    assert other.await_ended(key).tokens == 305
    assert key not in other.unknown


def test_more_samples_than_are_computed_at_once_or_than_the_pool_can_hold_are_refused(
    model: Path, served: EngineWorld
) -> None:
    door = served.door()
    many, large = samples_of([1] * 20, 9, max_tokens=5), samples_of([1] * 1000, 8, max_tokens=200)
    fits = samples_of([1] * 100, 2, seed=1, max_tokens=60)
    door.start(many, large, fits)
    refused = door.await_refused(many.uuid)
    assert (refused.refusal, refused.detail) == (
        states_pb2.REFUSAL_INVALID,
        "outputs is 9; at most 8 are computed at once",
    )
    # 75 blocks at the longest, 62 of which are shared.
    refused = door.await_refused(large.uuid)
    assert (refused.refusal, refused.needed, refused.available) == (states_pb2.REFUSAL_NEVER_FITS, 166, 120)
    assert outputs_of(door, fits) == alone(model, [1] * 100, 2, 1, 60)
    served.check_all_free()


@pytest.mark.parametrize("token", [0, pytest.param(1, marks=pytest.mark.long), 6])
def test_samples_go_on_where_they_were_when_their_engine_is_killed(
    model: Path, mortal: EngineWorld, token: int
) -> None:
    door = mortal.door()
    prompt = random_ids(41, 40200 + token)
    start = samples_of(prompt, 5, seed=3, max_tokens=24)
    with mortal.held(position=41 + token if token else 32) as hold:
        door.start(start)
        door.await_accepted(start.uuid)
        for key in keys_of(start) if token else ():
            door.await_output(key, token, hold=hold)
        mortal.engines[-1].kill()
    mortal.start_engine(model, *MORTAL, faulty=True)
    assert outputs_of(door, start) == alone(model, prompt, 5, 3, 24)
    mortal.check_all_free()


def test_an_engine_that_dies_with_each_of_its_first_tokens_leaves_samples_that_are_the_same(
    model: Path, mortal: EngineWorld
) -> None:
    prompt = random_ids(20, 40300)
    wanted = alone(model, prompt, 4, 5, 24)
    start = samples_of(prompt, 4, seed=5, max_tokens=24)
    mortal.engines[-1].kill()
    door = mortal.door()
    engine = mortal.start_engine(model, *MORTAL, faulty=True, DIE_AT=str(wanted[2][3]))
    door.start(start)
    assert engine.process.wait(120) == -signal.SIGKILL
    mortal.start_engine(model, *MORTAL, faulty=True)
    assert outputs_of(door, start) == wanted
    mortal.check_all_free()


@pytest.mark.parametrize(
    ("preempt", "host_blocks", "kept"),
    [
        ("swap", 8, {}),
        pytest.param("auto", 60, {}, marks=pytest.mark.long),
        pytest.param("swap", 400, {"no_store": True}, marks=pytest.mark.long),
        ("recompute", 0, {"bypass_cache": True, "no_store": True}),
    ],
)
def test_families_in_a_pool_too_small_for_all_make_room_as_one_and_stay_the_same(
    model: Path, world: EngineWorld, preempt: str, host_blocks: int, kept: dict[str, Any]
) -> None:
    lengths, tokens = [100, 37, 64, 150, 20, 81, 33, 120], 40
    prompts = [random_ids(length, 40700 + index) for index, length in enumerate(lengths)]
    engine = world.start_engine(
        model,
        *("--blocks", "48", "--host-blocks", str(host_blocks), "--preempt", preempt, "--max-running", "32"),
        *("--chunk", "64", "--step-tokens", "128"),
    )
    door = world.door()
    door.describe()
    starts = [
        start_of(prompt, request=request_pb2.Request(outputs=4, **kept), seed=index, max_tokens=tokens, **SAMPLED)
        for index, prompt in enumerate(prompts)
    ]
    door.start(*starts)
    for index, start in enumerate(starts):
        assert outputs_of(door, start, 240) == alone(model, prompts[index], 4, index, tokens), index
    gone = engine.events("makes room")
    assert 0 < len(gone) <= 4 * 4 * len(starts)
    world.check_all_free()


@pytest.mark.parametrize("preempt", ["swap", "recompute"])
def test_families_that_have_made_room_are_taken_up_by_the_next_engine(
    model: Path, world: EngineWorld, preempt: str
) -> None:
    prompts = [random_ids(length, 40800 + length) for length in (100, 37, 64, 150)]
    ways = ("--blocks", "40", "--host-blocks", "200", "--preempt", preempt, "--chunk", "64", "--step-tokens", "128")
    engine = world.start_engine(model, *ways, faulty=True)
    door = world.door()
    door.describe()
    starts = [samples_of(prompt, 4, seed=index, max_tokens=60) for index, prompt in enumerate(prompts)]
    # By then all of them together would need far more than there is.
    with world.held(steps=50):
        door.start(*starts)
        wait_until(partial(engine.events, "makes room"), "somebody makes room")
        wait_until(lambda: world.statistics().sequences.swapped, "somebody is away")
        engine.kill()
    world.start_engine(model, *ways)
    for index, start in enumerate(starts):
        assert outputs_of(door, start, 240) == alone(model, prompts[index], 4, index, 60)
    world.check_all_free()


@pytest.mark.long
def test_twenty_families_finish_in_a_pool_that_holds_hardly_more_than_one(model: Path, world: EngineWorld) -> None:
    prompts = [random_ids(24, 40900 + index) for index in range(20)]
    # One block is shared; each sample has two of its own at the longest.
    world.start_engine(model, "--blocks", "12", "--host-blocks", "4", "--preempt", "swap", "--chunk", "32")
    door = world.door()
    starts = [samples_of(prompt, 4, seed=index, max_tokens=20) for index, prompt in enumerate(prompts)]
    door.start(*starts)
    for index, start in enumerate(starts):
        assert outputs_of(door, start, 240) == alone(model, prompts[index], 4, index, 20)
    world.check_all_free()

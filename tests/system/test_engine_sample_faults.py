"""Several samples of one prompt where things go wrong: steps that fail, callers that go at any moment, engines that share."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from pagehold.common.v1 import states_pb2
from tests.engines.world import EngineWorld, engine_world, save_tiny
from tests.models.checkpoints import random_ids
from tests.system.test_engine_samples import alone, keys_of, outputs_of, samples_of

pytestmark = pytest.mark.long


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
    # Streams that were opened while the engine was loading have ended by then.
    door.output(door.start(samples_of([1], 1, seed=0, max_tokens=1))[0])
    errors = list(door.errors)
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
    door.await_over(*door.submitted)
    assert door.errors == errors
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


@pytest.mark.parametrize("host_blocks", [0, 1, 4])
@pytest.mark.parametrize(("blocks", "tokens"), [(8, 17), (20, 40)])
def test_twenty_families_finish_in_a_pool_of_one_or_two_however_little_they_can_swap(
    model: Path, world: EngineWorld, blocks: int, tokens: int, host_blocks: int
) -> None:
    # Eight blocks are what one family has in the end. In twenty there is room for two at first, and not to the end.
    prompts = [random_ids(5 if blocks == 8 else 20, 50400 + place) for place in range(20)]
    engine = world.start_engine(
        model,
        *("--blocks", str(blocks + 1), "--host-blocks", str(host_blocks), "--preempt", "swap", "--chunk", "32"),
    )
    door = world.door()
    starts = [samples_of(prompt, 4, seed=place, max_tokens=tokens) for place, prompt in enumerate(prompts)]
    door.start(*starts)
    for place, start in enumerate(starts):
        assert outputs_of(door, start, 240) == alone(model, prompts[place], 4, place, tokens)
    ways = {event["way"] for event in engine.events("makes room")}
    assert ways or blocks == 8
    assert host_blocks or ways <= {"recompute"}
    world.check_all_free()
    host = [tier for tier in world.statistics().tiers if tier.tier == states_pb2.TIER_HOST]
    free = {states_pb2.BLOCK_STATE_FREE: host_blocks}
    assert [{count.state: count.blocks for count in tier.states} for tier in host] == [free] * bool(host_blocks)


def test_samples_that_find_too_few_blocks_are_refused_or_wait_and_none_is_half_forked(
    model: Path, world: EngineWorld
) -> None:
    world.start_engine(model, "--blocks", "5", "--host-blocks", "4", "--chunk", "32")
    door = world.door()
    prompt = random_ids(48, 50500)
    # Two blocks are shared, and of each sample one more with the prompt's last token, and one for its output.
    large = samples_of(prompt, 8, seed=1, max_tokens=16)
    door.start(large)
    refused = door.await_refused(large.uuid)
    assert (refused.refusal, refused.needed, refused.available) == (states_pb2.REFUSAL_NEVER_FITS, 18, 4)
    assert not world.statistics().sequences.live
    # Each family takes all four blocks, so the others wait for it.
    fitting = [samples_of(random_ids(10, 50501 + place), 4, seed=place, max_tokens=6) for place in range(6)]
    door.start(*fitting)
    for place, start in enumerate(fitting):
        assert outputs_of(door, start) == alone(model, random_ids(10, 50501 + place), 4, place, 6)
    world.check_all_free()

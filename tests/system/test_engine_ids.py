"""What an engine generates: the ids that the model gives each prompt alone, whoever shares its steps and its blocks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from executor.models.generate import Sampling, generate
from pagehold.common.v1 import states_pb2
from pagehold.engine.v1 import request_pb2, submit_pb2
from tests.engines.door import Door, start_of
from tests.engines.world import EngineWorld, engine_world, save_tiny, tiny
from tests.models.checkpoints import VOCABULARY, random_ids
from tests.scripted.processes import wait_until

BLOCK = 16


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"), eos_token_id=VOCABULARY - 1)


@pytest.fixture(scope="module")
def world(model: Path) -> Iterator[EngineWorld]:
    with engine_world() as world:
        world.start_engine(model, "--chunk", "32", "--step-tokens", "96", "--max-waiting", "64", faulty=True)
        world.door().describe()
        yield world
        world.check_all_free()


@pytest.fixture
def door(world: EngineWorld) -> Iterator[Door]:
    door = world.door()
    yield door
    door.close()


def ids(count: int, seed: int) -> list[int]:
    return random_ids(count, 1000 + seed)


def answer(model: Path, prompt: list[int], count: int, **sampling: float) -> list[int]:
    ways = [Sampling(**sampling)] if sampling else None  # type: ignore[arg-type]
    return generate(tiny(model), [prompt], count, sampling=ways)[0]


def run_eight_at_a_time(door: Door, prompts: list[list[int]], count: int) -> list[list[int]]:
    """All prompts, each of eight streams asking for the next one when the last has ended."""
    lanes = [list(range(first, len(prompts), 8)) for first in range(8)]
    keys: dict[int, bytes] = {}
    for place in range(max(map(len, lanes))):
        turn = [lane[place] for lane in lanes if place < len(lane)]
        started = door.start(*[start_of(prompts[number], max_tokens=count) for number in turn])
        keys |= dict(zip(turn, started, strict=True))
        for number in turn[:-1]:
            door.await_ended(keys[number])
    return [door.output(keys[number]) for number in range(len(prompts))]


def test_thirty_two_prompts_eight_at_a_time_get_the_ids_that_each_gets_alone(model: Path, door: Door) -> None:
    prompts = [ids(1 + 2 * index, index) for index in range(32)]
    outputs = run_eight_at_a_time(door, prompts, 64)
    assert outputs == generate(tiny(model), prompts, 64)


def test_sampled_ids_depend_on_seed_and_position_and_not_on_neighbours(model: Path, door: Door) -> None:
    prompt = ids(20, 100)
    sampled: dict[str, Any] = {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "min_p": 0.01, "seed": (1 << 64) - 5}
    together = door.start(
        start_of(prompt, **sampled),
        start_of(ids(33, 101)),
        start_of(ids(7, 102), temperature=1.3),
        start_of(prompt, **sampled),
    )
    wanted = answer(model, prompt, 16, **sampled | {"seed": -5})
    assert door.output(together[0]) == wanted
    assert door.output(together[3]) == wanted
    assert door.output(together[1]) == answer(model, ids(33, 101), 16)
    alone = door.start(start_of(prompt, **sampled))[0]
    assert door.output(alone) == wanted


@pytest.mark.parametrize("length", [1, 15, 16, 17, 31, 32, 33, 48, 96])
def test_asked_again_a_prompt_computes_less_than_a_block_more_than_its_last_token(
    model: Path, door: Door, length: int
) -> None:
    prompt = ids(length, 200 + length)
    wanted = answer(model, prompt, 20)
    first, second = (door.start(start_of(prompt, max_tokens=20))[0], b"")
    assert door.output(first) == wanted
    second = door.start(start_of(prompt, max_tokens=20))[0]
    assert door.output(second) == wanted
    assert door.accepted[second].cached_tokens == (length - 1) // BLOCK * BLOCK


def test_equal_prompts_at_once_are_computed_once(model: Path, door: Door) -> None:
    prompt = ids(100, 300)
    keys = door.start(*[start_of(prompt, max_tokens=8) for _ in range(8)])
    assert {tuple(door.output(key)) for key in keys} == {tuple(answer(model, prompt, 8))}
    assert sorted(door.accepted[key].cached_tokens for key in keys) == [0] + [96] * 7


def test_salts_bypass_and_no_store_keep_caches_apart(model: Path, door: Door) -> None:
    prompt = ids(40, 310)

    def cached(**fields: Any) -> int:
        key = door.start(start_of(prompt, request=request_pb2.Request(**fields), max_tokens=2))[0]
        assert door.output(key) == answer(model, prompt, 2)
        return door.accepted[key].cached_tokens

    assert cached(cache_salt="a", no_store=True) == 0
    assert cached(cache_salt="a") == 0
    assert cached(cache_salt="a") == 32
    assert cached(cache_salt="b") == 0
    assert cached(cache_salt="a", bypass_cache=True) == 0
    assert cached() == 0


def test_one_token_is_one_token(model: Path, door: Door) -> None:
    prompt = ids(9, 400)
    key = door.start(start_of(prompt, max_tokens=1))[0]
    assert door.output(key) == answer(model, prompt, 1)
    assert door.ended[key].reason == states_pb2.FINISH_REASON_LENGTH


def test_an_end_id_ends_the_output_and_belongs_to_it(model: Path, door: Door) -> None:
    prompt = ids(9, 410)
    whole = answer(model, prompt, 12)
    end = next(id_ for place, id_ in enumerate(whole) if place >= 3 and id_ not in whole[:place])
    until = whole.index(end) + 1
    key, first, at_limit = door.start(
        start_of(prompt, max_tokens=12, end_ids=[end, 0]),
        start_of(prompt, max_tokens=12, end_ids=[whole[0]]),
        start_of(prompt, max_tokens=until, end_ids=[end]),
    )
    assert door.output(key) == whole[:until]
    assert door.output(first) == whole[:1]
    assert door.output(at_limit) == whole[:until]
    reasons = {door.ended[one].reason for one in (key, first, at_limit)}
    assert reasons == {states_pb2.FINISH_REASON_STOP}
    assert door.ended[first].tokens == len(prompt) + 1


def test_min_tokens_holds_back_end_ids_and_the_models_own(model: Path, door: Door) -> None:
    prompt = ids(9, 420)
    # Everything but two ids ends it: an id that does not is chosen four times, then one that does.
    ends = [id_ for id_ in range(VOCABULARY) if id_ not in (5, 6, VOCABULARY - 1)]
    key = door.start(start_of(prompt, max_tokens=20, min_tokens=4, end_ids=ends))[0]
    output = door.output(key)
    assert len(output) >= 5
    assert set(output[:4]) <= {5, 6}, "the model's own end-of-sequence id is held back too"
    assert output[-1] in ends or len(output) == 20


def test_progress_of_a_long_prompt_is_told(world: EngineWorld, door: Door) -> None:
    with world.held(position=64):
        key = door.start(start_of(ids(100, 430), max_tokens=2))[0]
        handle = door.await_accepted(key).handle
        wait_until(lambda: door.computing.get(handle, [0])[-1] == 64, "two chunks are told of")
    door.output(key)
    told = door.computing[handle]
    # Two steps may have been done when the engine looked.
    assert told == sorted(set(told))
    assert set(told) <= {32, 64, 96}


@pytest.mark.parametrize(
    ("start", "refusal", "words"),
    [
        (start_of([]), states_pb2.REFUSAL_INVALID, "prompt is empty"),
        (start_of([3, VOCABULARY]), states_pb2.REFUSAL_INVALID, f"prompt holds the id {VOCABULARY}"),
        (start_of([-1]), states_pb2.REFUSAL_INVALID, "prompt holds the id -1"),
        (start_of([3], max_tokens=0), states_pb2.REFUSAL_INVALID, "max_tokens"),
        (start_of([3], max_tokens=2, min_tokens=3), states_pb2.REFUSAL_INVALID, "min_tokens is 3"),
        (start_of([3], end_ids=[VOCABULARY]), states_pb2.REFUSAL_INVALID, "end_ids"),
        (start_of([3] * 100, max_tokens=29), states_pb2.REFUSAL_TOO_LONG, "129 tokens; at most 128"),
    ],
)
def test_what_can_never_be_is_refused_with_its_field_and_neighbours_go_on(
    model: Path, door: Door, start: submit_pb2.Start, refusal: int, words: str
) -> None:
    prompt = ids(12, 440)
    neighbour = start_of(prompt)
    door.start(neighbour, start)
    refused = door.await_refused(start.uuid)
    assert refused.refusal == refusal
    assert words in refused.detail
    assert door.output(neighbour.uuid) == answer(model, prompt, 16)


def test_the_same_request_again_is_followed_and_not_computed_again(model: Path, world: EngineWorld, door: Door) -> None:
    prompt = ids(12, 450)
    start = start_of(prompt, max_tokens=80)
    other, follower = world.door(), world.door()
    with world.held(position=20):
        door.start(start)
        door.await_accepted(start.uuid)
        other.start(start)
        follower.say(follows=[start.uuid, bytes(range(16))])
        for one in (other, follower):
            one.await_accepted(start.uuid)
    assert door.output(start.uuid) == answer(model, prompt, 80)
    for one in (other, follower):
        assert one.await_ended(start.uuid).tokens == 92
        assert one.accepted[start.uuid].handle == door.accepted[start.uuid].handle
    assert follower.unknown == [bytes(range(16))]
    late = world.door()
    late.start(start)
    assert late.await_refused(start.uuid).refusal == states_pb2.REFUSAL_DUPLICATE


def test_ids_wrong_in_form_end_the_stream_and_say_which(world: EngineWorld) -> None:
    door = world.door()
    door.say(cancels=[b"short"])
    wait_until(lambda: door.errors, "the stream ends")
    assert door.errors[0] == grpc.StatusCode.INVALID_ARGUMENT

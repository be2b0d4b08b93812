"""Beam search through an engine and a manager: transformers' outputs and scores, in whatever way it is disturbed."""

import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from executor.models.generate import generate
from pagehold.blockmgr.v1 import sequence_pb2
from pagehold.common.v1 import states_pb2
from tests.engines.beam_searches import NEVER, OFF, ON, WIDTH, Search, ends_for, reference
from tests.engines.door import Door, start_of
from tests.engines.world import EngineWorld, engine_world, save_tiny, tiny
from tests.models.beam_search import reference_beams
from tests.models.checkpoints import random_ids
from tests.scripted.processes import wait_until

USED = {
    states_pb2.BLOCK_STATE_OWNED,
    states_pb2.BLOCK_STATE_FILLING,
    states_pb2.BLOCK_STATE_SEALED,
    states_pb2.BLOCK_STATE_TARGET,
}
LENGTHS = (1, 2, 7, 15, 16, 17, 18, 30, 31, 32, 33, 34, 40, 46, 47, 48, 49, 50, 63, 64)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"), max_position_embeddings=600)


@pytest.fixture
def world() -> Iterator[EngineWorld]:
    with engine_world() as world:
        yield world


@pytest.fixture(scope="module")
def served(model: Path) -> Iterator[tuple[EngineWorld, Door]]:
    """A world with an engine, and a door to it, which tests share that leave them as they were."""
    with engine_world() as world:
        ways = ("--blocks", "400", "--chunk", "32", "--step-tokens", "64", "--max-running", "48")
        world.start_engine(model, *ways, faulty=True, NEAR="1")
        yield world, world.door()


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
def test_searches_are_transformers_whatever_their_prompts_lengths(
    model: Path, served: tuple[EngineWorld, Door], penalty: float
) -> None:
    world, door = served
    searches = []
    for number, length in enumerate(LENGTHS):
        prompt = random_ids(length, 70 + length)
        ends = ends_for(model, prompt, number % 5) if number % 2 else []
        stopping = (OFF, ON, NEVER)[number % 3]
        searches.append(Search(prompt, 20, length_penalty=penalty, end_ids=ends, early_stopping=stopping))
    door.start(*(search.start for search in searches))
    for search in searches:
        search.check(door, model)
    world.check_all_free()


def test_one_beam_and_many_are_transformers_and_neighbours_change_nothing(
    model: Path, served: tuple[EngineWorld, Door]
) -> None:
    world, door = served
    prompt = random_ids(37, 5)
    searches = [Search(prompt, 18, width=width, end_ids=ends_for(model, prompt, 3)) for width in (2, 3, 8, 16)]
    alone = start_of(random_ids(21, 6), max_tokens=60)
    keys = door.start(alone, *(search.start for search in searches))
    for search in searches:
        search.check(door, model)
    assert door.output(keys[0]) == generate(tiny(model), [random_ids(21, 6)], 60)[0]
    single = Search(prompt, 18, width=1)
    door.start(single.start)
    assert single.found(door)[0][0] == generate(tiny(model), [prompt], 18)[0]
    world.check_all_free()


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
def test_long_prompts_and_steps_in_which_all_of_the_best_end(
    model: Path, served: tuple[EngineWorld, Door], penalty: float
) -> None:
    world, door = served
    prompt = random_ids(200, 11)
    likeliest = [ids[0] for ids, _ in reference_beams(reference(model), prompt, 8, 1)]
    searches = [
        Search(prompt, 10, length_penalty=penalty, end_ids=likeliest[:6], early_stopping=stopping)
        for stopping in (OFF, ON, NEVER)
    ]
    # One that may end has the rank of the seventh or eighth: among twice as many as there are beams, not among the best.
    searches.append(Search(prompt, 10, length_penalty=penalty, end_ids=likeliest[6:]))
    door.start(*(search.start for search in searches))
    for search in searches:
        search.check(door, model)
    world.check_all_free()


def test_ends_are_held_back_until_enough_tokens_are_there(model: Path, served: tuple[EngineWorld, Door]) -> None:
    _, door = served
    prompt = random_ids(20, 7)
    search = Search(prompt, 16, end_ids=ends_for(model, prompt, 1), min_tokens=6, early_stopping=ON)
    door.start(search.start)
    assert min(len(ids) for ids, _ in search.check(door, model)) > 6


def test_beams_share_what_they_have_in_common_and_dead_ones_give_back_their_blocks_at_once(
    model: Path, served: tuple[EngineWorld, Door]
) -> None:
    world, door = served
    search = Search(random_ids(321, 8), 40)
    used = []
    with world.held(position=323) as hold:
        (key,) = door.start(search.start)
        for position in (*range(323, 359, 5), 359):
            hold.move(position=position)
            door.await_output(key, position + 1 - 321, hold=hold)
            used.append(sum(one.blocks for one in world.statistics().tiers[0].states if one.state in USED))
    search.check(door, model)
    # 20 blocks of the prompt; of each beam its last two, and another on its way for what is ahead of it.
    assert min(used) >= 20 + WIDTH
    assert max(used) <= 20 + WIDTH * 4
    world.check_all_free()


def test_a_search_goes_on_through_deaths_of_its_engine_and_of_its_manager(model: Path, world: EngineWorld) -> None:
    longest = 50
    prompts = [random_ids(length, 80 + length) for length in (16, 31, longest)]
    searches = [
        Search(prompt, 40, end_ids=ends_for(model, prompt, place + 2), early_stopping=NEVER, length_penalty=2.0)
        for place, prompt in enumerate(prompts)
    ]
    engine = world.start_engine(model, "--blocks", "200", faulty=True)
    door = world.door()
    with world.held(position=longest) as hold:
        keys = door.start(*(search.start for search in searches))
        for tokens, dies in ((5, "engine"), (16, "manager"), (27, "engine")):
            # All stand still once the longest has come so far.
            hold.move(position=longest + tokens)
            door.await_output(keys[-1], tokens, hold=hold)
            if dies == "manager":
                world.kill_manager()
            else:
                engine.kill()
                engine = world.start_engine(model, "--blocks", "200", faulty=True)
    for search in searches:
        search.check(door, model)
    assert len(engine.events("adopted")) >= WIDTH
    assert world.violated_invariants() == []
    world.check_all_free()


@pytest.mark.long
def test_an_engine_that_is_stopped_leaves_its_searches_to_the_next(model: Path, world: EngineWorld) -> None:
    ways = ("--blocks", "120")
    engine = world.start_engine(model, *ways, faulty=True, PAGEHOLD_ENGINE_STOP_GRACE="0")
    door = world.door()
    longest = 48
    prompts = [random_ids(length, 90 + length) for length in (15, longest)]
    searches = [
        Search(prompt, 80, end_ids=ends_for(model, prompt, 2), length_penalty=2.0, early_stopping=NEVER)
        for prompt in prompts
    ]
    with world.held(position=longest) as hold:
        keys = door.start(*(search.start for search in searches))
        for tokens in (3, 14):
            hold.move(position=longest + tokens)
            door.await_output(keys[-1], tokens, hold=hold)
            wait_until(lambda: door.loads and not door.loads[-1].draining, "it tells of itself")
            engine.process.send_signal(signal.SIGTERM)
            wait_until(lambda: door.loads and door.loads[-1].draining, "it has heard of it")
            hold.let_go()
            assert engine.process.wait(120) == 0
            # The next one has no more than it goes on with.
            hold.move(position=longest + 30)
            engine = world.start_engine(model, *ways, faulty=True, PAGEHOLD_ENGINE_STOP_GRACE="0")
    for search in searches:
        search.check(door, model)
    assert len(engine.events("adopted")) == WIDTH * len(searches)
    world.check_all_free()


@pytest.mark.parametrize(
    ("preempt", "host_blocks"), [("recompute", 0), ("swap", 6), pytest.param("auto", 40, marks=pytest.mark.long)]
)
def test_searches_make_room_as_a_whole_and_find_the_same(
    model: Path, world: EngineWorld, preempt: str, host_blocks: int
) -> None:
    engine = world.start_engine(
        model,
        *("--blocks", "36", "--host-blocks", str(host_blocks), "--preempt", preempt),
        *("--chunk", "32", "--step-tokens", "96", "--max-running", "40"),
    )
    door = world.door()
    searches = []
    for place, length in enumerate((5, 16, 30, 33, 47, 20)):
        prompt = random_ids(length, 300 + place)
        ends = ends_for(model, prompt, 4) if place % 2 else []
        searches.append(Search(prompt, 64, end_ids=ends, early_stopping=(OFF, NEVER)[place % 2]))
    door.start(*(search.start for search in searches))
    for search in searches:
        search.check(door, model, 240)
    gone = engine.events("makes room")
    assert gone
    assert len(gone) % WIDTH == 0
    assert world.violated_invariants() == []
    world.check_all_free()


def test_a_search_that_is_cancelled_ends_with_all_of_its_beams(model: Path, served: tuple[EngineWorld, Door]) -> None:
    world, door = served
    prompt = random_ids(33, 9)
    searches = [Search(prompt, 300, end_ids=ends_for(model, prompt, 2), early_stopping=NEVER) for _ in range(2)]
    with world.held(position=33 + 10) as hold:
        keys = door.start(*(search.start for search in searches))
        for key in keys:
            door.await_output(key, 8, hold=hold)
        door.say(cancels=[keys[0]])
        handle = door.accepted[keys[1]].handle
        door.manager.CancelSequence(sequence_pb2.CancelSequenceRequest(handle=handle), timeout=60)
        for key in keys:
            assert door.await_ended(key).reason == states_pb2.FINISH_REASON_CANCELLED
    world.check_all_free()


def is_past(when: float) -> bool:
    return time.time() > when


def test_at_its_deadline_a_search_ends_with_the_best_that_there_is(served: tuple[EngineWorld, Door]) -> None:
    world, door = served
    seconds = 1.0
    while True:
        deadline = time.time() + seconds
        search = Search(random_ids(33, 9), 500, deadline=deadline)
        with world.held(position=33 + 20):
            (key,) = door.start(search.start)
            wait_until(partial(is_past, deadline), "its time is over")
        door.await_over(key)
        found = search.found(door) if key in door.ended else []
        if any(ids for ids, _ in found):
            break
        # It was not even begun in time.
        seconds *= 2
        assert seconds < 60
    assert door.ended[key].reason == states_pb2.FINISH_REASON_DEADLINE
    assert len(found) == WIDTH
    assert len({tuple(ids) for ids, _ in found}) == WIDTH
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    world.check_all_free()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"width": 17}, "outputs is 17; a beam search has at most 16 beams"),
        ({"length_penalty": 5.0}, "beams.length_penalty is 5.0; it must lie in -4..4"),
        ({"length_penalty": float("nan")}, "beams.length_penalty is nan"),
        ({"end_ids": list(range(125))}, "are 129 together; a beam search takes at most 128"),
    ],
)
def test_a_search_that_cannot_be_is_refused_by_name(
    served: tuple[EngineWorld, Door], change: dict[str, Any], text: str
) -> None:
    _, door = served
    search = Search(random_ids(5), 10, **change)
    (key,) = door.start(search.start)
    assert text in door.await_refused(key).detail

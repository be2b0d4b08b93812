"""Beam searches in trouble: rows without numbers, steps that fail, engines that die again and again."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.models.generate import generate
from pagehold.common.v1 import states_pb2
from tests.engines.beam_searches import NEVER, OFF, ON, Search, ends_for
from tests.engines.door import start_of
from tests.engines.world import EngineProcess, EngineWorld, engine_world, save_tiny, tiny
from tests.models.checkpoints import random_ids
from tests.scripted.processes import wait_until

pytestmark = pytest.mark.long

PROMPT = random_ids(30, 400)
TOKENS = 30


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def world() -> Iterator[EngineWorld]:
    with engine_world() as world:
        yield world


def late_id(model: Path) -> int:
    """An id that no prompt here has, and that the beams come to have after some tokens."""
    outputs = [ids for ids, _ in Search(PROMPT, TOKENS).expected(model)]
    return next(id_ for id_ in outputs[0][4:] if id_ not in (*PROMPT, *outputs[0][:4], *NEIGHBOUR))


NEIGHBOUR = random_ids(11, 401)


def test_a_beam_without_a_number_ends_its_search_and_nobody_elses(model: Path, world: EngineWorld) -> None:
    world.start_engine(model, "--blocks", "120", faulty=True, NAN_AT=str(late_id(model)))
    door = world.door()
    search = Search(PROMPT, TOKENS)
    (key,) = door.start(search.start)
    ended = door.await_ended(key)
    assert ended.reason == states_pb2.FINISH_REASON_INTERNAL
    assert ended.error_id
    world.check_all_free()


def test_a_step_that_fails_changes_nothing_of_what_is_found(model: Path, world: EngineWorld) -> None:
    world.start_engine(model, "--blocks", "120", faulty=True, RAISE_ONCE=str(late_id(model)))
    door = world.door()
    searches = [Search(PROMPT, TOKENS), Search(random_ids(47, 402), TOKENS, length_penalty=2.0)]
    door.start(*(search.start for search in searches))
    for search in searches:
        search.check(door, model)
    world.check_all_free()


def test_a_search_that_kills_engines_ends_and_nobody_elses(model: Path, world: EngineWorld) -> None:
    fatal = late_id(model)
    output = generate(tiny(model), [NEIGHBOUR], 12)[0]
    assert fatal not in output

    def start() -> EngineProcess:
        return world.start_engine(model, "--blocks", "120", faulty=True, SLOW="0.01", DIE_AT=str(fatal))

    engines = [start()]
    door = world.door()
    search = Search(PROMPT, TOKENS)
    key, other = door.start(search.start, start_of(NEIGHBOUR, max_tokens=12))

    def over() -> bool:
        if engines[-1].process.poll() is not None:
            engines.append(start())
        return key in door.ended or key in door.refused

    wait_until(over, "it has ended", 280)
    assert door.lookup(key).finished.reason == states_pb2.FINISH_REASON_INTERNAL
    # It may have ended just before one of them died: then the next one says so.
    door.await_over(other)
    kept = door.lookup(other).finished
    assert list(kept.ids[kept.prompt :]) == output
    world.check_all_free()


@pytest.mark.parametrize("seed", range(3))
def test_whenever_engines_die_searches_find_the_same(model: Path, world: EngineWorld, seed: int) -> None:
    draw = random.Random(seed)
    flags = (
        *("--blocks", "60", "--host-blocks", "40", "--chunk", "16", "--step-tokens", "64", "--max-running", "24"),
        *("--preempt", ("auto", "swap", "recompute")[seed % 3]),
    )
    searches = []
    for place in range(6):
        prompt = random_ids(draw.randint(1, 50), 500 + 10 * seed + place)
        ends = ends_for(model, prompt, draw.randint(0, 6)) if place % 2 else []
        rules = {"length_penalty": draw.choice([0.0, 1.0, 2.0]), "early_stopping": draw.choice([OFF, ON, NEVER])}
        searches.append(Search(prompt, 60, end_ids=ends, **rules))
    engine = world.start_engine(model, *flags, faulty=True, SLOW="0.004")
    door = world.door()
    keys = door.start(*(search.start for search in searches))
    for _ in range(4):
        watched = draw.choice(keys)
        door.await_output(watched, draw.randint(0, 50))
        engine.kill()
        engine = world.start_engine(model, *flags, faulty=True, SLOW="0.004")
    for search in searches:
        search.check(door, model, 240)
    assert world.violated_invariants() == []
    world.check_all_free()

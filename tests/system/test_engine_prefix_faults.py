"""Hits that would be wrong: of blocks never finished, given to others, evicted, or wanted by the very request that has them."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.models.generate import generate
from pagehold.admin.v1 import block_pb2, evict_pb2, prefix_pb2, sequence_pb2
from pagehold.common.v1 import states_pb2
from pagehold.engine.v1 import description_pb2
from tests.engines.door import Door, start_of
from tests.engines.world import EngineWorld, engine_world, save_tiny, tiny
from tests.models.checkpoints import random_ids
from tests.scripted.processes import wait_until

HELD = 0
"""An id that no prompt here has by chance: those are 3 and above. Steps that have it stand still where a test wants that."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"), max_position_embeddings=600)


@pytest.fixture
def world() -> Iterator[EngineWorld]:
    with engine_world() as world:
        yield world
        world.check_all_free()


@pytest.fixture
def six(model: Path, world: EngineWorld) -> Door:
    """An engine over six usable blocks."""
    world.start_engine(model, "--blocks", "7", "--chunk", "16", faulty=True, SLOW="0.02")
    return world.door()


def answer(model: Path, prompt: list[int], count: int = 16) -> list[int]:
    return generate(tiny(model), [prompt], count)[0]


def run(door: Door, model: Path, prompt: list[int], count: int = 4) -> int:
    """Ask for a prompt, and see that it gets what it gets alone. Returns how much of it was cached."""
    key = door.start(start_of(prompt, max_tokens=count))[0]
    assert door.output(key) == answer(model, prompt, count)
    return door.accepted[key].cached_tokens


def found_blocks(world: EngineWorld, prompt: list[int]) -> list[block_pb2.BlockId]:
    """Where the whole blocks of a prompt are cached."""
    request = prefix_pb2.LookupPrefixRequest(prompt=prefix_pb2.Prompt(ids=[*prompt, HELD]))
    return [one.id for one in world.admin.LookupPrefix(request, timeout=60).blocks if one.HasField("id")]


def evict(world: EngineWorld, block: block_pb2.BlockId) -> None:
    """Evict a block by name, as soon as no step may touch it any more."""
    request = evict_pb2.EvictRequest(blocks=evict_pb2.BlockList(ids=[block]))

    def is_evicted() -> bool:
        return len(world.admin.Evict(request, timeout=60).evicted) == 1

    wait_until(is_evicted, "it is evicted")


def listed(door: Door) -> list[bytes]:
    """What an engine works on, and what waits there."""
    request = description_pb2.ListWorkRequest()
    return [one.uuid for one in door.engine.ListWork(request, timeout=60, wait_for_ready=True).work]


def await_refused_for_now(world: EngineWorld, door: Door, key: bytes) -> None:
    """Wait until a request waits for blocks, by an engine that exchanges messages meanwhile."""
    wait_until(lambda: key in listed(door), "the engine has heard of it")
    turns = world.statistics().counters.turns
    wait_until(lambda: world.statistics().counters.turns > turns, "the engine and the manager have spoken")
    assert key not in door.accepted


def tables_of(world: EngineWorld, door: Door, key: bytes) -> list[list[int]]:
    """Block tables of a sequence, as the manager has them while it lives."""
    tables = []
    door.await_accepted(key)
    request = sequence_pb2.GetSequenceRequest(uuid=str(uuid.UUID(bytes=key)))
    while key not in door.ended:
        found = world.admin.GetSequence(request, timeout=60)
        if found.HasField("live"):
            tables.append([entry.block for entry in found.table])
    return tables


@pytest.mark.parametrize("end", ["cancelled", "killed"])
def test_nothing_is_found_of_a_prompt_whose_step_was_never_finished(model: Path, world: EngineWorld, end: str) -> None:
    prompt = [*random_ids(40, 32000), HELD, *random_ids(20, 32001)]
    engine = world.start_engine(model, "--blocks", "41", faulty=True)
    door = world.door()
    with world.held_at(HELD):
        first = door.start(start_of(prompt))[0]
        door.await_accepted(first)
        if end == "killed":
            engine.kill()
            world.start_engine(model, faulty=True)
        else:
            door.say(cancels=[first])
        second = door.start(start_of(prompt))[0]
        wait_until(lambda: second in listed(door), "the engine has heard of it")
    assert door.output(second) == answer(model, prompt)
    if end == "killed":
        assert door.output(first) == answer(model, prompt)
    else:
        assert door.await_ended(first).reason == states_pb2.FINISH_REASON_CANCELLED
    assert run(door, model, prompt) == 48


def test_hits_are_kept_for_the_prompt_that_waits_for_the_rest_of_its_blocks(
    model: Path, world: EngineWorld, six: Door
) -> None:
    head = random_ids(48, 32100)
    prompt, holder = [*head, *random_ids(33, 32101)], [*random_ids(1, 32102), HELD]
    assert run(six, model, head, 1) == 0
    hits = found_blocks(world, head)
    assert len(hits) == 3
    with world.held_at(HELD):
        first = six.start(start_of(holder, max_tokens=4))[0]
        six.await_accepted(first)
        # It needs three blocks more than it finds, and two are free.
        second = six.start(start_of(prompt, max_tokens=15))[0]
        await_refused_for_now(world, six, second)
        assert found_blocks(world, head) == hits
    tables = tables_of(world, six, second)
    assert six.accepted[second].cached_tokens == 48
    assert (six.output(first), six.output(second)) == (answer(model, holder, 4), answer(model, prompt, 15))
    assert tables
    for table in tables:
        assert table[:3] == [hit.block for hit in hits]
        assert len(set(table)) == len(table)


def test_a_hit_that_is_evicted_while_its_prompt_waits_is_counted_no_more(
    model: Path, world: EngineWorld, six: Door
) -> None:
    head, holder = random_ids(16, 32200), [*random_ids(32, 32201), HELD]
    prompt = [*head, *random_ids(65, 32202)]
    run(six, model, head, 1)
    (hit,) = found_blocks(world, head)
    with world.held_at(HELD):
        first = six.start(start_of(holder, max_tokens=4))[0]
        six.await_accepted(first)
        second = six.start(start_of(prompt, max_tokens=15))[0]
        await_refused_for_now(world, six, second)
        evict(world, hit)
    assert (six.output(first), six.output(second)) == (answer(model, holder, 4), answer(model, prompt, 15))
    assert six.accepted[second].cached_tokens == 0


def test_a_chain_is_hit_up_to_its_first_block_that_is_gone(model: Path, world: EngineWorld, six: Door) -> None:
    prompt = random_ids(49, 32300)
    for gone in (2, 1, 0):
        run(six, model, prompt)
        chain = found_blocks(world, prompt)
        assert len(chain) == 3
        evict(world, chain[gone])
        assert run(six, model, prompt) == gone * 16


def test_of_a_long_prompt_that_is_what_its_first_block_leaves_which_is_computed(
    model: Path, world: EngineWorld
) -> None:
    world.start_engine(model, "--blocks", "9", "--chunk", "100", PAGEHOLD_ENGINE_TOKENS_PER_BLOCK="128")
    door, prompt = world.door(), random_ids(465, 32400)
    assert run(door, model, prompt[:128]) == 0
    before = world.statistics().counters
    assert run(door, model, prompt) == 128
    after = world.statistics().counters
    assert after.prompt_tokens - before.prompt_tokens == 465
    assert after.cached_prompt_tokens - before.cached_prompt_tokens == 128
    assert run(door, model, prompt) == 384


def test_a_pool_of_two_blocks_knows_nothing_of_what_others_have_overwritten(model: Path, world: EngineWorld) -> None:
    world.start_engine(model, "--blocks", "3")
    door = world.door()
    prompts = [random_ids(29, 32500 + place) for place in range(3)]
    assert [run(door, model, prompt) for prompt in [*prompts, prompts[0]]] == [0, 0, 0, 0]
    assert run(door, model, prompts[0]) == 16
    assert world.violated_invariants() == []


def test_of_a_prompt_that_fills_the_smallest_blocks_the_last_is_computed_again(model: Path, world: EngineWorld) -> None:
    world.start_engine(model, "--blocks", "20", PAGEHOLD_ENGINE_TOKENS_PER_BLOCK="8")
    door = world.door()
    for length, cached in ((1, 0), (8, 0), (9, 8), (16, 8), (17, 16), (32, 24)):
        prompt = random_ids(length, 32600 + length)
        assert [run(door, model, prompt) for _ in range(2)] == [0, cached]

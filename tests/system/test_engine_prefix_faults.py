"""Hits that would be wrong: of blocks never finished, given to others, evicted, or wanted by the very request that has them."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.models.generate import generate
from pagehold.admin.v1 import block_pb2, evict_pb2, prefix_pb2, sequence_pb2
from pagehold.common.v1 import states_pb2
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


@pytest.fixture(scope="module")
def of_six(model: Path) -> Iterator[EngineWorld]:
    """A world with an engine over six usable blocks."""
    with engine_world() as world:
        world.start_engine(model, "--blocks", "7", "--chunk", "16", faulty=True)
        yield world


@pytest.fixture
def six(of_six: EngineWorld) -> Iterator[EngineWorld]:
    """The same, with nothing cached."""
    yield of_six
    of_six.check_all_free()


@pytest.fixture(scope="module")
def wide(model: Path) -> Iterator[EngineWorld]:
    """A world with an engine that has blocks enough."""
    with engine_world() as world:
        world.start_engine(model, "--blocks", "41", faulty=True)
        yield world


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


def await_refused_for_now(world: EngineWorld, door: Door, key: bytes) -> None:
    """Wait until a request waits for blocks, by an engine that exchanges messages meanwhile."""
    door.await_listed(key)
    turns = world.statistics().counters.turns
    wait_until(lambda: world.statistics().counters.turns > turns, "the engine and the manager have spoken")
    assert key not in door.accepted


def table_of(world: EngineWorld, key: bytes) -> list[int]:
    """The block table of a living sequence, as the manager has it."""
    request = sequence_pb2.GetSequenceRequest(uuid=str(uuid.UUID(bytes=key)))
    return [entry.block for entry in world.admin.GetSequence(request, timeout=60).table]


@pytest.mark.parametrize("end", ["cancelled", "killed"])
def test_nothing_is_found_of_a_prompt_whose_step_was_never_finished(model: Path, wide: EngineWorld, end: str) -> None:
    prompt = [*random_ids(40, 32000), HELD, *random_ids(20, 32001)]
    door = wide.door()
    with wide.held(token=HELD):
        first = door.start(start_of(prompt))[0]
        door.await_accepted(first)
        if end == "killed":
            wide.engines[-1].kill()
            wide.start_engine(model, faulty=True)
        else:
            door.say(cancels=[first])
        second = door.start(start_of(prompt))[0]
        door.await_listed(second)
    assert door.output(second) == answer(model, prompt)
    if end == "killed":
        assert door.output(first) == answer(model, prompt)
    else:
        assert door.await_ended(first).reason == states_pb2.FINISH_REASON_CANCELLED
    assert run(door, model, prompt) == 48
    wide.check_all_free()


def test_hits_are_kept_for_the_prompt_that_waits_for_the_rest_of_its_blocks(model: Path, six: EngineWorld) -> None:
    head, door = random_ids(48, 32100), six.door()
    prompt, holder = [*head, *random_ids(33, 32101)], [*random_ids(1, 32102), HELD]
    assert run(door, model, head, 1) == 0
    hits = found_blocks(six, head)
    assert len(hits) == 3
    tables = []
    with six.held(token=HELD) as hold:
        first = door.start(start_of(holder, max_tokens=4))[0]
        door.await_accepted(first)
        # It needs three blocks more than it finds, and two are free.
        second = door.start(start_of(prompt, max_tokens=15))[0]
        await_refused_for_now(six, door, second)
        assert found_blocks(six, head) == hits
        for position in range(len(prompt), len(prompt) + 13, 4):
            hold.move(position=position)
            door.await_output(second, position + 1 - len(prompt))
            tables.append(table_of(six, second))
    assert door.accepted[second].cached_tokens == 48
    assert (door.output(first), door.output(second)) == (answer(model, holder, 4), answer(model, prompt, 15))
    for table in tables:
        assert table[:3] == [hit.block for hit in hits]
        assert len(set(table)) == len(table)


def test_a_hit_that_is_evicted_while_its_prompt_waits_is_counted_no_more(model: Path, six: EngineWorld) -> None:
    head, holder, door = random_ids(16, 32200), [*random_ids(32, 32201), HELD], six.door()
    prompt = [*head, *random_ids(65, 32202)]
    run(door, model, head, 1)
    (hit,) = found_blocks(six, head)
    with six.held(token=HELD):
        first = door.start(start_of(holder, max_tokens=4))[0]
        door.await_accepted(first)
        second = door.start(start_of(prompt, max_tokens=15))[0]
        await_refused_for_now(six, door, second)
        evict(six, hit)
    assert (door.output(first), door.output(second)) == (answer(model, holder, 4), answer(model, prompt, 15))
    assert door.accepted[second].cached_tokens == 0


def test_a_chain_is_hit_up_to_its_first_block_that_is_gone(model: Path, six: EngineWorld) -> None:
    prompt, door = random_ids(49, 32300), six.door()
    for gone in (2, 1, 0):
        run(door, model, prompt)
        chain = found_blocks(six, prompt)
        assert len(chain) == 3
        evict(six, chain[gone])
        assert run(door, model, prompt) == gone * 16


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

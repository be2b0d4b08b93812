"""The prefix cache of an engine: what is computed once is not computed again, whoever asks, as long as it is kept anywhere."""

from pathlib import Path

import pytest

from executor.models.generate import generate
from pagehold.admin.v1 import evict_pb2
from pagehold.common.v1 import states_pb2
from tests.engines.door import start_of
from tests.engines.world import EngineWorld, engine_world, save_tiny, tiny
from tests.models.checkpoints import random_ids
from tests.scripted.processes import wait_until

BLOCK = 16
LONG, SHARED = 4096, 2000
"""Tokens of prompts, all of them in whole blocks."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"), max_position_embeddings=LONG + 100)


def computed(world: EngineWorld) -> int:
    """Tokens of prompts that were not cached, as the manager has counted them."""
    counters = world.statistics().counters
    return counters.prompt_tokens - counters.cached_prompt_tokens


def test_what_is_cached_outlives_its_engine_and_a_burst_is_computed_once(model: Path) -> None:
    ways = ("--blocks", "900", "--chunk", "512", "--step-tokens", "1024")
    with engine_world() as world:
        engine = world.start_engine(model, *ways)
        door = world.door()
        prompt = random_ids(LONG, 30000)
        wanted = generate(tiny(model), [prompt], 8)[0]
        for place, cached in enumerate((0, LONG - BLOCK, LONG - BLOCK)):
            if place == 2:
                assert engine.stop() == 0
                world.start_engine(model, *ways)
            key = door.start(start_of(prompt, max_tokens=8))[0]
            assert door.output(key) == wanted
            assert door.accepted[key].cached_tokens == cached

        before = computed(world)
        shared = random_ids(SHARED, 30001)
        prompts = [[*shared, *random_ids(5, 30100 + place)] for place in range(32)]
        keys = door.start(*[start_of(one, max_tokens=4) for one in prompts])
        outputs = [door.output(key) for key in keys]
        assert outputs[:4] == generate(tiny(model), prompts[:4], 4)
        # Each computes what is behind the last whole block that they share; one of them all that is before it.
        assert computed(world) - before == SHARED + 32 * 5
        assert sorted(door.accepted[key].cached_tokens for key in keys) == [0] + [SHARED] * 31


def test_what_leaves_the_device_comes_back_from_the_host_tier_as_a_hit(model: Path) -> None:
    with engine_world() as world:
        world.start_engine(model, "--blocks", "41", "--host-blocks", "200", "--chunk", "128", "--step-tokens", "256")
        door = world.door()
        prompts = [random_ids(200, 31000 + place) for place in range(8)]
        wanted = generate(tiny(model), prompts, 8)

        def run(place: int) -> int:
            key = door.start(start_of(prompts[place], max_tokens=8))[0]
            assert door.output(key) == wanted[place]
            wait_until(lambda: not world.statistics().pending_tickets, "nothing is being copied")
            return door.accepted[key].cached_tokens

        assert [run(place) for place in range(8)] == [0] * 8
        assert world.statistics().counters.evicted_blocks > 0
        # The pool holds three of them.
        assert [run(place) for place in range(8)] == [192] * 8
        world.admin.Flush(evict_pb2.FlushRequest(), timeout=60)
        assert states_pb2.BLOCK_STATE_CACHED not in {
            count.state for tier in world.statistics().tiers for count in tier.states
        }
        world.check_all_free()

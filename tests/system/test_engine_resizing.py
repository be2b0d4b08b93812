"""A pool that changes its size under an engine that computes with it."""

from pathlib import Path

from executor.models.generate import generate
from pagehold.admin.v1 import pool_pb2
from tests.engines.door import start_of
from tests.engines.world import engine_world, save_tiny, tiny
from tests.models.checkpoints import random_ids
from tests.scripted.processes import wait_until

FEW, MANY = 41, 121


def test_a_pool_shrinks_and_grows_under_a_running_engine(tmp_path: Path) -> None:
    model = save_tiny(tmp_path / "tiny")
    prompts = [random_ids(20 + place, 9000 + place) for place in range(20)]
    with engine_world() as world:
        world.start_engine(model, "--blocks", str(MANY), "--chunk", "32", faulty=True, PAGEHOLD_ENGINE_MAX_BLOCKS="200")
        door = world.door()

        def resize(blocks: int) -> None:
            world.admin.Resize(pool_pb2.ResizeRequest(device_blocks=blocks), timeout=60)

        def beyond() -> int:
            return world.statistics().tiers[0].beyond_size

        with world.held(position=20 + 30) as hold:
            # They take the low blocks, and are gone when the pool shrinks.
            first = door.start(*[start_of(random_ids(40, 9100 + place), max_tokens=8) for place in range(20)])
            for key in first:
                door.await_accepted(key)
            early = door.start(*[start_of(prompt, max_tokens=80) for prompt in prompts[:5]])
            for key in first:
                door.await_ended(key)
            for key in early:
                door.await_output(key, 2, hold=hold)
            resize(FEW)
        wait_until(lambda: not beyond(), "nothing is left beyond the new size")
        assert world.statistics().counters.copies > 0
        late = door.start(*[start_of(prompt, max_tokens=8) for prompt in prompts[5:10]])
        outputs = [door.output(key) for key in early]
        assert outputs == generate(tiny(model), prompts[:5], 80)
        assert [door.output(key) for key in late] == generate(tiny(model), prompts[5:10], 8)
        resize(200)
        last = door.start(*[start_of(prompt, max_tokens=30) for prompt in prompts])
        assert [door.output(key) for key in last] == generate(tiny(model), prompts, 30)
        world.check_all_free()

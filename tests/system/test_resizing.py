"""A pool grows and shrinks under executors that work in it."""

from collections.abc import Callable

from pagehold.admin.v1 import pool_pb2, stats_pb2
from tests.scripted import workload
from tests.scripted.hand import HandDriven, spec
from tests.scripted.processes import ScriptedExecutor, await_all_done, paced, wait_until
from tests.scripted.world import GEOMETRY, World, running

SMALL, MIDDLE, LARGE = 120, 200, 500


def device_tier(world: World) -> stats_pb2.TierStats:
    """Figures of the device's blocks."""
    return world.statistics().tiers[0]


def resize(world: World, blocks: int) -> None:
    """Change the size."""
    world.admin.Resize(pool_pb2.ResizeRequest(device_blocks=blocks), timeout=60)


def run_on(executors: list[ScriptedExecutor], times: int) -> None:
    """Let executors go on from one standstill to the next, so often: in turns, which they exchange for want of blocks too."""
    for _ in range(times):
        for executor in executors:
            executor.go_on()
        for executor in executors:
            executor.await_held()


def run_until(executors: list[ScriptedExecutor], condition: Callable[[], bool], what: str) -> None:
    """Let executors work from one standstill to the next, none ahead of the others, until something holds."""

    def holds() -> bool:
        found = condition()
        if not found:
            run_on(executors, 1)
        return found

    wait_until(holds, what)


def test_executors_use_what_a_pool_grows_by_and_move_out_of_what_is_taken_away() -> None:
    # Beams cannot leave for the host tier: more of them than fit the smaller pool would stand in each other's way for good.
    requests = [one for one in workload.mixed(80, 340) if one.kind != "beams"]
    third = len(requests) // 3
    parts = {"a": requests[:third], "b": requests[third : 2 * third], "late": requests[2 * third :]}
    geometry = {"device_blocks": MIDDLE, "max_device_blocks": LARGE}
    with running() as world:
        for name in ("a", "b"):
            world.start_executor(
                name,
                parts[name],
                geometry=geometry,
                mean_seconds=0.003,
                settings={"max_running": 12},
                holds=paced("after-submit", 5, 200),
            )
        for executor in world.executors:
            executor.await_held()
        run_on(world.executors, 1)
        for _ in range(2):
            resize(world, LARGE)
            wait_until(lambda: device_tier(world).blocks == LARGE, "it has grown")
            run_on(world.executors, 3)
            resize(world, SMALL)
            run_until(world.executors, lambda: device_tier(world).beyond_size == 0, "everything has moved")
            run_on(world.executors, 1)
        resize(world, LARGE)
        world.start_executor("late", parts["late"], geometry=geometry)
        for executor, done in zip(world.executors, await_all_done(world.executors), strict=True):
            assert done["copies"] > 0
            world.check_delivered(executor.name, parts[executor.name])
        world.check_memory()


def test_a_group_of_beams_moves_out_of_what_is_taken_away() -> None:
    size, half = 120, 60
    beams = workload.plain(82, 1, prompt=9, output=60, kind="beams", width=3)
    pool = spec(geometry={"device_blocks": size})
    with running() as world, HandDriven(world.runtime_dir, "filler", pool) as filler:
        # With all that will be left of the pool taken, the beams get what is going to go.
        taken = filler.admit((half - 1) * GEOMETRY["tokens_per_block"]).handle
        executor = world.start_executor(
            "a", beams, geometry={"device_blocks": size}, holds=paced("after-launch", 25, 2)
        )
        executor.await_held()
        filler.finish(taken)
        resize(world, half)
        assert device_tier(world).beyond_size > 0
        executor.go_on()
        executor.await_held()
        assert device_tier(world).beyond_size == 0, "everything has moved, and they have gone on meanwhile"
        executor.await_done()
        world.check_delivered("a", beams)
        world.check_memory()


def test_memory_that_went_and_came_again_is_the_same_for_everybody() -> None:
    pool = spec(geometry={"device_blocks": MIDDLE, "max_device_blocks": LARGE})
    with running() as world, HandDriven(world.runtime_dir, "a", pool) as early:
        resize(world, LARGE)
        early.registration.mapping.block(LARGE - 1)[:] = 1
        resize(world, SMALL)
        assert not early.registration.mapping.block(LARGE - 1).any(), "it has gone"
        resize(world, LARGE)
        with HandDriven(world.runtime_dir, "b", pool) as late:
            early.registration.mapping.block(LARGE - 1)[:] = 2
            assert (late.registration.mapping.block(LARGE - 1) == 2).all()


def test_a_new_size_outlives_the_manager() -> None:
    requests = workload.mixed(81, 60)
    with running() as world:
        geometry = {"device_blocks": SMALL, "max_device_blocks": LARGE}
        executor = world.start_executor(
            "a", requests, geometry=geometry, mean_seconds=0.004, holds=paced("after-launch", 4, 1)
        )
        executor.await_held()
        resize(world, LARGE)
        executor.go_on()
        manager = world.kill_manager()
        world.await_manager(other_than=manager)
        assert device_tier(world).blocks == LARGE
        executor.await_done()
        world.check_delivered("a", requests)
        world.check_memory()

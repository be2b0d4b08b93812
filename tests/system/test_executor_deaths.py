"""Executors die, freeze and answer late, beside others on the same pool."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from blockmgr.core.states import FinishReason
from blockmgr.processes import Process
from executor.manager import Revoked
from pagehold.admin.v1 import executor_pb2
from pagehold.common.v1 import states_pb2
from tests.scripted import workload
from tests.scripted.executor import DEVICE_GONE, REVOKED
from tests.scripted.hand import HandDriven, ints, spec
from tests.scripted.processes import ScriptedExecutor, paced, wait_until
from tests.scripted.world import World, running

DEAD, FENCING = states_pb2.EXECUTOR_STATE_DEAD, states_pb2.EXECUTOR_STATE_FENCING

SHORT: dict[str, Any] = {"lease_seconds": 5, "probe_seconds": 3}
"""Silence of which an executor is killed: no longer than a test has to wait, and no hold-up of a healthy one."""

MOMENTS = (
    "after-launch:5", "before-report:4", "after-submit:3", "after-reply:6", "between-copy-and-done:2",
    "before-deliver:7", "after-finish:3", "after-adopt:1", "after-register:1",
)  # fmt: skip


@pytest.fixture(scope="module")
def served() -> Iterator[World]:
    """A world for tests that leave its manager alone: each has a pool of its own, with executors of names of their own."""
    with running() as world:
        yield world


def registration(world: World, epoch: int) -> executor_pb2.Executor | None:
    """What operators see of a registration, if it is still in the table."""
    return next((one for one in world.registrations() if one.epoch == epoch), None)


def await_state(world: World, executor: ScriptedExecutor, state: int) -> executor_pb2.Executor:
    """Wait until a registration is in a state, and return what operators see of it then."""
    epoch = executor.await_event("registered")["epoch"]

    def reached() -> executor_pb2.Executor | None:
        found = registration(world, epoch)
        return found if found is not None and found.state == state else None

    found: executor_pb2.Executor = wait_until(reached, f"{executor} is {state}")
    return found


def test_killed_at_any_moment_its_successor_goes_on_and_every_token_comes_once(served: World) -> None:
    mine, others = workload.mixed(30, 90), workload.mixed(31, 40)
    pool = {"name": "moments"}
    neighbour = served.start_executor("neighbour", others, pool=pool, mean_seconds=0.003)
    adopted = 0
    for moment in MOMENTS:
        executor = served.start_executor("mortal", mine, pool=pool, holds=[moment], linger_seconds=0.2)
        executor.await_point(moment.partition(":")[0])
        executor.kill()
        adopted += sum(told["sequences"] for told in executor.events("adopted"))
    last = served.start_executor("mortal", mine, pool=pool)
    last.await_done()
    neighbour.await_done()
    assert adopted > 0, "a successor has taken something over"
    served.check_delivered("mortal", mine)
    served.check_delivered("neighbour", others)
    served.check_memory("moments")


def test_a_frozen_executor_is_killed_with_its_device_before_anything_of_it_moves() -> None:
    mine, others = workload.mixed(32, 40), workload.mixed(33, 40)
    with running(**SHORT) as world:
        neighbour = world.start_executor("b", others, mean_seconds=0.004, lease_seconds=60)
        frozen = world.start_executor("a", mine, holds=["after-submit:8"], linger_seconds=0.5)
        frozen.await_point("after-submit")
        with Process.open(frozen.device, "device") as device:
            frozen.signal(signal.SIGSTOP)
            await_state(world, frozen, DEAD)
            assert device.is_dead
        assert frozen.await_exit() == -signal.SIGKILL
        world.start_executor("a", mine, lease_seconds=60).await_done()
        neighbour.await_done()
        world.check_delivered("a", mine)
        world.check_delivered("b", others)
        world.check_memory()


def test_an_executor_that_answers_a_probe_late_but_in_time_lives() -> None:
    mine = workload.mixed(34, 40)
    with running(lease_seconds=1, probe_seconds=60) as world:
        executor = world.start_executor(
            "a", mine, mean_seconds=0.003, lease_seconds=0.5, holds=paced("after-launch", 8, 1)
        )
        epoch = executor.await_event("registered")["epoch"]
        executor.await_held()
        executor.signal(signal.SIGSTOP)
        wait_until(lambda: is_overdue(world, epoch), "its lease runs out")
        executor.signal(signal.SIGCONT)
        executor.await_done()
        world.check_delivered("a", mine)
        world.check_memory()


def is_overdue(world: World, epoch: int) -> bool:
    """Whether a lease has run out some time ago."""
    found = registration(world, epoch)
    return found is not None and found.lease_seconds_left < -1.0


def test_while_a_kill_is_withheld_its_messages_are_refused_and_nothing_of_it_moves() -> None:
    mine, others = workload.mixed(35, 40), workload.mixed(36, 15)
    # No block that is given up comes back before it is dead: the neighbour's work has to fit beside its own all the same.
    geometry = {"device_blocks": 2048}
    with running(test_withhold_kill=True, **SHORT) as world:
        neighbour = world.start_executor("b", others, geometry=geometry, lease_seconds=60)
        zombie = world.start_executor("a", mine, geometry=geometry, holds=["after-launch:30"], linger_seconds=1.0)
        zombie.await_point("after-launch")
        zombie.signal(signal.SIGSTOP)
        fenced = await_state(world, zombie, FENCING)
        assert fenced.sequences > 0
        neighbour.await_done()
        now = await_state(world, zombie, FENCING)
        assert (now.sequences, now.blocks) == (fenced.sequences, fenced.blocks)
        zombie.signal(signal.SIGCONT)
        zombie.go_on()
        assert zombie.await_exit() == REVOKED
        world.start_executor("a", mine, geometry=geometry, lease_seconds=60).await_done()
        world.check_delivered("a", mine)
        world.check_delivered("b", others)
        world.check_memory()


def test_blocks_come_back_only_when_the_device_has_stopped_too() -> None:
    mine = workload.mixed(37, 40)
    with running(test_withhold_kill=True) as world:
        executor = world.start_executor("a", mine, holds=["after-launch:30"])
        executor.await_point("after-launch")
        with Process.open(executor.device, "device") as device:
            # Stopped, it cannot end, whether it has the last step still to execute or not.
            device.signal(signal.SIGSTOP)
            executor.kill()
            before = await_state(world, executor, FENCING)
            with HandDriven(world.runtime_dir, "b") as neighbour:
                while neighbour.admit(8).handle:
                    pass
                now = await_state(world, executor, FENCING)
                assert (now.sequences, now.blocks) == (before.sequences, before.blocks)
            assert not device.is_dead
            device.signal(signal.SIGCONT)
            await_state(world, executor, DEAD)
            assert device.is_dead
        world.start_executor("a", mine).await_done()
        world.check_delivered("a", mine)
        world.check_memory()


def test_an_engine_whose_device_has_died_is_over(served: World) -> None:
    mine = workload.mixed(38, 40)
    pool = {"name": "device"}
    executor = served.start_executor("engine", mine, pool=pool, mean_seconds=0.004, holds=paced("after-launch", 3, 1))
    executor.await_held()
    with Process.open(executor.device, "device") as device:
        device.kill()
    executor.go_on()
    assert executor.await_exit() in (DEVICE_GONE, -signal.SIGKILL)
    served.start_executor("engine", mine, pool=pool).await_done()
    served.check_delivered("engine", mine)
    served.check_memory("device")


def test_what_kills_its_executor_alone_ends_internal_and_the_others_go_on(served: World) -> None:
    others = workload.plain(39, 12, prompt=10, output=20)
    (killer,) = workload.plain(40, 1, prompt=9, output=5, kills=True)
    pool = {"name": "killer"}
    for _ in range(3):
        executor = served.start_executor("victim", [*others, killer], pool=pool, linger_seconds=0.0)
        assert executor.await_exit() == -signal.SIGKILL
    served.start_executor("victim", [*others, killer], pool=pool).await_done()
    assert served.ended("victim") == {killer.uuid: FinishReason.INTERNAL}
    served.check_delivered("victim", others)
    served.check_memory("killer")


def test_a_stale_epoch_and_a_stale_handle_change_nothing(served: World) -> None:
    pool = spec(name="stale")
    with HandDriven(served.runtime_dir, "a", pool) as old:
        handle = old.admit(10).handle
        old.compute(handle, 10)
        old.kill()
        with HandDriven(served.runtime_dir, "a", pool) as heir:
            (adopted,) = heir.registration.adopt()
            before = served.statistics("stale")
            with pytest.raises(Revoked):
                old.append(handle, 10, 7)
            reply = heir.append(handle, 10, 7)
            assert reply.stale == [handle]
            after = served.statistics("stale")
            assert (after.sequences, after.tiers) == (before.sequences, before.tiers)
            assert not heir.append(adopted.handle, 10, 7).stale
            served.check_memory("stale")


def test_what_is_reported_twice_or_too_late_is_ignored(served: World) -> None:
    with HandDriven(served.runtime_dir, "a", spec(name="twice")) as executor:
        handle = executor.admit(10).handle
        executor.compute(handle, 10)
        executor.append(handle, 10, 7)
        assert not executor.append(handle, 10, 7).stale, "equal tokens that are there already"
        assert not executor.say(tickets_done=ints(12345)).tickets
        reservations = executor.reserve(handle, 20), executor.reserve(handle, 20)
        assert [len(reply.tables) for reply in reservations] == [1, 0]
        served.check_memory("twice")

"""The manager dies, again and again, under an executor that goes on."""

import os
import signal

from blockmgr.processes import Process
from tests.scripted import workload
from tests.scripted.processes import ScriptedExecutor, open_descriptors, paced, resident_kilobytes, wait_until
from tests.scripted.world import World, running

KILLS = 20


def kill_under_load(world: World, executor: ScriptedExecutor, kills: int) -> list[int]:
    """Kill the manager as it hears an executor, which then needs the next one to go on. Returns the ids of all managers."""
    managers = [world.manager_pid()]
    for _ in range(kills):
        executor.await_held()
        world.kill_manager()
        executor.go_on()
        managers.append(world.await_manager(other_than=managers[-1]))
    return managers


def await_descriptors(pid: int, most: int) -> None:
    """Wait until a process has so many descriptors open at most."""
    wait_until(lambda: open_descriptors(pid) <= most, f"process {pid} has {most} descriptors or fewer")


def executor_ends(executor: ScriptedExecutor, seconds: float) -> bool:
    """Whether an executor ends within so many seconds."""
    with Process.open(executor.pid, "engine") as process:
        return process.wait(seconds)


def test_twenty_kills_lose_no_token_and_no_byte_and_leave_nothing_behind() -> None:
    requests = workload.mixed(20, 260)
    with running() as world:
        executor = world.start_executor("a", requests, mean_seconds=0.004, holds=paced("after-submit", 3, KILLS + 1))
        (settled,) = kill_under_load(world, executor, 1)[1:]
        executor.await_held()
        before = (open_descriptors(world.keeper.pid), open_descriptors(executor.pid))
        memory = resident_kilobytes(world.keeper.pid)
        served = open_descriptors(settled)
        managers = kill_under_load(world, executor, KILLS - 1)
        assert len(set(managers)) == KILLS
        executor.await_held()
        # Some come and go: a pidfd and a barrier at the keeper, connections at the others.
        await_descriptors(world.keeper.pid, before[0] + 2)
        await_descriptors(executor.pid, before[1] + 2)
        await_descriptors(managers[-1], served + 2)
        assert resident_kilobytes(world.keeper.pid) < memory + 1024
        done = executor.await_done()
        # One that is still starting is asked again and again; how often depends on how long it takes.
        assert done["reconnections"] >= KILLS
        world.check_delivered("a", requests)
        world.check_memory()


def test_an_idle_executor_does_not_hold_up_the_others_after_a_restart() -> None:
    requests = workload.mixed(22, 60)
    with running() as world:
        idle = world.start_executor("idle", stay=True)
        idle.await_event("done")
        executor = world.start_executor("a", requests, mean_seconds=0.003, holds=paced("after-submit", 3, 1))
        kill_under_load(world, executor, 1)
        executor.await_done()
        idle.go_on()
        assert idle.await_exit() == 0
        world.check_delivered("a", requests)
        world.check_memory()


def test_a_manager_that_stood_still_for_longer_than_any_lease_kills_nobody_healthy() -> None:
    requests = workload.mixed(21, 60)
    with running(lease_seconds=1) as world:
        executor = world.start_executor(
            "a", requests, mean_seconds=0.004, lease_seconds=1, holds=paced("after-submit", 3, 1)
        )
        executor.await_held()
        manager = world.manager_pid()
        os.kill(manager, signal.SIGSTOP)
        executor.go_on()
        assert not executor_ends(executor, 10.0), "it waits"
        os.kill(manager, signal.SIGCONT)
        executor.await_done()
        assert world.manager_pid() == manager
        world.check_delivered("a", requests)
        world.check_memory()

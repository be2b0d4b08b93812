"""Every operation of a pool in any order, crashes included, against a plain model of what its callers may rely on."""

import os
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant

from blockmgr.core.states import BlockState, ExecutorState
from tests.unit.core.machine_deaths import MortalMachine

EXAMPLES = int(os.environ.get("PAGEHOLD_EXAMPLES", "0"))
"""How many runs are to be tried, others each time. Where nothing is said it is always the same ones."""

STEPS = 50


class PoolMachine(MortalMachine):
    """What holds at all times, and at the end."""

    @invariant()
    def everything_holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self._end_everything()

    def _end_everything(self) -> None:
        """With nobody alive and nothing cached, every block but the null block is free."""
        world = self.world
        for dead in list(world.killed):
            dead.device.execute(999)
            world.bury(dead)
        executors = world.pool.state.executors
        for row in executors.rows():
            if executors.state.get(row) == ExecutorState.DEAD:
                world.pool.end_orphans(executors.epoch.get(row))
        world.orphans.clear()
        for executor in world.executors:
            executor.receive()
            executor.outbox = {"finish": list(executor.sequences)}
            world.send(executor, report=True, late_appends=False, tickets=99, failed=False)
            executor.receive()
            executor.device.execute(999)
        for executor in world.executors:
            world.send(executor, report=True, late_appends=False, tickets=99, failed=False)
            executor.receive()
            assert not executor.copies
        world.check()
        world.now += 100.0
        world.pool.tick()
        for host in (False, True):
            world.pool.evict(world.pool.coldest(host=host))
        states = world.pool.state.blocks.state.flat
        assert states[0] == BlockState.NULL
        assert set(np.unique(states[1:]).tolist()) <= {BlockState.FREE, BlockState.ABSENT}
        assert (
            np.count_nonzero(states == BlockState.ABSENT)
            == world.geometry.max_device_blocks - world.pool.state.capacity
        )
        world.check()


TestPool: Any = PoolMachine.TestCase
TestPool.settings = settings(
    max_examples=EXAMPLES or 200,
    stateful_step_count=STEPS,
    deadline=None,
    derandomize=not EXAMPLES,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)

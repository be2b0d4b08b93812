"""Rules of the pool's state machine: executors and managers die, and others go on."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from blockmgr.core.errors import BlockManagerError
from blockmgr.core.states import ExecutorState, SequenceState
from tests.unit.core.machine_trouble import TroubledMachine
from tests.unit.core.machine_work import ALIVE, NAMES, PICK


class MortalMachine(TroubledMachine):
    """Deaths, successions, restarts."""

    # -- deaths ------------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES))
    def register(self, name: str) -> None:
        executors = self.world.pool.state.executors
        dead = [row for row in executors.rows() if executors.state.get(row) == ExecutorState.DEAD]
        # Of the dead rows of one name all but the last make room.
        needed = len(executors.rows()) - len(dead) + len({executors.name_of(row) for row in dead})
        if name in [e.name for e in self.world.executors] or needed == executors.state.spec.rows:
            with pytest.raises(BlockManagerError):
                self.world.pool.register(name, self.world.uuid(), [1])
        else:
            self.world.register(name)

    @ALIVE
    @rule(pick=PICK)
    def kill(self, pick: int) -> None:
        self.world.kill(self.executor(pick))

    @rule(pick=PICK, count=st.integers(0, 5))
    def bury(self, pick: int, count: int) -> None:
        if self.world.killed:
            dead = self.world.killed[pick % len(self.world.killed)]
            dead.device.execute(count)
            self.world.bury(dead)

    @ALIVE
    @rule(pick=PICK, everyone=st.booleans())
    def adopt(self, pick: int, everyone: bool) -> None:
        if not self.world.executors:
            return
        executor = self.executor(pick)
        names = list(NAMES) if everyone else None
        executors = self.world.pool.state.executors
        row = executors.find(executor.epoch)
        others = [r for n in (names or [executor.name]) for r in executors.named(n) if r != row]
        if any(executors.state.get(r) != ExecutorState.DEAD for r in others):
            with pytest.raises(BlockManagerError):
                self.world.pool.adopt(executor.epoch, names)
        else:
            self.world.adopt(executor, names)

    @ALIVE
    @rule(pick=PICK, count=st.integers(0, 5), heir=PICK)
    def die_and_be_succeeded(self, pick: int, count: int, heir: int) -> None:
        """The whole way from an executor to its heir, under its own name or another that lives."""
        dead = self.executor(pick)
        self._reserve_all(dead, 1, 0)
        self.world.send(dead, report=True, late_appends=False, tickets=0, failed=False)
        if count % 2:
            # With copies that are ordered, done perhaps, and not reported.
            dead.receive()
            dead.launch(dead.runnable(), 1, 1)
        self.world.kill(dead)
        dead.device.execute(count)
        self.world.bury(dead)
        executors = self.world.pool.state.executors
        if len(executors.rows()) < executors.state.spec.rows:
            self.world.register(dead.name)
        self.adopt(heir, everyone=bool(heir % 2))

    @rule(pick=PICK)
    def end_orphans(self, pick: int) -> None:
        pool = self.world.pool
        dead = [row for row in pool.state.executors.rows() if pool.state.executors.state.get(row) == ExecutorState.DEAD]
        if dead:
            pool.end_orphans(pool.state.executors.epoch.get(dead[pick % len(dead)]))
            self._forget_orphans()

    @rule(pick=PICK)
    def cancel_an_orphan(self, pick: int) -> None:
        if self.world.orphans:
            handle = list(self.world.orphans)[pick % len(self.world.orphans)]
            assert self.world.pool.cancel(handle)
            self._forget_orphans()

    def _forget_orphans(self) -> None:
        seqs = self.world.pool.state.sequences
        live = {seqs.handle(slot) for slot in seqs.live() if seqs.state.get(slot) == SequenceState.ORPHANED}
        self.world.orphans = {handle: s for handle, s in self.world.orphans.items() if handle in live}

    @rule()
    def restart_the_manager(self) -> None:
        self.world.restart()

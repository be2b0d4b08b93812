"""Rules of the pool's state machine: nonsense, and what doors and operators want."""

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from blockmgr.core.errors import BlockManagerError, MessageOutOfOrder, StaleEpoch
from blockmgr.core.messages import Admission, Appends, Ints, Message, Progress, Reservations
from blockmgr.core.states import BlockState
from tests.unit.core.believer import Sent, ints
from tests.unit.core.machine_work import ALIVE, PICK, WorkMachine


class TroubledMachine(WorkMachine):
    """What else happens to a pool while executors work."""

    # -- wrong messages ----------------------------------------------------------------------------------------------

    @ALIVE
    @rule(pick=PICK, kind=st.integers(0, 11))
    def send_nonsense(self, pick: int, kind: int) -> None:
        """What cannot be right is refused, and nothing has changed."""
        executor = self.executor(pick)
        executor.receive()
        handles = ints([s.handle for s in executor.sequences.values()][:1])
        device, number = executor.device, executor.number + 1
        message = Message(executor.epoch, number, launched_step=device.launched, completed_step=device.completed)
        if not self._spoil(message, kind, handles):
            return
        columns = self.world.pool.columns
        before = [column.flat.copy() for column in columns.ordered]
        with pytest.raises(BlockManagerError):
            self.world.pool.exchange(message)
        for column, old in zip(columns.ordered, before, strict=True):
            assert np.array_equal(column.flat, old), column.spec.name

    def _spoil(self, message: Message, kind: int, handles: Ints) -> bool:
        limit = self.world.geometry.max_length
        one = ints([1])
        if kind == 0:
            message.admissions = [Admission(b"short", np.zeros(1, dtype=np.int32))]
        elif kind == 1:
            message.number += 1
        elif kind == 2:
            message.epoch += 1000
        elif kind == 3:
            message.completed_step = (message.launched_step or 0) + 1
        elif not len(handles):
            return False
        elif kind == 4:
            message.reservations = Reservations(handles, ints([limit + 1]), ints([0]))
        elif kind == 5:
            message.progress = Progress(handles, ints([10_000]), ints([0]))
        elif kind == 6:
            message.progress = Progress(handles, ints([0]), ints([1]))
        elif kind == 7:
            message.appends = Appends(handles, ints([limit]), one, one)
        elif kind == 8:
            message.appends = Appends(handles, ints([0]), one, ints([77]))
        elif kind == 9:
            message.appends = Appends(handles, ints([0]), ints([2]), one)
        elif kind == 10:
            message.reservations = Reservations(np.repeat(handles, 2), ints([limit, limit]), ints([0, 0]))
        else:
            message.appends = Appends(handles, ints([limit - 1]), one, ints([1 << 31]))
        return True

    @rule(pick=PICK, which=PICK)
    def speak_under_a_stale_epoch(self, pick: int, which: int) -> None:
        if self.world.killed:
            dead = self.world.killed[pick % len(self.world.killed)]
            with pytest.raises(StaleEpoch):
                self.world.pool.exchange(Message(dead.epoch, dead.number + 1))

    @ALIVE
    @rule(pick=PICK, offset=st.integers(1, 3))
    def name_stale_handles(self, pick: int, offset: int) -> None:
        """A handle that is not the executor's changes nothing but its own answer."""
        executor = self.executor(pick)
        executor.receive()
        known = [h for e in self.world.executors if e is not executor for h in e.sequences]
        stale = ints([*(h + (offset << 20) for h in executor.sequences), *known, -1, 1 << 40])
        ones = np.ones(len(stale), dtype=np.int64)
        message = executor.build(report=False, late_appends=True, tickets=0, failed=False, requests=False).message
        message.progress = Progress(stale, ones, ones)
        message.appends = Appends(stale, ones, ones, ones)
        message.reservations = Reservations(stale, ones, ones)
        message.swap_out = message.swap_in = message.look_again = stale
        message.tickets_done = ints([1 << 33, 12345])
        columns = self.world.pool.columns
        before = {c.spec.name: c.flat.copy() for c in columns.ordered if c.spec.name.startswith("slot.")}
        reply = self.world.deliver(executor, Sent(message, {}, {}, 0))
        assert set(reply.stale) == set(stale.tolist())
        reply.stale.clear()
        for name, old in before.items():
            assert self.world.pool.state.draining or np.array_equal(columns[name].flat, old), name

    @ALIVE
    @rule(pick=PICK)
    def skip_a_number(self, pick: int) -> None:
        executor = self.executor(pick)
        for number in (executor.number + 2, executor.number - 1, -1):
            with pytest.raises(MessageOutOfOrder):
                self.world.pool.exchange(Message(executor.epoch, number))

    # -- doors and operators -----------------------------------------------------------------------------------------

    @ALIVE
    @rule(pick=PICK, which=PICK, what=st.integers(0, 3))
    def a_door_wishes(self, pick: int, which: int, what: int) -> None:
        idle = self.idle(self.executor(pick))
        if not idle:
            return
        s, pool = idle[which % len(idle)], self.world.pool
        if pool.state.sequences.by_uuid.get(s.uuid) is None:
            return
        handle, number = pool.attach(s.uuid)
        if what == 0:
            assert pool.cancel(handle, number)
        elif what == 1:
            assert not pool.cancel(handle, number - 1)
        elif what == 2:
            assert pool.set_final_length(handle, s.recorded) >= s.prompt

    @rule(which=st.lists(st.integers(1, 40), min_size=1, max_size=3), seconds=st.integers(1, 5))
    def pin(self, which: list[int], seconds: int) -> None:
        pool = self.world.pool
        full = np.isin(pool.state.blocks.state.flat, (BlockState.SEALED, BlockState.CACHED))
        candidates = np.flatnonzero(full).tolist()
        if candidates:
            blocks = [candidates[w % len(candidates)] for w in which]
            try:
                self.world.pins.append(pool.pin(blocks, float(seconds)))
            except BlockManagerError:
                assert len(pool.pins.rows()) + len(blocks) > 8 or max(blocks) >= pool.state.capacity

    @rule(expire=st.booleans())
    def unpin(self, expire: bool) -> None:
        if expire:
            self.world.now += 10.0
            self.world.pool.tick()
            assert not self.world.pool.pins.list()
            self.world.pins.clear()
        elif self.world.pins:
            self.world.pool.unpin(self.world.pins.pop())

    @rule(count=st.integers(0, 12), host=st.booleans())
    def evict(self, count: int, host: bool) -> None:
        pool = self.world.pool
        blocks = pool.coldest(count, host=host)
        assert pool.evict(blocks, dry_run=True) == blocks
        assert pool.evict(blocks) == blocks

    @rule(tenths=st.integers(1, 14))
    def resize(self, tenths: int) -> None:
        pool, geometry = self.world.pool, self.world.geometry
        blocks = max(2, min(geometry.device_blocks * tenths // 10, geometry.max_device_blocks))
        pinned = any(blocks <= b < self.world.geometry.host_base for b in pool.pins.blocks())
        if pinned:
            with pytest.raises(BlockManagerError):
                pool.resize(blocks)
        else:
            pool.resize(blocks)

    @ALIVE
    @rule(pick=PICK, tenths=st.integers(2, 8), token=st.integers(0, 1))
    def shrink_and_move(self, pick: int, tenths: int, token: int) -> None:
        """A shrink, and turns in which it drains."""
        self.resize(tenths)
        for _ in range(2):
            self.turn(pick, 1, token, 12)

    @ALIVE
    @rule(pick=PICK)
    def leave_all_to_the_host(self, pick: int) -> None:
        """What is cached is demoted and then evicted from the device: later prompts hit the host."""
        self.executor(pick).ask("demote", 12)
        for _ in range(2):
            self.world.send(self.executor(pick), report=True, late_appends=False, tickets=99, failed=False)
            self.executor(pick).receive()
            self.executor(pick).device.execute(99)
        self.evict(99, host=False)

    @rule(on=st.booleans())
    def drain(self, on: bool) -> None:
        self.world.pool.drain(on)

    @rule(content=st.integers(0, 2))
    def relabel(self, content: int) -> None:
        pool, wanted = self.world.pool, bytes([content]) * 16
        if any(True for _ in pool.state.sequences.live()) and wanted != pool.state.content:
            with pytest.raises(BlockManagerError):
                pool.relabel(wanted)
        else:
            changed = pool.relabel(wanted)
            if changed:
                self.world.pins.clear()
                assert not np.any(pool.columns["block.indexed"].flat)

"""Every operation of a pool in any order, crashes included, against a plain model of what its callers may rely on."""

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from blockmgr.core.errors import BlockManagerError, MessageOutOfOrder, StaleEpoch
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import Admission, Appends, Message, Progress, Reservations
from blockmgr.core.states import BlockState, ExecutorState, SequenceFlags, SequenceState
from tests.unit.core.engine import Sent, SimulatedExecutor, ints
from tests.unit.core.model import Sequence
from tests.unit.core.world import World

EXAMPLES = int(os.environ.get("PAGEHOLD_EXAMPLES", "200"))
STEPS = 50
SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    derandomize=False,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
PICK = st.integers(0, 7)
BITS = st.integers(1, 255)
NAMES = ("a", "b", "c")


class PoolMachine(RuleBasedStateMachine):
    """Rules pick by number among what is there, so that every example shrinks."""

    @initialize(
        size=st.sampled_from((1, 2, 3, 4, 8)),
        blocks=st.integers(5, 40),
        spare=st.integers(0, 8),
        host=st.sampled_from((0, 3, 12, 12)),
        slots=st.integers(4, 12),
    )
    def start(self, size: int, blocks: int, spare: int, host: int, slots: int) -> None:
        self.world = World(
            PoolGeometry(
                tokens_per_block=size,
                block_bytes=1,
                device_blocks=blocks,
                max_device_blocks=blocks + spare,
                host_blocks=host,
                max_sequences=slots,
                max_length=min(64, size * (blocks - 1)),
                max_executors=4,
                max_pins=8,
                request_bytes=16,
                reply_bytes=65536,
                archive_bytes=4096,
                archive_rows=8,
            )
        )
        self.world.register("a")

    # -- picking -----------------------------------------------------------------------------------------------------

    def executor(self, pick: int) -> SimulatedExecutor:
        return self.world.executors[pick % len(self.world.executors)]

    def idle(self, executor: SimulatedExecutor) -> list[Sequence]:
        """Sequences of which nothing is asked, with the last reply known."""
        executor.receive()
        return [s for s in executor.sequences.values() if not s.busy]

    alive = precondition(lambda self: bool(self.world.executors))

    # -- executors at work -------------------------------------------------------------------------------------------

    @alive
    @rule(
        pick=PICK,
        tokens=st.lists(st.integers(0, 1), min_size=1, max_size=24),
        flags=st.sampled_from((0, 0, 0, 1, 2, 3)),
        salt=st.sampled_from((b"", b"", b"", b"x")),
        chunk=st.integers(0, 6),
        zeros=st.integers(0, 16),
    )
    def ask_admission(self, pick: int, tokens: list[int], flags: int, salt: bytes, chunk: int, zeros: int) -> None:
        prompt = ([0] * zeros + tokens)[: self.world.geometry.max_length]
        reserve = min(chunk * self.world.geometry.tokens_per_block, len(prompt))
        executor = self.executor(pick)
        request = Admission(
            self.world.uuid(), np.array(prompt, dtype=np.int32), reserve, salt=salt, flags=SequenceFlags(flags)
        )
        executor.ask("admit", request)

    @alive
    @rule(pick=PICK, tokens=st.integers(1, 20), count=st.integers(2, 3))
    def ask_equal_admissions(self, pick: int, tokens: int, count: int) -> None:
        prompt = np.zeros(min(tokens, self.world.geometry.max_length), dtype=np.int32)
        for _ in range(count):
            self.executor(pick).ask("admit", Admission(self.world.uuid(), prompt))

    @alive
    @rule(pick=PICK, which=BITS, chunk=st.integers(1, 9), token=st.integers(0, 1), times=st.integers(1, 3))
    def launch(self, pick: int, which: int, chunk: int, token: int, times: int) -> None:
        executor = self.executor(pick)
        for _ in range(times):
            chosen = [s for place, s in enumerate(executor.runnable()) if which >> (place % 8) & 1]
            if chosen:
                executor.launch(chosen, chunk, token)

    @rule(pick=PICK, count=st.integers(1, 12))
    def execute(self, pick: int, count: int) -> None:
        everyone = [*self.world.executors, *self.world.killed]
        if everyone:
            everyone[pick % len(everyone)].device.execute(count)

    def _reserve_all(self, executor: SimulatedExecutor, more: int, look_ahead: int) -> None:
        executor.receive()
        for s in executor.sequences.values():
            executor.ask("reserve", (s.handle, more, look_ahead))

    @alive
    @rule(
        pick=PICK,
        report=st.booleans(),
        late=st.booleans(),
        tickets=st.integers(-2, 9),
        again=st.booleans(),
        die=st.sampled_from(("", "", "", "before", "after")),
        more=st.integers(0, 9),
        look_ahead=st.integers(0, 9),
    )
    def send(
        self, pick: int, report: bool, late: bool, tickets: int, again: bool, die: str, more: int, look_ahead: int
    ) -> None:
        executor = self.executor(pick)
        if more:
            self._reserve_all(executor, more, look_ahead)
        self.world.send(executor, again=again, die=die, report=report, late_appends=late, tickets=tickets, failed=False)

    @alive
    @rule(pick=PICK, chunk=st.integers(1, 9), token=st.integers(0, 1), longest=st.integers(0, 12))
    def turn(self, pick: int, chunk: int, token: int, longest: int) -> None:
        """A whole healthy turn, so that examples get somewhere."""
        executor = self.executor(pick)
        idle = self.idle(executor)
        for s in idle:
            # Prompts that wait for another's blocks look again; what is long enough ends; what is away comes back.
            if not s.table and not s.away:
                self._ask(executor, "look_again", s)
            elif s.recorded > s.prompt + longest:
                self._ask(executor, "finish", s)
            elif s.away and token:
                self._ask(executor, "swap_in", s)
        runnable = executor.runnable()
        if runnable:
            executor.launch(runnable, chunk, token)
        executor.device.execute(99)
        self._reserve_all(executor, 1 + chunk // 4, 0)
        self.world.send(executor, report=True, late_appends=False, tickets=99, failed=False)
        executor.receive()

    @alive
    @rule(pick=PICK)
    def receive(self, pick: int) -> None:
        self.executor(pick).receive()

    @alive
    @rule(pick=PICK, late=st.booleans())
    def fail_a_step(self, pick: int, late: bool) -> None:
        executor = self.executor(pick)
        executor.receive()
        if executor.fail():
            self.world.send(executor, report=True, late_appends=late, tickets=99, failed=True)

    @alive
    @rule(pick=PICK, which=PICK, children=st.integers(1, 3))
    def ask_fork(self, pick: int, which: int, children: int) -> None:
        executor = self.executor(pick)
        idle = [s for s in self.idle(executor) if not s.away]
        if idle:
            parent = idle[which % len(idle)]
            parent.busy = True
            executor.ask("fork", (parent.handle, [self.world.uuid() for _ in range(children)]))

    @alive
    @rule(
        pick=PICK,
        which=PICK,
        parents=st.lists(PICK, min_size=4, max_size=4),
        ids=st.lists(st.integers(0, 1), min_size=4, max_size=4),
    )
    def ask_reorder(self, pick: int, which: int, parents: list[int], ids: list[int]) -> None:
        executor = self.executor(pick)
        idle = [s for s in self.idle(executor) if not s.away and not s.copies]
        families = [
            group
            for family in dict.fromkeys(s.family for s in idle)
            if len(group := [s for s in idle if s.family == family]) > 1
        ]
        if families:
            beams = families[which % len(families)][:4]
            for s in beams:
                s.busy = True
            width = len(beams)
            executor.ask("reorder", ([s.handle for s in beams], [p % width for p in parents[:width]], ids[:width]))

    @alive
    @rule(
        pick=PICK,
        which=PICK,
        what=st.sampled_from(("swap_out", "swap_out", "swap_in", "swap_in", "look_again", "finish")),
    )
    def ask_for_one(self, pick: int, which: int, what: str) -> None:
        executor = self.executor(pick)
        idle = [s for s in self.idle(executor) if what == "finish" or s.away == (what == "swap_in")]
        if idle:
            self._ask(executor, what, idle[which % len(idle)])

    def _ask(self, executor: SimulatedExecutor, what: str, s: Sequence) -> None:
        s.busy = True
        executor.ask(what, s.handle)

    @alive
    @rule(pick=PICK, count=st.integers(1, 6))
    def ask_demotion(self, pick: int, count: int) -> None:
        self.executor(pick).ask("demote", count)

    # -- wrong messages ----------------------------------------------------------------------------------------------

    @alive
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

    def _spoil(self, message: Message, kind: int, handles: np.ndarray) -> bool:
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

    @alive
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

    @alive
    @rule(pick=PICK)
    def skip_a_number(self, pick: int) -> None:
        executor = self.executor(pick)
        for number in (executor.number + 2, executor.number - 1, -1):
            with pytest.raises(MessageOutOfOrder):
                self.world.pool.exchange(Message(executor.epoch, number))

    # -- doors and operators -----------------------------------------------------------------------------------------

    @alive
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

    # -- deaths ------------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES))
    def register(self, name: str) -> None:
        executors = self.world.pool.state.executors
        if name in [e.name for e in self.world.executors] or len(executors.rows()) == executors.state.spec.rows:
            with pytest.raises(BlockManagerError):
                self.world.pool.register(name, self.world.uuid(), [1])
        else:
            self.world.register(name)

    @alive
    @rule(pick=PICK)
    def kill(self, pick: int) -> None:
        self.world.kill(self.executor(pick))

    @rule(pick=PICK, count=st.integers(0, 5))
    def bury(self, pick: int, count: int) -> None:
        if self.world.killed:
            dead = self.world.killed[pick % len(self.world.killed)]
            dead.device.execute(count)
            self.world.bury(dead)

    @alive
    @rule(pick=PICK, everyone=st.booleans())
    def adopt(self, pick: int, everyone: bool) -> None:
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

    # -- always ------------------------------------------------------------------------------------------------------

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
TestPool.settings = SETTINGS

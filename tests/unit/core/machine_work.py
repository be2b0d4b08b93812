"""Rules of the pool's state machine: executors at work."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import Admission
from blockmgr.core.states import SequenceFlags
from tests.unit.core.engine import SimulatedExecutor
from tests.unit.core.memory_ledger import MemoryLedger, MortalLedger
from tests.unit.core.model import Sequence
from tests.unit.core.world import World

PICK = st.integers(0, 7)
BITS = st.integers(1, 255)
NAMES = ("a", "b", "c")
ALIVE = precondition(lambda self: bool(self.world.executors))


class WorkMachine(RuleBasedStateMachine):
    """Rules pick by number among what is there, so that every example shrinks."""

    @initialize(
        size=st.sampled_from((1, 2, 3, 4, 8)),
        blocks=st.integers(5, 40),
        spare=st.integers(0, 8),
        host=st.sampled_from((0, 3, 12, 12)),
        slots=st.integers(4, 12),
    )
    def start(self, size: int, blocks: int, spare: int, host: int, slots: int) -> None:
        geometry = PoolGeometry(
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
        self.world = World(geometry, self.make_ledger(geometry))
        self.requests: list[Admission] = []
        self.world.register("a")

    def make_ledger(self, geometry: PoolGeometry) -> MortalLedger:
        return MemoryLedger(geometry)

    # -- picking -----------------------------------------------------------------------------------------------------

    def executor(self, pick: int) -> SimulatedExecutor:
        return self.world.executors[pick % len(self.world.executors)]

    def idle(self, executor: SimulatedExecutor) -> list[Sequence]:
        """Sequences of which nothing is asked, with the last reply known."""
        executor.receive()
        return [s for s in executor.sequences.values() if not s.busy]

    # -- executors at work -------------------------------------------------------------------------------------------

    @ALIVE
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
        self.requests.append(request)

    @ALIVE
    @rule(pick=PICK, which=PICK)
    def ask_admission_again(self, pick: int, which: int) -> None:
        """By its executor or another; while it lives, or after."""
        if self.requests:
            self.executor(pick).ask("admit", self.requests[which % len(self.requests)])

    @ALIVE
    @rule(pick=PICK, tokens=st.integers(1, 20), count=st.integers(2, 3))
    def ask_equal_admissions(self, pick: int, tokens: int, count: int) -> None:
        prompt = np.zeros(min(tokens, self.world.geometry.max_length), dtype=np.int32)
        for _ in range(count):
            self.executor(pick).ask("admit", Admission(self.world.uuid(), prompt))

    @ALIVE
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

    @ALIVE
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

    @ALIVE
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

    @ALIVE
    @rule(pick=PICK)
    def receive(self, pick: int) -> None:
        self.executor(pick).receive()

    @ALIVE
    @rule(pick=PICK, late=st.booleans())
    def fail_a_step(self, pick: int, late: bool) -> None:
        executor = self.executor(pick)
        executor.receive()
        if executor.fail():
            self.world.send(executor, report=True, late_appends=late, tickets=99, failed=True)

    @ALIVE
    @rule(pick=PICK, which=PICK, children=st.integers(1, 3))
    def ask_fork(self, pick: int, which: int, children: int) -> None:
        executor = self.executor(pick)
        idle = [s for s in self.idle(executor) if not s.away]
        if idle:
            parent = idle[which % len(idle)]
            parent.busy = True
            executor.ask("fork", (parent.handle, [self.world.uuid() for _ in range(children)], None))

    @ALIVE
    @rule(pick=PICK, which=PICK, output=st.lists(st.integers(0, 1), max_size=3))
    def ask_to_keep(self, pick: int, which: int, output: list[int]) -> None:
        executor = self.executor(pick)
        idle = self.idle(executor)
        if idle:
            parent = idle[which % len(idle)]
            parent.busy = True
            room = self.world.geometry.max_length - parent.prompt
            executor.ask("fork", (parent.handle, [self.world.uuid()], output[:room]))

    @ALIVE
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

    @ALIVE
    @rule(
        pick=PICK,
        which=PICK,
        what=st.sampled_from(("swap_out", "swap_out", "release", "swap_in", "swap_in", "look_again", "finish")),
    )
    def ask_for_one(self, pick: int, which: int, what: str) -> None:
        executor = self.executor(pick)
        idle = [s for s in self.idle(executor) if what == "finish" or s.away == (what == "swap_in")]
        if what == "release":
            idle = [s for s in idle if not s.copies]
        if idle:
            self._ask(executor, what, idle[which % len(idle)])

    def _ask(self, executor: SimulatedExecutor, what: str, s: Sequence) -> None:
        s.busy = True
        executor.ask(what, s.handle)

    @ALIVE
    @rule(pick=PICK, count=st.integers(1, 6))
    def ask_demotion(self, pick: int, count: int) -> None:
        self.executor(pick).ask("demote", count)

"""A pool between its ledger and simulated executors, and what must hold of them at every moment."""

import pickle
from collections.abc import Iterable

import numpy as np

from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import Admission, Reply
from blockmgr.core.pool import Pool
from blockmgr.core.prefix import chain_of, root_of
from blockmgr.core.states import BlockState, ExecutorState, Residency, SequenceState
from blockmgr.core.verify import verify
from tests.unit.core.believer import Sent
from tests.unit.core.engine import SimulatedExecutor
from tests.unit.core.memory_ledger import ManagerDied, MortalLedger
from tests.unit.core.model import Memory, Sequence

WIDE = ("slot.tokens", "slot.logprobs", "slot.table", "slot.request")
SETTLING = {"block.state", "block.fence", "block.used", "pool.clock"}
"""Columns in which a restart shows: blocks without a reference wait anew."""


class World:
    """One pool, its executors, living and dying, and the memory that they share."""

    def __init__(self, geometry: PoolGeometry, ledger: MortalLedger) -> None:
        self.geometry = geometry
        self.now = 1000.0
        self.ledger = ledger
        self.pool = Pool(geometry, self.ledger, now=self.time)
        self.memory = Memory(geometry.tokens_per_block)
        self.executors: list[SimulatedExecutor] = []
        self.killed: list[SimulatedExecutor] = []
        """Epoch revoked, device perhaps still running."""
        self.orphans: dict[int, Sequence] = {}
        self.uuids = 0
        self.pins: list[int] = []
        self.generation = self.pool.columns["block.generation"].flat.copy()
        self.unheard: set[int] = set()
        """Epochs that have not been heard since the manager started."""
        self.grown: set[int] = set()
        self.names: dict[bytes, tuple[bytes, bytes]] = {}

    def time(self) -> float:
        self.now += 0.001
        return self.now

    def uuid(self) -> bytes:
        self.uuids += 1
        return self.uuids.to_bytes(16, "little")

    def root(self, request: Admission) -> bytes:
        return root_of(self.pool.state.content, request.adapter, request.salt)

    # -- the manager -------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """A manager starts on what the last one committed: everything is as it was, but unused blocks wait."""
        before = [column.copy() for column in self.ledger.columns]
        self.pool = Pool(self.geometry, self.ledger, fresh=False, now=self.time)
        self.unheard = set()
        self.notice()
        for column, old in zip(self.pool.columns.ordered, before, strict=True):
            assert column.spec.name in SETTLING or np.array_equal(column.flat, old), column.spec.name
        executors = self.pool.state.executors
        self.unheard = {
            executors.epoch.get(row)
            for row in executors.rows()
            if executors.state.get(row) in (ExecutorState.LIVE, ExecutorState.FENCING)
        }
        state = self.pool.state.blocks.state.flat
        self.grown = set(np.flatnonzero(state == BlockState.ABSENT).tolist())

    def send(self, executor: SimulatedExecutor, *, again: bool = False, die: str = "", **what: object) -> None:
        """Send an executor's next message; the reply waits for it."""
        executor.receive()
        self.deliver(executor, executor.build(**what), again=again, die=die)  # type: ignore[arg-type]

    def deliver(self, executor: SimulatedExecutor, sent: Sent, *, again: bool = False, die: str = "") -> Reply:
        """Hand a message to the manager, which may die on it once."""
        self.name_hashes(executor.sequences.values())
        self.ledger.die = die
        try:
            data = self.pool.exchange(sent.message)
        except ManagerDied:
            self.ledger.revive()
            self.restart()
            data = self.pool.exchange(sent.message)
        self.ledger.die = ""
        self.unheard.discard(executor.epoch)
        if again:
            before = [column.flat.copy() for column in self.pool.columns.ordered]
            assert self.pool.exchange(sent.message) == data
            assert all(np.array_equal(c.flat, b) for c, b in zip(self.pool.columns.ordered, before, strict=True))
        reply: Reply = pickle.loads(data)
        executor.reply = (sent, reply)
        self.notice()
        self._check_tickets(reply)
        if sent.message.failed:
            executor.receive()
        return reply

    def _check_tickets(self, reply: Reply) -> None:
        destinations = [(t.kind in (2, 5), t.destination) for t in reply.tickets]
        sources = {(t.kind == 3, t.source) for t in reply.tickets}
        assert len(set(destinations)) == len(destinations)
        assert not set(destinations) & sources
        short = set(reply.short)
        asked = [update.handle for update in reply.tables]
        for refused in reply.admitted:
            assert not refused.refusal or refused.handle == 0
        assert len(short) == len(reply.short), (short, asked)

    def notice(self) -> None:
        """Blocks that were handed out anew: nothing launched may touch them, and what they held is worth nothing."""
        generation = self.pool.columns["block.generation"].flat
        handed = set(np.flatnonzero(generation != self.generation).tolist())
        self.generation = generation.copy()
        for executor in (*self.executors, *self.killed):
            wrong = handed & executor.device.touches()
            assert not wrong, f"blocks {wrong} are handed out while {executor.name} may still touch them"
        assert not (self.unheard and handed - self.grown), f"{handed} handed out before {self.unheard} were heard"
        for block in handed:
            self.memory.poison(block)

    # -- what must hold ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        self.notice()
        assert verify(self.pool.snapshot()) == []
        self._check_ledger()
        self._check_index()
        for executor in self.executors:
            for s in executor.sequences.values():
                self._check_sequence(executor, s)
        for s in self.orphans.values():
            self._check_computed(self.pool.state.sequences.find(s.handle), s)

    def _check_ledger(self) -> None:
        """Whatever was committed is what the manager works with."""
        for column, stored in zip(self.pool.columns.ordered, self.ledger.columns, strict=True):
            if column.spec.name not in WIDE:
                assert np.array_equal(column.flat, stored), column.spec.name

    def _check_sequence(self, executor: SimulatedExecutor, s: Sequence) -> None:
        seqs = self.pool.state.sequences
        if executor.reply is not None and self._changes_hands(executor.reply[0], s.handle):
            return
        slot = seqs.find(s.handle)
        assert seqs.uuid.key(slot) == s.uuid
        self._check_computed(slot, s)
        if executor.reply is None:
            assert seqs.count.get(slot) == s.recorded
            assert seqs.tokens.row(slot, s.recorded).tolist() == s.tokens[: s.recorded]
            assert seqs.launched.get(slot) == s.reported
            assert (seqs.residency.get(slot) != Residency.DEVICE) <= s.away
            entries = seqs.entries(slot)
            base = self.geometry.host_base
            if not s.away:
                seen = [0 if block >= base else block for block in entries.tolist()]
                assert seen == s.table, s.copies

    def _changes_hands(self, sent: Sent, handle: int) -> bool:
        return handle in sent.message.finished.handles or any(handle in move.handles for move in sent.message.reorders)

    def _check_computed(self, slot: int, s: Sequence) -> None:
        """What the manager holds for computed reads back as this sequence's own, where its table says."""
        seqs, size = self.pool.state.sequences, self.geometry.tokens_per_block
        entries = seqs.entries(slot)
        for position in range(min(seqs.computed.get(slot), len(s.tokens))):
            have = self.memory.cells(int(entries[position // size]))[position % size]
            assert have == s.cell(position), f"slot {slot} reads {have!r} at {position}, not {s.cell(position)!r}"

    def _check_index(self) -> None:
        """A complete block that can be hit holds what its hash says."""
        blocks, size = self.pool.state.blocks, self.geometry.tokens_per_block
        for block in np.flatnonzero(blocks.indexed.flat).tolist():
            if blocks.state.get(block) not in (BlockState.SEALED, BlockState.CACHED):
                continue
            root, tokens = self.names[blocks.hash.key(block)]
            want = [root + tokens[: at + 1] for at in range(len(tokens) - size, len(tokens))]
            assert self.memory.cells(block) == want, f"block {block} holds {self.memory.cells(block)}, not {want}"

    def name_hashes(self, sequences: Iterable[Sequence]) -> None:
        """Remember which tokens a hash stands for."""
        size = self.geometry.tokens_per_block
        for s in sequences:
            for index, key in enumerate(chain_of(s.root, np.array(s.tokens, dtype=np.int32), size)):
                self.names.setdefault(key, (s.root, bytes(s.tokens[: (index + 1) * size])))

    # -- deaths ------------------------------------------------------------------------------------------------------

    def register(self, name: str) -> None:
        epoch = self.pool.register(name, self.uuid(), [1])
        self.executors.append(SimulatedExecutor(self.geometry, self.memory, name, epoch, self.root))

    def kill(self, executor: SimulatedExecutor) -> None:
        self.pool.fence(executor.epoch, "test")
        self.executors.remove(executor)
        self.killed.append(executor)

    def bury(self, executor: SimulatedExecutor) -> None:
        """The device has stopped: what it had not executed never happens."""
        self.killed.remove(executor)
        self.unheard.discard(executor.epoch)
        executor.device.queue.clear()
        self.pool.bury(executor.epoch)
        for slot in self.pool.state.sequences.live():
            self._orphan(slot, executor.sequences)

    def _orphan(self, slot: int, known: dict[int, Sequence]) -> None:
        """An orphan as its heir will find it: only what was recorded and computed."""
        seqs = self.pool.state.sequences
        if seqs.state.get(slot) != SequenceState.ORPHANED or seqs.handle(slot) in self.orphans:
            return
        tokens = seqs.tokens.row(slot, seqs.count.get(slot)).tolist()
        before = known.get(seqs.handle(slot))
        assert before is None or before.tokens[: before.recorded] == tokens[: before.recorded], (
            "recorded tokens are lost"
        )
        root, uuid = seqs.root.key(slot), seqs.uuid.key(slot)
        resume = seqs.resume(slot)
        assert seqs.launched.get(slot) == seqs.computed.get(slot) == resume, (
            "an orphan is cut to where its heir goes on"
        )
        family = seqs.family.get(slot).to_bytes(8, "little")
        orphan = Sequence(seqs.handle(slot), uuid, root, family, seqs.prompt.get(slot), tokens, len(tokens), resume, [])
        orphan.reported = orphan.base = resume
        self.orphans[orphan.handle] = orphan

    def adopt(self, executor: SimulatedExecutor, names: list[str] | None) -> None:
        seqs = self.pool.state.sequences
        mine = set(executor.sequences)
        for adopted in self.pool.adopt(executor.epoch, names):
            if not adopted.previous:
                assert adopted.handle in mine or executor.reply is not None
                continue
            s = self.orphans.pop(adopted.previous)
            assert (adopted.resume, adopted.tokens) == (s.base, s.recorded)
            s.handle, s.barred = adopted.handle, True
            slot = seqs.find(s.handle)
            s.away = seqs.residency.get(slot) != Residency.DEVICE
            s.table = seqs.entries(slot).tolist()
            s.released = seqs.residency.get(slot) == Residency.RELEASED
            executor.sequences[s.handle] = s
        self.check()

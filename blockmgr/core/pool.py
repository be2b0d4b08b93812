"""A pool as its manager sees it: executors' messages and operators' wishes, each one transaction."""

import pickle
import time
from collections.abc import Callable, Sequence

from blockmgr.core import deaths
from blockmgr.core.columns import Ledger
from blockmgr.core.errors import MessageOutOfOrder, NotFound, Precondition
from blockmgr.core.events import Event, EventKind
from blockmgr.core.exchange import handle_message
from blockmgr.core.geometry import PoolGeometry, slot_of
from blockmgr.core.messages import Adopted, Message, Reply
from blockmgr.core.operations import Operations
from blockmgr.core.release import finish
from blockmgr.core.states import ExecutorState, FinishReason, SequenceState
from blockmgr.core.verify import Snapshot, take_snapshot

ORPHANS_AT_ONCE = 64
"""Sequences that end in one transaction, whose size is limited: each leaves its tokens and request behind."""


class Pool(Operations):
    """The allocator. One thread or loop owns it and calls it; nothing in it waits or locks.

    With a ``ledger`` every call is durable when it returns, and a call that raises has changed nothing. Without one the
    pool lives and dies with the process (simulation, tests), and after an unexpected error it must not be used again.
    """

    def __init__(
        self,
        geometry: PoolGeometry,
        ledger: Ledger | None = None,
        *,
        fresh: bool = True,
        first_epoch: int = 1,
        now: Callable[[], float] = time.time,
        encode: Callable[[Reply], bytes] = pickle.dumps,
        on_events: Callable[[Sequence[Event]], None] | None = None,
    ) -> None:
        """``fresh``: the ledger is empty; otherwise its state is taken over and everything derived is rebuilt.

        ``first_epoch`` is the epoch of a fresh pool's first executor; a manager of several pools gives each a range.
        ``encode`` makes the bytes of a reply that are sent, and kept for the case that the message comes again.
        """
        super().__init__(geometry, ledger, fresh, first_epoch, now, on_events)
        self._encode = encode

    @property
    def revision(self) -> int:
        """Revision of the last event."""
        return self.state.events.revision

    def snapshot(self) -> Snapshot:
        """Copies of what the checks read, so that ``verify`` can run elsewhere."""
        return take_snapshot(self.state, self.pins.blocks())

    # -- executors ---------------------------------------------------------------------------------------------------

    def exchange(self, message: Message) -> bytes:
        """Handle a message, or answer a repeated one with the reply it had. Returns the reply's bytes.

        Raises ``StaleEpoch``, ``MessageOutOfOrder``, ``InvalidMessage``; then nothing has changed.
        """
        executors = self.state.executors
        row = executors.find(message.epoch)
        last = executors.number.get(row)
        if message.number == last and last:
            self.state.counts.repeated_turns += 1
            return executors.stored_reply(row)
        if message.number != last + 1:
            raise MessageOutOfOrder(message.number, last)
        with self.transaction() as state:
            reply = handle_message(state, row, message)
            reply.revision = self.number_events()
            data = self._encode(reply)
            executors.store_reply(row, message.number, data)
        self.state.counts.turns += 1
        return data

    def register(self, name: str, instance: bytes, pids: list[int], lease: float = 0.0) -> int:
        """Register an executor; returns its epoch. See ``Executors.register`` for errors.

        Where every row is taken, one that keeps crashing has left many behind: those are made one.
        """
        with self.transaction() as state:
            if len(state.executors.rows()) == state.executors.state.spec.rows:
                deaths.gather(state)
            rows = set(state.executors.rows())
            row = state.executors.register(name, instance, pids, state.clock.now(), lease)
            if row not in rows:
                # Whoever had the row before wants nothing any more.
                state.wants.pop(row, None)
                state.events.add(
                    Event(EventKind.REGISTERED, executor=name, detail=f"epoch={state.executors.epoch.get(row)}")
                )
        return self.state.executors.epoch.get(row)

    def ready(self, epoch: int) -> None:
        """An executor has loaded and is about to work."""
        with self.transaction() as state:
            row = state.executors.find(epoch)
            if state.executors.state.get(row) == ExecutorState.STARTING:
                state.executors.state.put(row, ExecutorState.LIVE)
                state.events.add(Event(EventKind.EXECUTOR_LIVE, executor=state.executors.name_of(row)))

    def fence(self, epoch: int, why: str) -> None:
        """Revoke an executor's epoch. Its sequences move only once ``bury`` says that it is dead."""
        with self.transaction() as state:
            deaths.fence(state, state.executors.by_epoch(epoch), why)

    def bury(self, epoch: int) -> None:
        """Every process of an executor is proven dead."""
        with self.transaction() as state:
            deaths.bury(state, state.executors.by_epoch(epoch))

    def adopt(self, epoch: int, names: list[str] | None = None) -> list[Adopted]:
        """Take over every sequence of the dead executors of the given names (default: one's own), or of none of them."""
        with self.transaction() as state:
            heir = state.executors.find(epoch)
            wanted = names or [state.executors.name_of(heir)]
            rows = [row for name in wanted for row in state.executors.named(name) if row != heir]
            undead = [row for row in rows if state.executors.state.get(row) != ExecutorState.DEAD]
            if undead:
                name, old = state.executors.name_of(undead[0]), state.executors.epoch.get(undead[0])
                raise Precondition(
                    f"executor {name!r} of epoch {old} is not proven dead: its sequences cannot be adopted yet"
                )
            adopted = deaths.adopt(state, heir, rows)
            for sequence in adopted:
                slot = slot_of(sequence.handle)
                if state.sequences.cancel.get(slot) or state.sequences.final.get(slot) >= 0:
                    state.wishes.setdefault(heir, set()).add(sequence.handle)
        return adopted

    def end_orphans(self, epoch: int) -> int:
        """Nobody adopts a dead executor's sequences: end them UNAVAILABLE. Returns how many."""
        row, ended, more = self.state.executors.by_epoch(epoch), 0, True
        if self.state.executors.state.get(row) != ExecutorState.DEAD:
            raise Precondition(f"the executor of epoch {epoch} is not proven dead: its sequences cannot be ended yet")
        while more:
            with self.transaction() as state:
                count = deaths.end_orphans(state, row, ORPHANS_AT_ONCE)
            ended, more = ended + count, count == ORPHANS_AT_ONCE
        return ended

    # -- front doors -------------------------------------------------------------------------------------------------

    def attach(self, uuid: bytes) -> tuple[int, int]:
        """A caller's new connection to a live sequence. Returns its handle and the number of this attachment."""
        with self.transaction() as state:
            slot = state.sequences.by_uuid.get(uuid)
            if slot is None:
                raise NotFound(f"no live sequence has the uuid {uuid.hex()}")
            number = state.sequences.attachment.get(slot) + 1
            state.sequences.attachment.put(slot, number)
        return self.state.sequences.handle(slot), number

    def cancel(self, handle: int, attachment: int | None = None) -> bool:
        """Ask a sequence's owner to end it. With an attachment number only the latest one may: a stale one changes nothing.

        An orphan is ended at once, since nobody works on it. Returns whether anything was done.
        """
        slot = self.state.sequences.find(handle)
        if attachment is not None and attachment != self.state.sequences.attachment.get(slot):
            return False
        with self.transaction() as state:
            if state.sequences.state.get(slot) == SequenceState.ORPHANED:
                row = state.sequences.owner.get(slot)
                finish(state, slot, FinishReason.CANCELLED)
                deaths.forget_if_empty(state, row)
            elif not state.sequences.cancel.get(slot):
                state.sequences.cancel.put(slot, 1)
                self._wish(slot)
                state.note(EventKind.CANCEL_ASKED, slot)
        return True

    def set_final_length(self, handle: int, length: int) -> int:
        """A front door found where the answer ends. The smaller length wins, and stored tokens are never shortened."""
        slot = self.state.sequences.find(handle)
        with self.transaction() as state:
            seqs = state.sequences
            length = max(length, seqs.prompt.get(slot))
            have = seqs.final.get(slot)
            if have < 0 or length < have:
                seqs.final.put(slot, length)
                self._wish(slot)
        return self.state.sequences.final.get(slot)

    def _wish(self, slot: int) -> None:
        seqs = self.state.sequences
        self.state.wishes.setdefault(seqs.owner.get(slot), set()).add(seqs.handle(slot))

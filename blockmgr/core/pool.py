"""A pool as its manager sees it: executors' messages and operators' wishes, each one transaction."""

import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from blockmgr.core import deaths, recovery, resizing
from blockmgr.core.columns import Columns, Ledger
from blockmgr.core.errors import BlockManagerError, IdentityMismatch, MessageOutOfOrder, NotFound, Precondition
from blockmgr.core.events import Event, EventKind
from blockmgr.core.exchange import handle_message
from blockmgr.core.geometry import PoolGeometry, slot_of
from blockmgr.core.messages import Adopted, Message, Reply
from blockmgr.core.pins import FOREVER, Pins
from blockmgr.core.release import finish
from blockmgr.core.state import PoolState
from blockmgr.core.states import ExecutorState, FinishReason, SequenceState
from blockmgr.core.verify import Snapshot, take_snapshot

ORPHANS_AT_ONCE = 64
"""Sequences that end in one transaction, whose size is limited: each leaves its tokens and request behind."""


class Pool:
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
        on_events: Callable[[list[Event]], None] | None = None,
    ) -> None:
        """``fresh``: the ledger is empty; otherwise its state is taken over and everything derived is rebuilt.

        ``first_epoch`` is the epoch of a fresh pool's first executor; a manager of several pools gives each a range.
        ``encode`` makes the bytes of a reply that are sent, and kept for the case that the message comes again.
        """
        self.geometry = geometry
        self.columns = Columns(geometry, ledger)
        self.state = PoolState(self.columns, now)
        self.pins = Pins(self.columns, self.state.blocks)
        self._encode = encode
        self._on_events = on_events
        if fresh:
            recovery.prepare(self.columns, first_epoch)
        else:
            self.columns.load()
        recovery.rebuild(self.state, self.pins)
        self.columns.commit()
        self._committed()

    # -- transactions ------------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[PoolState]:
        """Change the state whole or not at all: an exception undoes what was done, when there is a ledger to undo from."""
        unheard = set(self.state.blocks.fences.unheard)
        try:
            yield self.state
            self._number_events()
        except BaseException:
            self._undo(unheard)
            raise
        try:
            self.columns.commit()
        except BlockManagerError:
            # Refused whole, for its size. Any other failure here leaves a manager that only a restart can trust.
            self._undo(unheard)
            raise
        self._committed()

    def _undo(self, unheard: set[int]) -> None:
        self.state.events.drop()
        if self.columns.ledger is not None:
            self.columns.rollback()
            recovery.rebuild(self.state, self.pins, unheard)

    def _number_events(self) -> int:
        return self.state.events.number(self.state.clock.now())

    def _committed(self) -> None:
        events = self.state.events.publish()
        self.state.counts.happened(events)
        for slot in self.state.sequences.emptied_rows():
            for name in ("tokens", "logprobs", "table", "request"):
                self.columns.discard(self.columns[f"slot.{name}"], slot)
        if events and self._on_events is not None:
            self._on_events(events)

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
            reply.revision = self._number_events()
            data = self._encode(reply)
            executors.store_reply(row, message.number, data)
        self.state.counts.turns += 1
        return data

    def register(self, name: str, instance: bytes, pids: list[int]) -> int:
        """Register an executor; returns its epoch. See ``Executors.register`` for errors.

        Where every row is taken, one that keeps crashing has left many behind: those are made one.
        """
        with self.transaction() as state:
            if len(state.executors.rows()) == state.executors.state.spec.rows:
                deaths.gather(state)
            rows = set(state.executors.rows())
            row = state.executors.register(name, instance, pids, state.clock.now())
            if row not in rows:
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

    # -- operators ---------------------------------------------------------------------------------------------------

    def pin(self, blocks: list[int], seconds: float | None, label: str = "") -> int:
        """Keep sealed or cached blocks from being evicted, for a time or (None) until unpinned. Returns the pin's id."""
        with self.transaction() as state:
            expires = FOREVER if seconds is None else state.clock.now() + seconds
            id_ = self.pins.add(blocks, expires, label)
            state.events.add(Event(EventKind.PINNED, blocks=list(blocks), detail=f"pin={id_}"))
        return id_

    def unpin(self, id_: int) -> list[int]:
        """End a pin. Returns its blocks."""
        with self.transaction() as state:
            blocks = self.pins.remove(id_)
            state.events.add(Event(EventKind.UNPINNED, blocks=blocks, detail=f"pin={id_}"))
        return blocks

    def tick(self) -> None:
        """What time brings: pins end, finished requests are dropped. Called now and then."""
        now = self.state.clock.now()
        for id_ in self.pins.expired(now):
            self.unpin(id_)
        with self.transaction() as state:
            state.archive.expire(now)

    def evict(self, blocks: list[int], dry_run: bool = False) -> list[int]:
        """Free those of the blocks that are cached and not held or fenced. Returns them; a dry run frees nothing."""
        if dry_run:
            return [block for block in blocks if self.state.blocks.tier_of(block).may_evict(block)]
        with self.transaction() as state:
            return state.blocks.evict(blocks)

    def coldest(self, count: int | None = None, host: bool = False) -> list[int]:
        """The next blocks that would be evicted, coldest first; all of them by default."""
        tier = self.state.blocks.tier(host)
        return tier.coldest(tier.evictable if count is None else count)

    def resize(self, blocks: int) -> int:
        """Set the number of device blocks. Returns how many beyond it are in use and will be moved."""
        with self.transaction() as state:
            return resizing.resize(state, self.pins, blocks)

    def drain(self, on: bool, epoch: int | None = None) -> None:
        """Admit nothing new, to one executor or (default) to the pool at all; or admit again."""
        with self.transaction() as state:
            if epoch is None:
                state.columns["pool.drain"].put(0, int(on))
            else:
                state.executors.drain.put(state.executors.find(epoch), int(on))
            state.events.add(Event(EventKind.DRAINING, detail=f"on={on} epoch={epoch or 'all'}"))

    @property
    def description(self) -> bytes:
        """What was said of the content when its identity was last set."""
        return self.columns["pool.description"].row(0).tobytes().rstrip(b"\0")

    def relabel(self, content: bytes, description: bytes = b"") -> bool:
        """Take on another content identity: flush all that is cached. Refused while a sequence lives.

        ``description`` is kept beside it, for people. Returns whether anything changed.
        """
        have = self.state.content
        if have == content:
            return False
        if any(True for _ in self.state.sequences.live()):
            raise IdentityMismatch("content identity", have.hex(), content.hex())
        for pin in self.pins.list():
            self.unpin(pin.id)
        with self.transaction() as state:
            state.blocks.forget_all()
            self.columns["pool.content"].put(0, np.void(content))
            text = self.columns["pool.description"]
            text.write(
                0, 0, np.frombuffer(description[: text.spec.width].ljust(text.spec.width, b"\0"), dtype=np.uint8)
            )
            state.events.add(Event(EventKind.RELABELLED, detail=content.hex()))
        return True

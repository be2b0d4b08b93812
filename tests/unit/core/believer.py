"""The listening half of an executor of the plain model: it believes what replies say."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import Admission, Admitted, Child, Ints, Message, Reply, TableUpdate, Ticket
from blockmgr.core.states import Refusal, SequenceFlags, TicketKind
from tests.unit.core.model import Copy, Device, Memory, Sequence

TO_HOST = (TicketKind.SWAP_OUT, TicketKind.DEMOTE)


def ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


@dataclass
class Sent:
    """A message on its way, and what it said, to be believed once the reply is there."""

    message: Message
    progress: dict[int, tuple[int, int]]
    counts: dict[int, int]
    serial: int
    parents: dict[int, tuple[list[int], int, int, int]] = field(default_factory=dict)
    """Forked handle → its tokens, launched, reported computed and count as the message told them."""


class Believer:
    """The half of an executor that listens: what it holds to be true, and how replies change that."""

    def __init__(
        self, geometry: PoolGeometry, memory: Memory, name: str, epoch: int, root: Callable[[Admission], bytes]
    ) -> None:
        self.geometry, self.name, self.epoch, self.root = geometry, name, epoch, root
        self.size = geometry.tokens_per_block
        self.device = Device(memory)
        self.number = 0
        self.reported_step = 0
        self.sequences: dict[int, Sequence] = {}
        self.copies: list[Copy] = []
        """Ordered and not reported done, those of nobody included."""
        self.outbox: dict[str, list[Any]] = {}
        self.ended: set[int] = set()
        self.reply: tuple[Sent, Reply] | None = None
        self.ready = False

    def receive(self) -> None:
        """Believe the reply that is waiting."""
        if self.reply is None:
            return
        sent, reply = self.reply
        self.reply = None
        message = sent.message
        for handle, (launched, computed) in sent.progress.items():
            s = self.sequences[handle]
            s.reported = launched
            s.base = max(s.base, computed)
            if message.failed:
                s.reset(computed, len(s.tokens))
                s.barred = True
        for handle, count in sent.counts.items():
            self.sequences[handle].recorded = count
        for handle in message.finished.handles.tolist():
            self.ended.add(handle)
        self._believe_forks(sent, reply)
        self._believe_reorders(message)
        for handle in message.finished.handles.tolist():
            del self.sequences[handle]
        self._believe_swaps(message, reply)
        self._believe_admissions(message, reply)
        for update in reply.tables:
            self._believe_table(update)
        self._believe_looks(sent, reply)
        for handle in message.reservations.handles.tolist():
            if handle in self.sequences and handle not in reply.short:
                self.sequences[handle].barred = False
        for ticket in reply.tickets:
            self._order(ticket)
        for s in self.sequences.values():
            s.final = s.final or s.handle in reply.cancel or s.handle in dict(reply.final_lengths)
        assert not reply.stale, reply.stale

    def _believe_table(self, update: TableUpdate) -> None:
        s = self.sequences.get(update.handle)
        if s is None:
            return
        # What a failed step leaves of a table is told ahead of the release of all of it, where one message asks for both.
        assert update.first <= len(s.table) or not len(update.blocks), update
        s.table[update.first :] = update.blocks.tolist()
        s.copies = {index: copy for index, copy in s.copies.items() if index < len(s.table)}

    def _order(self, ticket: Ticket) -> None:
        base = self.geometry.host_base
        source = ticket.source + base * (ticket.kind == TicketKind.SWAP_IN)
        destination = ticket.destination + base * (ticket.kind in TO_HOST)
        s = self.sequences.get(ticket.handle)
        position = s.launched if s is not None else 0
        copy = Copy(ticket.id, ticket.kind, ticket.index, source, destination, position)
        self.copies.append(copy)
        self.device.launch(copy)
        if s is not None:
            assert ticket.index not in s.copies
            s.copies[ticket.index] = copy

    def _believe_forks(self, sent: Sent, reply: Reply) -> None:
        for fork, answer in zip(sent.message.forks, reply.forked, strict=True):
            parent = self.sequences[fork.parent]
            parent.busy, parent.barred = False, True
            tokens, launched, computed, count = sent.parents[fork.parent]
            if sent.message.failed:
                launched = computed = {look.handle: look.cached for look in reply.looked_again}[fork.parent]
            for child, handle in zip(fork.children, answer.handles, strict=answer.refusal == Refusal.NONE):
                if child.output is not None:
                    self._believe_kept(parent, child, handle)
                    continue
                launched, computed = min(launched, count), min(computed, count)
                born = Sequence(
                    handle, child.uuid, parent.root, parent.family, parent.prompt, list(tokens), count, launched, []
                )
                born.reported, born.base, born.barred = launched, computed, True
                born.marks = [(sent.serial, launched)]
                self.sequences[handle] = born

    def _believe_kept(self, parent: Sequence, child: Child, handle: int) -> None:
        """A child that is kept for its tokens alone."""
        assert child.output is not None
        tokens = [*parent.tokens[: parent.prompt], *child.output.tolist()]
        born = Sequence(
            handle, child.uuid, parent.root, parent.family, parent.prompt, tokens, len(tokens), 0, [], barred=True
        )
        born.away = born.released = True
        self.sequences[handle] = born

    def _believe_reorders(self, message: Message) -> None:
        for move in message.reorders:
            beams = [self.sequences[handle] for handle in move.handles.tolist()]
            old = [(list(s.tokens), list(s.marks), s.base) for s in beams]
            for s, parent, token in zip(beams, move.parents.tolist(), move.ids.tolist(), strict=True):
                tokens, marks, s.base = old[parent]
                s.tokens, s.marks = [*tokens, token], list(marks)
                s.recorded += 1
                s.busy, s.barred = False, True

    def _believe_swaps(self, message: Message, reply: Reply) -> None:
        refused = {swap.handle for swap in reply.swaps_refused}
        for handle in message.swap_out.tolist():
            if handle in self.sequences:
                self.sequences[handle].busy = False
                self.sequences[handle].away |= handle not in refused
        for handle in message.release.tolist():
            if handle in self.sequences:
                s = self.sequences[handle]
                s.busy = False
                if handle not in refused:
                    s.reset(0, len(s.tokens))
                    s.table, s.away, s.released = [], True, True
        for handle in message.swap_in.tolist():
            if handle in self.sequences:
                self.sequences[handle].busy = False
                if handle not in refused and self.sequences[handle].released:
                    self.sequences[handle].released = self.sequences[handle].away = False
                    continue
                going = any(t.handle == handle and t.kind == TicketKind.SWAP_IN for t in reply.tickets)
                self.sequences[handle].barred = True
                if handle not in refused and not going:
                    self.sequences[handle].away = False

    def _believe_admissions(self, message: Message, reply: Reply) -> None:
        for request, answer in zip(message.admissions, reply.admitted, strict=True):
            self._believe_admission(request, answer)

    def _believe_admission(self, request: Admission, answer: Admitted) -> None:
        if answer.refusal != Refusal.NONE or answer.handle in self.sequences or answer.handle in self.ended:
            return
        tokens, root = request.prompt.tolist(), self.root(request)
        assert answer.cached % self.size == 0
        assert answer.cached < len(tokens)
        assert not (answer.cached and request.flags & SequenceFlags.BYPASS)
        s = Sequence(
            answer.handle, request.uuid, root, request.uuid, len(tokens), tokens, len(tokens), answer.cached, []
        )
        s.reported = answer.cached
        s.marks = [(self.device.serial, answer.cached)]
        self.sequences[answer.handle] = s

    def _believe_looks(self, sent: Sent, reply: Reply) -> None:
        for look in reply.looked_again:
            s = self.sequences.get(look.handle)
            if s is None:
                continue
            if look.handle in sent.message.look_again:
                s.busy = False
            if s.released:
                # In the message that told of the failure: what was left is given up as well.
                continue
            if sent.message.failed and look.cached != s.launched:
                # What of its hits was complete is for the manager to say.
                s.reset(look.cached, len(s.tokens))
            elif look.cached > s.launched:
                s.launched = s.reported = look.cached
                s.marks.append((sent.serial, look.cached))

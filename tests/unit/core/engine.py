"""An executor of the plain model: it builds messages from what it did, and believes what replies say."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import (
    Admission,
    Admitted,
    Appends,
    Child,
    Finished,
    Fork,
    Message,
    Progress,
    Reorder,
    Reply,
    Reservations,
    TableUpdate,
    Ticket,
)
from blockmgr.core.states import FinishReason, Refusal, SequenceFlags, TicketKind
from tests.unit.core.model import Copy, Device, Memory, Row, Sequence, Step

TO_HOST = (TicketKind.SWAP_OUT, TicketKind.DEMOTE)


def ints(values: list[int]) -> np.ndarray:
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


class SimulatedExecutor:
    """One registration. Its device goes on after it was killed, until it is proven dead."""

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

    def ask(self, what: str, request: object) -> None:
        self.outbox.setdefault(what, []).append(request)

    # -- launching ---------------------------------------------------------------------------------------------------

    def runnable(self) -> list[Sequence]:
        return [
            s
            for s in self.sequences.values()
            if not (s.barred or s.busy or s.away) and s.launched < min(len(s.tokens), len(s.table) * self.size)
        ]

    def launch(self, sequences: list[Sequence], chunk: int, token: int) -> None:
        """Launch a step that feeds up to ``chunk`` tokens of each; at the end of what is known, one more is sampled."""
        rows = []
        self.device.launched += 1
        step = Step(self.device.launched, rows)
        self.device.launch(step)
        for s in sequences:
            end = min(s.launched + chunk, len(s.tokens), len(s.table) * self.size)
            blocks = [s.where(index) for index in range(-(-end // self.size))]
            rows.append(Row(s.launched, [s.cell(position) for position in range(end)], blocks))
            s.launched = end
            s.marks.append((step.serial, end))
            if end == len(s.tokens) < self.geometry.max_length:
                s.tokens.append(token)
                s.known.append((step.serial, len(s.tokens)))

    def fail(self) -> bool:
        """The next step in the stream fails: it and all launched behind it are void."""
        steps = [work for work in self.device.queue if isinstance(work, Step)]
        if not steps:
            return False
        while self.device.queue[0] is not steps[0]:
            self.device.execute(1)
        done = self.device.done
        for step in steps:
            step.void = True
        self.device.execute(1)
        for s in self.sequences.values():
            s.marks = [mark for mark in s.marks if mark[0] <= done]
            s.known = [mark for mark in s.known if mark[0] <= done]
            del s.tokens[s.sampled(done) :]
        return True

    # -- talking -----------------------------------------------------------------------------------------------------

    def build(self, *, report: bool, late_appends: bool, tickets: int, failed: bool, requests: bool = True) -> Sent:
        """The next message. ``tickets``: how many of the executed copies to report, last ones first if negative."""
        self.number += 1
        # Whoever gives up or shares what a step may touch has to tell of that step.
        report = report or failed or bool(self.outbox.keys() & {"finish", "swap_out", "fork", "reorder", "look_again"})
        done = [copy for copy in self.copies if copy.executed]
        done = done[:tickets] if tickets >= 0 else done[tickets:]
        for copy in done:
            self._landed(copy)
        sent = Sent(Message(self.epoch, self.number, failed=failed), {}, {}, self.device.serial)
        message = sent.message
        if report:
            message.launched_step, message.completed_step = self.device.launched, self.device.completed
        message.tickets_done = ints([copy.ticket for copy in done])
        live = list(self.sequences.values())
        if report:
            sent.progress = {s.handle: (s.launched, max(s.base, s.reportable(self.device.done))) for s in live}
        message.progress = Progress(
            ints(list(sent.progress)),
            ints([launched for launched, _ in sent.progress.values()]),
            ints([computed for _, computed in sent.progress.values()]),
        )
        message.appends = self._appends(sent, [] if late_appends else live)
        if requests:
            self._fill_requests(sent)
        return sent

    def _fill_requests(self, sent: Sent) -> None:
        """What was asked for since the last message, as far as it still makes sense."""
        message = sent.message
        message.forks = [Fork(parent, [Child(u) for u in uuids]) for parent, uuids in self.outbox.pop("fork", [])]
        for fork in message.forks:
            parent = self.sequences[fork.parent]
            count = sent.counts.get(parent.handle, parent.recorded)
            launched, computed = sent.progress.get(parent.handle, (parent.reported, parent.base))
            sent.parents[parent.handle] = (
                parent.tokens[:count],
                computed if message.failed else launched,
                computed,
                count,
            )
        for handles, parents, ids in self.outbox.pop("reorder", []):
            if self._are_level(sent, handles):
                message.reorders.append(Reorder(ints(handles), ints(parents), ints(ids), np.zeros(len(ids))))
            else:
                for handle in handles:
                    self.sequences[handle].busy = False
        finished = list(dict.fromkeys(self.outbox.pop("finish", [])))
        message.finished = Finished(ints(finished), [FinishReason.STOP] * len(finished))
        for name in ("swap_out", "swap_in", "look_again"):
            wanted = [handle for handle in dict.fromkeys(self.outbox.pop(name, [])) if handle not in finished]
            setattr(message, name, ints(wanted))
        lengths = {}
        for handle, more, look_ahead in self.outbox.pop("reserve", []):
            if handle in self.sequences and handle not in finished:
                s = self.sequences[handle]
                launched = sent.progress.get(handle, (s.reported, 0))[message.failed]
                if launched < self.geometry.max_length:
                    lengths[handle] = (min(launched + more, self.geometry.max_length), look_ahead)
        message.reservations = Reservations(
            ints(list(lengths)), ints([w[0] for w in lengths.values()]), ints([w[1] for w in lengths.values()])
        )
        message.admissions = self.outbox.pop("admit", [])
        message.demote = sum(self.outbox.pop("demote", []))

    def _are_level(self, sent: Sent, handles: list[int]) -> bool:
        beams = [self.sequences[handle] for handle in handles]
        rows = {
            (s.prompt, sent.counts.get(s.handle, s.recorded), *sent.progress.get(s.handle, (s.reported, s.base)))
            for s in beams
        }
        counts = {sent.counts.get(s.handle, s.recorded) for s in beams}
        whole = all({len(s.tokens)} == counts and not s.copies for s in beams)
        return len(rows) == 1 and whole and max(counts) < self.geometry.max_length and not sent.message.failed

    def _appends(self, sent: Sent, sequences: list[Sequence]) -> Appends:
        handles, starts, counts, ids = [], [], [], []
        for s in sequences:
            known = s.sampled(self.device.done)
            if known > s.recorded:
                start = max(s.prompt, s.recorded - self.number % 2)
                handles.append(s.handle)
                starts.append(start)
                counts.append(known - start)
                ids += s.tokens[start:known]
                sent.counts[s.handle] = known
        return Appends(ints(handles), ints(starts), ints(counts), ints(ids))

    def _landed(self, copy: Copy) -> None:
        self.copies.remove(copy)
        for s in self.sequences.values():
            if s.copies.get(copy.index) is copy:
                del s.copies[copy.index]
                s.table[copy.index] = copy.destination
                if s.away and not s.copies and copy.kind == TicketKind.SWAP_IN:
                    s.away = False

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
        assert update.first <= len(s.table), update
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
                launched, computed = min(launched, count), min(computed, count)
                born = Sequence(
                    handle, child.uuid, parent.root, parent.family, parent.prompt, list(tokens), count, launched, []
                )
                born.reported, born.base, born.barred = launched, computed, True
                born.marks = [(sent.serial, launched)]
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
        for handle in message.swap_in.tolist():
            if handle in self.sequences:
                self.sequences[handle].busy = False
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
            if sent.message.failed and look.cached != s.launched:
                # What of its hits was complete is for the manager to say.
                s.reset(look.cached, len(s.tokens))
            elif look.cached > s.launched:
                s.launched = s.reported = look.cached
                s.marks.append((sent.serial, look.cached))

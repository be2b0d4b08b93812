"""An executor of the plain model: it builds messages from what it did, and believes what replies say."""

import numpy as np

from blockmgr.core.messages import Appends, Child, Finished, Fork, Message, Progress, Reorder, Reservations
from blockmgr.core.states import FinishReason, TicketKind
from tests.unit.core.believer import Believer, Sent, ints
from tests.unit.core.model import Copy, Row, Sequence, Step


class SimulatedExecutor(Believer):
    """One registration. Its device goes on after it was killed, until it is proven dead."""

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
        rows: list[Row] = []
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
        report = (
            report
            or failed
            or bool(self.outbox.keys() & {"finish", "swap_out", "release", "fork", "reorder", "look_again"})
        )
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
        message.forks = [
            Fork(parent, [Child(u, output=None if output is None else np.array(output, dtype=np.int32)) for u in uuids])
            for parent, uuids, output in self.outbox.pop("fork", [])
        ]
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
        for name in ("swap_out", "release", "swap_in", "look_again"):
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

"""The scripted executor's engine: schedules, launches on its fake device, records, and never waits for the manager."""

import os
import signal
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc

from blockmgr.core.messages import Admitted, Ticket
from blockmgr.core.states import Residency, TicketKind
from executor.manager import ManagerSession, Registration, Revoked, insist
from pagehold.blockmgr.v1 import sequence_pb2
from tests.scripted.commands import Copy, Done, Forget, Row, Step
from tests.scripted.delivery import Delivery
from tests.scripted.points import Points, tell
from tests.scripted.sequence import Sequence
from tests.scripted.stream import DeviceStream
from tests.scripted.turns import Turn, apply_reply, build_turn
from tests.scripted.workload import Request

TIERS = {
    TicketKind.SWAP_OUT: (False, True),
    TicketKind.DEMOTE: (False, True),
    TicketKind.SWAP_IN: (True, False),
}
"""Whether source and destination of a copy lie in the host tier, where one of them does."""

WAIT_SECONDS = 0.002
"""How long to wait for the device before looking for a reply again."""


@dataclass(slots=True)
class Settings:
    """How an engine works."""

    chunk: int = 8
    """Positions of one prompt in one step at most."""
    depth: int = 3
    """Steps in flight at most."""
    look_ahead: int = 9
    """Positions for which blocks are wanted beyond the next."""
    max_running: int = 24
    slack: int = 8
    """Tokens that a sequence may get longer than it is going to be."""


@dataclass(slots=True)
class Statistics:
    """What is counted, for tests."""

    steps: int = 0
    turns: int = 0
    most_steps_in_a_turn: int = 0
    """Steps launched while one turn was unanswered."""
    cached: int = 0
    copies: int = 0
    refused: dict[str, str] = field(default_factory=dict)


class Engine:
    """Works off a list of requests. One thread; see ``run``."""

    def __init__(
        self,
        registration: Registration,
        device: DeviceStream,
        delivery: Delivery,
        settings: Settings,
        points: Points,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.registration = registration
        self.device = device
        self.delivery = delivery
        self.settings = settings
        self.points = points
        self._clock = clock
        self.session: ManagerSession = registration.open_session()
        geometry = registration.response.pool.geometry
        self.tokens_per_block = geometry.tokens_per_block
        self.has_host = geometry.host_blocks > 0
        self.sequences: dict[int, Sequence] = {}
        self.queue: deque[Request] = deque()
        self.launched_step = self.completed_step = 0
        self.copied: list[int] = []
        """Tickets whose copies have completed, to be reported."""
        self.reported_copies: list[int] = []
        self.starting: list[Sequence] = []
        """Sequences that begin behind hits, until the tickets of the same reply are launched."""
        self.free_blocks = geometry.device_blocks
        self.draining = False
        self.solo: Sequence | None = None
        self.statistics = Statistics()
        self.asked = False
        """Whether somebody wants to know where it stands."""
        self._solo_known = 0
        self._lagging: set[int] = set()
        """Adopted sequences that have made no progress yet."""
        self._tickets: dict[int, tuple[Sequence | None, int, TicketKind]] = {}
        self._rows: dict[int, list[tuple[Sequence, int]]] = {}
        """Step → its rows: sequence, and the position behind the row."""
        self._turn: Turn | None = None
        self._steps_in_turn = 0
        self._unwritten: set[int] = set()
        """Blocks that were handed out anew, and that no step has had since."""
        self._blocks_wanted = 0
        self._said = (0, 0)
        self._last_turn = 0.0

    # -- the loop ----------------------------------------------------------------------------------------------------

    def run(self, requests: list[Request], predecessors: list[str]) -> None:
        """Adopt what is left of earlier lives, and work until every request has been delivered."""
        self.begin(requests, predecessors)
        while not self.is_settled():
            self.advance()

    def begin(self, requests: list[Request], predecessors: list[str]) -> None:
        """Adopt what is left of earlier lives, and find out what else is to be done."""
        self._adopt(predecessors)
        self._lagging = set(self.sequences)
        self.points.armed = not self._lagging
        self.points.reach("after-adopt")
        self.registration.ready()
        live = {s.request.uuid for s in self.sequences.values()}
        for request in requests:
            for one in (request, *request.children()):
                if one.uuid not in live and not self.delivery.is_complete(one):
                    self.look_up(one)

    def is_settled(self) -> bool:
        """Whether nothing is left to do, and the manager knows it."""
        said = self._said == (self.launched_step, self.completed_step) and not self.copied
        return said and not (self.sequences or self.queue or self._rows or self._tickets or self._turn is not None)

    def advance(self) -> None:
        """One round: completions, a reply, a turn, steps."""
        if self.asked:
            self.asked = False
            tell("state", **self.describe())
        if self.registration.heartbeat.revoked.is_set():
            raise Revoked("the heartbeat was refused")
        busy = self._launch_steps()
        for done in self.device.completions(0.0 if busy else WAIT_SECONDS):
            self._complete(done)
        self._take_reply()
        self._submit_turn()

    def _adopt(self, predecessors: list[str]) -> None:
        adopted = self.registration.adopt(predecessors)
        rows = [self.registration.mapping.ledger.row(one.handle) for one in adopted]
        parents = {Request.from_bytes(row.request, ()).parent for row in rows if row is not None}
        for one, row in zip(adopted, rows, strict=True):
            assert row is not None
            request = Request.from_bytes(row.request, ())
            forked = bool(request.width == 1 or request.parent or request.uuid in parents)
            s = Sequence.adopted(self.registration.mapping, one.handle, forked)
            s.suspect = one.suspect
            self.sequences[s.handle] = s
            s.resume_ending()
            s.delivered = s.prompt + self.delivery.count(s.request)
            self._deliver(s)
        tell("adopted", sequences=len(adopted), suspects=sum(one.suspect for one in adopted))

    def describe(self) -> dict[str, Any]:
        """Where it stands, for whoever wonders why it does not go on."""
        return {
            "turns": self.statistics.turns,
            "launched": self.launched_step,
            "completed": self.completed_step,
            "queue": len(self.queue),
            "unanswered": self._turn is not None,
            "free": self.free_blocks,
            "tickets": len(self._tickets),
            "sequences": [s.describe() for s in self.sequences.values()],
        }

    # -- steps -------------------------------------------------------------------------------------------------------

    def _launch_steps(self) -> bool:
        """Launch what can be launched. Returns whether anything was."""
        launched = False
        while len(self._rows) < self.settings.depth and self._launch_step():
            launched = True
        return launched

    def _launch_step(self) -> bool:
        rows: list[Row] = []
        places: list[tuple[Sequence, int]] = []
        for s in self._runnable():
            row = s.next_row(self.settings.chunk, self.tokens_per_block)
            if row is not None:
                rows.append(row)
                places.append((s, s.launch(row)))
        if not rows:
            return False
        self._spoil({block for row in rows for block in row.table})
        self.launched_step += 1
        self.device.launch(Step(self.launched_step, rows))
        self._rows[self.launched_step] = places
        self.statistics.steps += 1
        if self._turn is not None:
            self._steps_in_turn += 1
        if any(s.request.kills and end >= s.prompt for s, end in places):
            os.kill(os.getpid(), signal.SIGKILL)
        self.points.reach("after-launch")
        return True

    def take_blocks(self, blocks: list[int], fresh: list[int]) -> None:
        """Blocks were named in a table; nothing of its sequence is in the fresh ones."""
        self._unwritten.difference_update(blocks)
        self._unwritten.update(fresh)

    def _spoil(self, blocks: set[int]) -> None:
        """Spoil those of a step's blocks that it is the first to have. Not before: fences wait for steps and for nothing
        else, so that a block no step has had may be another executor's at any moment.
        """
        fresh = self._unwritten & blocks
        self._unwritten -= fresh
        self.device.poison(sorted(fresh))

    def _runnable(self) -> list[Sequence]:
        """Everything, or only the one that executors died with, once the manager knows that it runs alone."""
        if self.solo is None:
            self.solo = next((s for s in self.sequences.values() if s.suspect), None)
        if self.solo is None:
            return list(self.sequences.values())
        if self._solo_known != self.solo.handle:
            return []
        return [s for s in self.sequences.values() if s is self.solo or self._moves_with(s, self.solo)]

    @staticmethod
    def _moves_with(s: Sequence, solo: Sequence) -> bool:
        """Beams of a group can make progress only together."""
        return s.is_beam and s.request.group == solo.request.group

    def _complete(self, done: Done) -> None:
        if done.ticket:
            self.points.reach("between-copy-and-done")
            self.copied.append(done.ticket)
            s = self._tickets[done.ticket][0]
            if s is not None:
                s.copying -= 1
        elif done.step:
            self.completed_step = done.step
            for s, end in self._rows.pop(done.step):
                s.complete(end, done.samples.get(s.request.key))

    # -- turns -------------------------------------------------------------------------------------------------------

    def _submit_turn(self) -> None:
        if self._turn is not None:
            return
        turn = build_turn(self)
        steps = (self.launched_step, self.completed_step)
        due = self._clock() - self._last_turn > 0.02 and bool(self.sequences or self.queue)
        if turn.says_nothing_new and steps == self._said and not self.session.turn_wanted.is_set() and not due:
            return
        self.points.reach("before-report")
        self._said, self._turn, self._steps_in_turn = steps, turn, 0
        self._last_turn = self._clock()
        self.session.submit(turn.message)
        self.statistics.turns += 1
        self.points.reach("after-submit")

    def _take_reply(self) -> None:
        if self._turn is None:
            return
        reply = self.session.reply()
        if reply is None:
            return
        turn, self._turn = self._turn, None
        self.points.reach("after-reply")
        most = max(self.statistics.most_steps_in_a_turn, self._steps_in_turn)
        self.statistics.most_steps_in_a_turn = most
        apply_reply(self, turn, reply)
        self._solo_known = turn.message.solo
        for s, _ in turn.appended:
            self._deliver(s)
        for s in turn.ending:
            self.points.reach("after-finish")
            self._deliver(s, ended=True)
            if len(s.tokens) < s.request.target:
                self.delivery.end(s.request, int(s.ending or 0))
            self.device.launch(Forget([s.request.key]))
            del self.sequences[s.handle]
        self._note_progress(turn)

    def _note_progress(self, turn: Turn) -> None:
        """Whoever has made progress is no suspect, and runs beside the others again."""
        gone_on = [s for s, _ in turn.appended] + [s for group, _ in turn.moved for s in group] + turn.ending
        self._lagging -= {s.handle for s in gone_on}
        self.points.armed = self.points.armed or not self._lagging
        if self.solo is not None and any(s is self.solo for s in gone_on):
            for s in gone_on:
                s.suspect = False
            self.solo = None

    def _deliver(self, s: Sequence, ended: bool = False) -> None:
        """What beams hold is settled only by their end."""
        if s.is_beam and not ended:
            return
        self.points.reach("before-deliver")
        start = max(s.delivered, s.prompt)
        self.delivery.append(s.request, start - s.prompt, s.tokens[start : s.recorded])
        s.delivered = s.recorded

    def perform(self, tickets: list[Ticket]) -> None:
        """Launch the copies that a reply orders, then let those begin that wait behind them."""
        for ticket in tickets:
            s = self.sequences.get(ticket.handle)
            source_on_host, destination_on_host = TIERS.get(ticket.kind, (False, False))
            self._tickets[ticket.id] = (s, ticket.index, ticket.kind)
            self._unwritten.discard(ticket.destination)
            if s is not None:
                s.copying += 1
            if s is not None and not destination_on_host:
                s.copied[ticket.index] = ticket.destination
                if ticket.index < len(s.table):
                    s.table[ticket.index] = ticket.destination
            self.device.launch(Copy(ticket.id, ticket.source, ticket.destination, source_on_host, destination_on_host))
            self.statistics.copies += 1
        for s in self.starting:
            s.reportable_from = self.device.serial
            self.statistics.cached += s.cached
        self.starting = []

    def forget_copies(self) -> None:
        """The manager knows of these copies: its tables name the destinations from now on."""
        for id_ in self.reported_copies:
            s, index, _ = self._tickets.pop(id_, (None, -1, TicketKind.NONE))
            if s is None:
                continue
            s.copied.pop(index, None)
            if id_ in s.moving:
                s.moving.discard(id_)
                if not s.moving:
                    s.residency = Residency.HOST if s.residency == Residency.LEAVING else Residency.DEVICE
        self.reported_copies = []

    # -- choices -----------------------------------------------------------------------------------------------------

    @property
    def has_work_in_flight(self) -> bool:
        """Whether a step is launched and not completed."""
        return bool(self._rows)

    def may_admit(self) -> bool:
        """Whether another prompt is worth a try."""
        return not self.draining and self.solo is None and self.free_blocks >= self._blocks_wanted

    def wait_for_blocks(self, count: int) -> None:
        """Admit nothing before so many blocks are to be had."""
        self._blocks_wanted = min(count, self.registration.response.pool.geometry.device_blocks - 1)

    def refuse(self, request: Request, admitted: Admitted) -> None:
        """A request that will never be admitted."""
        self.statistics.refused[request.uuid] = f"{admitted.refusal.name} {admitted.detail}".strip()
        tell("refused", uuid=request.uuid, reason=admitted.refusal.name, detail=admitted.detail)

    def look_up(self, request: Request) -> None:
        """Deliver what a sequence that has ended left undelivered, or ask for its admission if it never was."""
        question = sequence_pb2.LookupSequenceRequest(pool=self.registration.response.pool.name, uuid=request.key)
        try:
            found = insist(lambda: self.registration.stub.LookupSequence(question, wait_for_ready=True))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
            if not request.parent:
                self.queue.append(request)
            return
        if found.WhichOneof("found") == "finished":
            output = list(found.finished.ids[found.finished.prompt :])
            have = self.delivery.count(request)
            self.delivery.append(request, have, output[have:])
            self.delivery.end(request, found.finished.reason)

"""A device and a manager's session that do what a test says, and an engine between them."""

import threading
from collections import deque
from collections.abc import Sequence as Many
from types import SimpleNamespace
from typing import Any

import numpy as np

from blockmgr.core.geometry import handle_of
from blockmgr.core.messages import Admitted, Forked, Message, Reply, TableUpdate
from blockmgr.core.states import Refusal
from executor.engine.engine import Engine, Ways
from executor.engine.flight import Flight
from executor.engine.metrics import Metrics
from executor.engine.news import News
from executor.engine.orders import Inbox
from executor.engine.scheduler import Budget
from executor.engine.step import Copy, Done, Step
from executor.engine.work import Work
from tests.unit.engine.sequences import BLOCK, LIMITS


class FakeDevice:
    """Completes commands when it is told to; samples 1, 2, 3, …"""

    def __init__(self) -> None:
        self.serial = self.completed = 0
        self.steps: list[Step] = []
        self.copies: list[Copy] = []
        self.failed = False
        self._waiting: deque[tuple[int, Step | tuple[Copy, ...]]] = deque()
        self._done: list[Done] = []
        self._next = 0

    def launch(self, step: Step) -> None:
        self.serial += 1
        self.steps.append(step)
        self._waiting.append((self.serial, step))

    def copy(self, copies: Many[Copy]) -> None:
        self.serial += 1
        self.copies += copies
        self._waiting.append((self.serial, tuple(copies)))

    def resume(self) -> None:
        self.failed = False

    def finish(self, error: str = "") -> bool:
        """Complete the next command. Returns whether there was one."""
        if not self._waiting:
            return False
        serial, command = self._waiting.popleft()
        if isinstance(command, tuple):
            self._done.append(Done(serial, tickets=tuple(copy.ticket for copy in command)))
        elif self.failed or error:
            self._done.append(Done(serial, command.number, error=error or "before", follows_failure=self.failed))
            self.failed = True
        else:
            count = len(command.sampling.rows)
            ids = np.arange(self._next + 1, self._next + 1 + count)
            self._next += count
            self._done.append(Done(serial, command.number, ids=ids % 90, seconds=0.001))
        return True

    def completions(self) -> list[Done]:
        found, self._done = self._done, []
        for done in found:
            self.completed = done.serial
        return found

    def close(self) -> None:
        """Nothing to do."""


class FakeSession:
    """Keeps turns until ``answer``: then each gets all it asks for, out of an endless pool."""

    def __init__(self) -> None:
        self.turns: list[Message] = []
        self.turn_wanted = threading.Event()
        self._reply: Reply | None = None
        self._slots = self._blocks = 0
        self._lengths: dict[int, int] = {}

    def submit(self, message: Message) -> None:
        self.turns.append(message)

    def reply(self) -> Reply | None:
        found, self._reply = self._reply, None
        return found

    def answer(self, forks: Refusal = Refusal.NONE, **more: Any) -> Reply:
        """Answer the last turn. Whoever is ``short`` gets nothing. ``forks``: why they are refused, if they are."""
        turn = self.turns[-1]
        reply = Reply(len(self.turns), **{"free_blocks": 1000} | more)
        for fork in turn.forks:
            # With a table of their own: that blocks are shared is the manager's business.
            born = [] if forks else [handle_of(1, self._slots + place) for place in range(len(fork.children))]
            self._slots += len(born)
            reply.forked.append(Forked(fork.parent, born, forks))
        wanted = zip(*(array.tolist() for array in (turn.reservations.handles, turn.reservations.lengths)), strict=True)
        for handle, length in wanted:
            if handle not in reply.short:
                self._grow(reply, handle, length)
        for admission in turn.admissions:
            handle = handle_of(1, self._slots)
            self._slots += 1
            reply.admitted.append(Admitted(admission.uuid, handle))
            self._grow(reply, handle, admission.reserve)
        self._reply = reply
        return reply

    def refuse(self, refusal: Refusal) -> None:
        """Answer the last turn, and admit nobody."""
        turn = self.turns[-1]
        refused = [Admitted(admission.uuid, refusal=refusal, needed=1) for admission in turn.admissions]
        self._reply = Reply(len(self.turns), admitted=refused)

    def _grow(self, reply: Reply, handle: int, length: int) -> None:
        have = self._lengths.get(handle, 0)
        blocks = -(-length // BLOCK)
        if blocks > have:
            new = np.arange(self._blocks + 1, self._blocks + 1 + blocks - have)
            self._blocks += blocks - have
            self._lengths[handle] = blocks
            reply.tables.append(TableUpdate(handle, have, new))


class Bench:
    """An engine whose device and manager do as told. ``go`` lets it go round."""

    def __init__(self, chunk: int = 32, max_running: int = 8) -> None:
        self.device, self.session, self.inbox = FakeDevice(), FakeSession(), Inbox()
        self.news: list[News] = []
        self.work = Work(LIMITS, max_running, 100)
        registration: Any = SimpleNamespace(heartbeat=SimpleNamespace(revoked=threading.Event()))
        session: Any = self.session
        self.engine = Engine(
            registration,
            session,
            self.device,
            self.work,
            Flight(self.device, frozenset({99})),
            self.inbox,
            Ways(Budget(64, chunk, max_running), lambda _: b""),
            Metrics(),
            self.news.extend,
        )

    def go(self, rounds: int = 1) -> None:
        """Rounds of the loop that wait for nothing."""
        for _ in range(rounds):
            self.inbox.wake()
            self.engine.round()

    def exchange(self, **more: Any) -> Message:
        """Let it send a turn, answer it, and let the reply take effect. Returns the turn."""
        sent = len(self.session.turns)
        self.go()
        assert len(self.session.turns) == sent + 1, "a turn is sent"
        self.session.answer(**more)
        self.go()
        return self.session.turns[sent]

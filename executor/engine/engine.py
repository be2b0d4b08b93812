"""The engine's loop: it keeps the device two steps ahead, and the manager told, and waits for neither."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from executor.engine import intake
from executor.engine.device import Device
from executor.engine.flight import Flight, Landed
from executor.engine.metrics import Metrics
from executor.engine.news import Computing, Load, News
from executor.engine.orders import Cancel, Follow, Inbox, Order, Question, Start
from executor.engine.pace import Pace
from executor.engine.replies import apply_reply
from executor.engine.request import Request
from executor.engine.scheduler import Budget, plan
from executor.engine.turns import Terms, Turn, build_turn
from executor.engine.work import Work
from executor.manager import ManagerSession, Registration, Revoked

log = structlog.get_logger()

RETRY_SECONDS = 0.01
"""How long to leave the manager alone before asking again for what it refused for now."""

LONGEST_WAIT = 0.25
"""Seconds after which the loop goes round though nothing has happened, to show that it can."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How an engine works."""

    budget: Budget
    salt: Callable[[Request], bytes]
    """Under which salt a request shares cached blocks."""


class Engine:
    """Works on what doors ask for and on what earlier lives left. ``run`` is its life, on one thread.

    ``tell`` gets what front doors are to hear, once in a round at most, and must not wait. ``alive`` is called in each round.
    """

    def __init__(
        self,
        registration: Registration,
        session: ManagerSession,
        device: Device,
        work: Work,
        flight: Flight,
        inbox: Inbox,
        ways: Ways,
        metrics: Metrics,
        tell: Callable[[list[News]], None],
        alive: Callable[[float, Callable[[], dict[str, int]]], None] = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.work = work
        self.flight = flight
        self.inbox = inbox
        self.load = Load(round=clock())
        """How busy it is, as of the last round. May be read from any thread."""
        self._registration = registration
        self._session = session
        self._device = device
        self._ways = ways
        self._metrics = metrics
        self._tell = tell
        self._alive = alive
        self._clock = clock
        self._tokens_per_block = work.limits.tokens_per_block
        self._pace = Pace()
        self._turn: Turn | None = None
        self._turn_sent = 0.0
        self._said = (0, 0)
        """Steps launched and completed as the manager knows them."""
        self._leave_at: float | None = None

    # -- its life ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until asked to stop. Raises ``Revoked`` when the registration is over, and whatever else ends an engine."""
        while not (self._leave_at is not None and self._is_settled()):
            self.round()

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self._leave_at is not None

    def stop(self, grace: float) -> None:
        """Take on nothing more, and end ``run`` when what runs has ended, or after ``grace`` seconds, when it is left to
        a successor. May be called from any thread; a second call with less grace counts.
        """
        leave_at = self._clock() + grace
        self._leave_at = leave_at if self._leave_at is None else min(self._leave_at, leave_at)
        self.inbox.wake()

    def round(self) -> None:
        """One round: take what has come, launch what can be launched, say what there is to be said; then wait for news."""
        if self._registration.heartbeat.revoked.is_set():
            raise Revoked("the manager says that the registration is over")
        clock = [time.perf_counter()]
        self._take_orders()
        nearest = intake.expire(self.work)
        self._land()
        self._take_reply()
        clock.append(time.perf_counter())
        scheduling = self._launch_steps()
        clock.append(time.perf_counter())
        self._submit_turn()
        clock.append(time.perf_counter())
        self._tell_doors()
        clock.append(time.perf_counter())
        self._metrics.add_round(clock, scheduling)
        self.load = self._take_load()
        self._alive(self.flight.oldest, self.flight.describe_oldest)
        self._wait(nearest)

    def _wait(self, nearest: float) -> None:
        retry = RETRY_SECONDS if self.work.waits_for_manager else LONGEST_WAIT
        held_up = self._is_held_up()
        started = time.perf_counter()
        self.inbox.wait(max(min(retry, nearest, LONGEST_WAIT), 0.0))
        if held_up:
            self._metrics.manager_wait.inc(time.perf_counter() - started)

    def _is_held_up(self) -> bool:
        """Whether the device has nothing to do though there is something, only for want of the manager's answer."""
        idle = self._turn is not None and not self.flight.count
        return idle and any(one.wants_to_run() for one in self.work.sequences.values())

    def _is_settled(self) -> bool:
        """Whether the engine may leave: nothing is in flight, and the manager knows all there is to know."""
        if self.work.sequences and self._clock() < (self._leave_at or 0.0):
            return False
        said = self._said == (self.flight.launched_step, self.flight.completed_step)
        return said and not self.flight.count and self._turn is None and self.work.copies.are_settled

    @property
    def _is_leaving(self) -> bool:
        return self._leave_at is not None and self._clock() >= self._leave_at

    # -- what others want --------------------------------------------------------------------------------------------

    def _take_orders(self) -> None:
        if self._leave_at is not None and not self.work.stopping:
            self.work.stopping = True
            intake.refuse_waiting(self.work)
        for order in self.inbox.take():
            self._take_order(order)

    def _take_order(self, order: Order) -> None:
        match order:
            case Start(request, stream):
                intake.start(self.work, request, stream)
            case Follow(uuid, stream):
                intake.follow(self.work, uuid, stream)
            case Cancel(uuid):
                intake.cancel(self.work, uuid)
            case Question(ask):
                ask()

    def _tell_doors(self) -> None:
        if self.work.news:
            news, self.work.news = self.work.news, []
            self._metrics.count_news(news)
            self._tell(news)

    # -- steps -------------------------------------------------------------------------------------------------------

    def _launch_steps(self) -> float:
        """Launch what can be launched. Returns the seconds that choosing it took."""
        scheduling = 0.0
        while self.flight.may_launch and not self._is_leaving:
            started = time.perf_counter()
            runnable = self.work.runnable(idle=not self.flight.count)
            parts = plan(runnable, self._ways.budget, self._tokens_per_block)
            scheduling += time.perf_counter() - started
            if not parts:
                break
            self.flight.launch(parts)
            self._metrics.count_step(parts)
        return scheduling

    def _land(self) -> None:
        landed = self.flight.land()
        self.work.copies.done += landed.tickets
        for blocks, seconds in landed.copied:
            self._pace.note_copies(blocks, seconds)
        for sequence, candidates in landed.ranked:
            self.work.beams.note(sequence, candidates)
        if landed.steps:
            for tokens, seconds in landed.fed:
                self._pace.note_prompts(tokens, seconds)
            for seconds in landed.seconds:
                self._pace.note_step(seconds)
            self._metrics.count_landed(landed)
            self._note_computing(landed)

    def _note_computing(self, landed: Landed) -> None:
        for sequence in landed.moved:
            # Of one that comes back, callers have tokens already: to them it makes no progress.
            if sequence.is_prefill and len(sequence.tokens) == sequence.prompt:
                uuid, handle = sequence.request.uuid, sequence.handle
                self.work.news.append(Computing(uuid, handle, sequence.computed))

    # -- turns -------------------------------------------------------------------------------------------------------

    def _submit_turn(self) -> None:
        if self._turn is not None:
            return
        now = self._clock()
        steps = (self.flight.launched_step, self.flight.completed_step)
        budget = self._ways.budget
        retry = steps != self._said or now - self._turn_sent >= RETRY_SECONDS
        terms = Terms(
            self._tokens_per_block, budget.chunk, self._pace.look_ahead, retry, self._is_leaving, self._ways.salt
        )
        turn = build_turn(self.work, self.flight, self._device.completed, terms)
        if turn.is_empty and steps == self._said and not self._session.turn_wanted.is_set():
            return
        self._said = (self.flight.launched_step, self.flight.completed_step)
        self._turn, self._turn_sent = turn, now
        self._session.submit(turn.message)

    def _take_reply(self) -> None:
        # Asked also where none is due: a session that has ended says so in its place.
        reply = self._session.reply()
        if reply is None or self._turn is None:
            return
        turn, self._turn = self._turn, None
        seconds = self._clock() - self._turn_sent
        self._pace.note_turn(seconds)
        before = self.work.cached_tokens
        apply_reply(self.work, self.flight, self._device, turn, reply, self._pace)
        self._metrics.count_turn(seconds, reply, self.work.cached_tokens - before)

    def _take_load(self) -> Load:
        work = self.work
        waiting = len(work.waiting) + len(work.asked)
        self._metrics.take_load(len(work.sequences), waiting, work.free_blocks, work.preemption)
        return Load(
            running=len(work.sequences),
            waiting=waiting,
            blocks=work.limits.usable_blocks,
            free_blocks=work.free_blocks,
            draining=work.draining or work.stopping,
            round=self._clock(),
        )

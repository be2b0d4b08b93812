"""What an engine says in a turn: everything that has happened since the last one."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from blockmgr.core.messages import NONE, Appends, Finished, Ints, Message, Progress, Reservations, Want
from blockmgr.core.states import FinishReason
from executor.engine.beam_groups import BeamGroup
from executor.engine.beam_turns import Deed, speak_of_beams
from executor.engine.entrance import admits, first_want, spare_blocks, take_returning, take_waiting
from executor.engine.family import Family
from executor.engine.flight import DEPTH, Flight
from executor.engine.preemption import Way
from executor.engine.request import Request
from executor.engine.room import blocks_of
from executor.engine.sequence import Sequence
from executor.engine.waiting import Waiting
from executor.engine.work import Work

ADMISSIONS, ADMITTED_TOKENS = 16, 1 << 20
"""Prompts in one turn at most, and their tokens together; one prompt may always go."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a turn is built by."""

    tokens_per_block: int
    chunk: int
    """Tokens of a prompt in a step at most."""
    look_ahead: int
    """Positions for which blocks are wanted beyond the next steps."""
    retry: bool
    """Whether to ask again for what was refused for now: something may have changed."""
    leaving: bool
    """Whether nobody is to be moved or let in any more."""
    salt: Callable[[Request], bytes]
    """Under which salt a request shares cached blocks."""


@dataclass(slots=True)
class Turn:
    """A message, and whom its parts speak of."""

    message: Message
    appended: list[Sequence] = field(default_factory=list)
    recorded: list[int] = field(default_factory=list)
    """Tokens that each of ``appended`` has recorded once the turn is answered."""
    ending: list[Sequence] = field(default_factory=list)
    reserved: list[Sequence] = field(default_factory=list)
    asked: list[Waiting] = field(default_factory=list)
    forked: list[Family] = field(default_factory=list)
    """Whose first sequence is to be forked."""
    beams: list[tuple[BeamGroup, Deed]] = field(default_factory=list)
    """Beam searches, and what is done with each. Their forks come before the others."""
    tickets: list[int] = field(default_factory=list)
    least: set[int] = field(default_factory=set)
    """Handles of those of ``reserved`` that asked for their next position alone."""
    swapped: list[Sequence] = field(default_factory=list)
    """Who is to go to the host tier."""
    released: list[Sequence] = field(default_factory=list)
    """Who is to give up its blocks."""
    returning: list[Sequence] = field(default_factory=list)
    """Who is to come back."""
    polls: bool = False
    """Whether somebody waits for blocks that others may have given back meanwhile: only an answer can tell."""
    changes_want: bool = False
    """Whether the others of the pool have heard of another want than there is."""
    changes_solo: bool = False
    """Whether the manager thinks that another sequence runs alone, or none."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said beside the steps."""
        message = self.message
        said = (self.appended, self.ending, self.reserved, self.asked, self.forked, self.beams, self.tickets)
        moved = (self.swapped, self.released, self.returning)
        flags = message.failed or self.changes_solo or self.changes_want or self.polls
        return not (any(said) or any(moved) or flags or len(message.progress.handles) or len(message.look_again))


def build_turn(work: Work, flight: Flight, completed: int, terms: Terms) -> Turn:
    """Say everything that has happened, and ask for what the next steps need.

    ``completed`` is the last command that the device has completed. What is put into the turn counts as said: it has to
    be sent.
    """
    turn = Turn(Message(0, 0, launched_step=flight.launched_step))
    message = turn.message
    if flight.failure_is_due:
        # Only once every step is over: what is not reported computed is void, and nothing may be written behind that.
        message.failed = True
        flight.take_failure()
    message.completed_step = flight.completed_step
    message.solo = work.solo.handle if work.solo is not None else 0
    turn.changes_solo = message.solo != work.solo_known
    turn.tickets, work.copies.done = work.copies.done, []
    message.tickets_done = ints(turn.tickets)
    _report(turn, work, completed)
    if not message.failed:
        if not terms.leaving:
            turn.beams = speak_of_beams(message, work, turn.tickets, retry=terms.retry)
        _look_again(turn, work, terms)
        _reserve(turn, work, terms)
        if not terms.leaving:
            _fork(turn, work, terms)
            _move(turn, work)
            _admit(turn, work, terms)
            turn.polls = terms.retry and work.waits_for_blocks
            message.demote = work.take_demotion()
    message.want = first_want(work)
    turn.changes_want = _essence(message.want) != _essence(work.want_said)
    work.want_said = message.want
    return turn


def _essence(want: Want | None) -> tuple[bytes, bool] | None:
    """What others go by: a want that changes in it, or is over, must not be left standing."""
    return (want.uuid, want.running) if want is not None else None


def ints(values: list[int]) -> Ints:
    """As messages hold them."""
    return np.array(values, dtype=np.int64)


def _report(turn: Turn, work: Work, completed: int) -> None:
    """Progress, tokens and ends, in one pass over the sequences."""
    changed, starts, counts, ids = [], [], [], []
    for sequence in work.sequences.values():
        if sequence.take_report(completed):
            changed.append(sequence)
        if len(sequence.tokens) > sequence.recorded:
            new = sequence.tokens[sequence.recorded :]
            turn.appended.append(sequence)
            turn.recorded.append(len(sequence.tokens))
            starts.append(sequence.recorded)
            counts.append(len(new))
            ids += new
        if sequence.ending is not None and not sequence.is_beam:
            turn.ending.append(sequence)
    turn.message.progress = Progress(
        ints([one.handle for one in changed]),
        ints([one.reported[0] for one in changed]),
        ints([one.reported[1] for one in changed]),
    )
    # Mostly each has one token more, which goes without saying.
    said = NONE if len(ids) == len(turn.appended) else ints(counts)
    turn.message.appends = Appends(ints([one.handle for one in turn.appended]), ints(starts), said, ints(ids))
    reasons = [one.ending or FinishReason.UNSPECIFIED for one in turn.ending]
    turn.message.finished = Finished(ints([one.handle for one in turn.ending]), reasons)


def _look_again(turn: Turn, work: Work, terms: Terms) -> None:
    """Prompts whose next block another was about to fill: it may have done so by now."""
    if terms.retry:
        turn.message.look_again = ints(
            [
                one.handle
                for one in work.sequences.values()
                if one.awaiting and one.ending is None and one.is_level and not one.parked
            ]
        )


def _reserve(turn: Turn, work: Work, terms: Terms) -> None:
    """Ask for the blocks of the next few positions, well before they are needed."""
    lengths = []
    for sequence in work.sequences.values():
        if sequence.ending is not None or sequence.awaiting or sequence.parked or sequence.launched >= sequence.limit:
            continue
        is_short = sequence.handle in work.short
        if is_short and not terms.retry:
            continue
        stride = min(2 * terms.chunk, len(sequence.tokens) - sequence.launched) if sequence.is_prefill else DEPTH
        soon = min(sequence.launched + max(stride, terms.look_ahead), sequence.limit)
        # Look-ahead that was not granted is asked for again only with the next step: asking alone changes nothing.
        room = len(sequence.table) * terms.tokens_per_block
        needed = min(sequence.launched + stride, sequence.limit) > room
        missing = needed or (soon > room and (is_short or soon > sequence.asked))
        if missing or sequence.frozen:
            sequence.asked = soon
            turn.reserved.append(sequence)
            if is_short:
                # There was not enough for all that: whoever gets no more than its next position gets on all the same.
                turn.least.add(sequence.handle)
                stride = 1
            lengths.append(min(sequence.launched + stride, sequence.limit))
    look_ahead = [
        min(terms.look_ahead, sequence.limit - length) for sequence, length in zip(turn.reserved, lengths, strict=True)
    ]
    turn.message.reservations = Reservations(
        ints([one.handle for one in turn.reserved]), ints(lengths), ints(look_ahead)
    )


def _fork(turn: Turn, work: Work, terms: Terms) -> None:
    """Prompts of several outputs whose computed part is all that they share."""
    for family in work.families:
        if family.may_fork and (terms.retry or not family.refused):
            turn.forked.append(family)
            turn.message.forks.append(family.fork())


def _move(turn: Turn, work: Work) -> None:
    """Who makes room goes as soon as nothing of it is in flight; who is away comes back when there is room."""
    preemption = work.preemption
    if preemption.leaving:
        turn.swapped, turn.released = (preemption.departing(way) for way in (Way.SWAP, Way.RECOMPUTE))
    elif preemption.away:
        turn.returning = take_returning(work)
    turn.message.swap_out = ints([one.handle for one in turn.swapped])
    turn.message.release = ints([one.handle for one in turn.released])
    turn.message.swap_in = ints([one.handle for one in turn.returning])


def _admit(turn: Turn, work: Work, terms: Terms) -> None:
    tokens = 0
    if not len(work.waiting) or not admits(work) or (work.blocked and not terms.retry) or turn.returning:
        return
    spare = spare_blocks(work)
    while len(turn.asked) < ADMISSIONS and admits(work):
        left = ADMITTED_TOKENS - tokens if tokens else float("inf")
        waiting = take_waiting(work, left, spare)
        if waiting is None:
            return
        spare -= blocks_of(waiting.request, work.limits)
        tokens += len(waiting.request.prompt)
        turn.asked.append(waiting)
        turn.message.admissions.append(waiting.request.admission(2 * terms.chunk, terms.salt(waiting.request)))

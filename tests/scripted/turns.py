"""What a scripted executor says in a turn, and what a reply means for its sequences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from blockmgr.core.messages import (
    Admission,
    Admitted,
    Appends,
    Child,
    Finished,
    Fork,
    Ints,
    Message,
    Progress,
    Reorder,
    Reply,
    Reservations,
)
from blockmgr.core.states import FinishReason, Refusal, Residency
from tests.scripted import toy_model
from tests.scripted.scheduling import beam_groups, broken_beams, choose_victim, has_room_for
from tests.scripted.sequence import Sequence
from tests.scripted.workload import Request

if TYPE_CHECKING:
    from tests.scripted.engine import Engine

ADMISSIONS = 4
"""Prompts in one turn at most."""


@dataclass(slots=True)
class Turn:
    """A message, and whom its parts speak of."""

    message: Message
    appended: list[tuple[Sequence, int]] = field(default_factory=list)
    ending: list[Sequence] = field(default_factory=list)
    forked: list[Sequence] = field(default_factory=list)
    moved: list[tuple[list[Sequence], Reorder]] = field(default_factory=list)
    reserved: list[Sequence] = field(default_factory=list)
    leaving: list[Sequence] = field(default_factory=list)
    returning: list[Sequence] = field(default_factory=list)
    asked: dict[bytes, Request] = field(default_factory=dict)

    @property
    def says_nothing_new(self) -> bool:
        """Whether nothing is said beside the steps, and nothing asked for but what was not to be had the last time."""
        said = (self.appended, self.ending, self.forked, self.moved, self.leaving, self.returning)
        wanted = [s for s in self.reserved if not s.short]
        message = self.message
        return not any((*said, wanted, self.asked, len(message.tickets_done), len(message.progress.handles)))


def ints(values: Iterable[int]) -> Ints:
    """As messages hold them."""
    return np.array(list(values), dtype=np.int64)


def build_turn(engine: Engine) -> Turn:
    """Everything that has happened since the last turn."""
    turn = Turn(Message(0, 0, launched_step=engine.launched_step, completed_step=engine.completed_step))
    message, sequences = turn.message, list(engine.sequences.values())
    changed = [s for s in sequences if s.take_report(engine.device.completed)]
    message.progress = Progress(
        ints(s.handle for s in changed), ints(s.launched for s in changed), ints(s.completed for s in changed)
    )
    message.solo = engine.solo.handle if engine.solo else 0
    message.tickets_done = ints(engine.copied)
    engine.copied, engine.reported_copies = [], engine.copied
    _append(turn, sequences)
    _fork(turn, sequences)
    _move_beams(turn, engine)
    _finish(turn, engine, sequences)
    _swap(turn, engine, sequences)
    message.look_again = ints(s.handle for s in sequences if s.awaiting and s.is_level and s.ending is None)
    _reserve(turn, engine, sequences)
    _admit(turn, engine)
    return turn


def _append(turn: Turn, sequences: list[Sequence]) -> None:
    """Record what is new. The first output of a request that is still to be forked waits, or its children had it too."""
    new = [s for s in sequences if len(s.tokens) > s.recorded and s.forked]
    turn.appended = [(s, len(s.tokens)) for s in new]
    turn.message.appends = Appends(
        ints(s.handle for s in new),
        ints(s.recorded for s in new),
        ints(len(s.tokens) - s.recorded for s in new),
        ints(token for s in new for token in s.tokens[s.recorded :]),
    )


def _fork(turn: Turn, sequences: list[Sequence]) -> None:
    for parent in sequences:
        if not parent.forked and parent.launched == parent.prompt and parent.is_level:
            children = [Child(one.key, one.to_bytes()) for one in parent.request.children()]
            turn.message.forks.append(Fork(parent.handle, children))
            turn.forked.append(parent)


def _move_beams(turn: Turn, engine: Engine) -> None:
    for group in beam_groups(engine):
        if not all(
            s.vector and s.is_level and not s.copying and not s.ending and s.residency == Residency.DEVICE
            for s in group
        ):
            continue
        if len({len(s.tokens) for s in group}) > 1 or not all(s.launched == len(s.tokens) for s in group):
            continue
        parents, ids, scores = toy_model.move_beams([s.vector for s in group], group[0].request.seed)
        move = Reorder(ints(s.handle for s in group), ints(parents), ints(ids), np.array(scores))
        turn.message.reorders.append(move)
        turn.moved.append((group, move))
        for s in group:
            s.held = True


def _finish(turn: Turn, engine: Engine, sequences: list[Sequence]) -> None:
    """What ends in this turn. Steps of a sequence that was stopped may be in flight still: its blocks wait for them."""
    for s in broken_beams(engine):
        s.ending = s.ending or FinishReason.INTERNAL
    turn.ending = [s for s in sequences if s.ending is not None]
    reasons = [s.ending or FinishReason.UNSPECIFIED for s in turn.ending]
    turn.message.finished = Finished(ints(s.handle for s in turn.ending), reasons)


def _swap(turn: Turn, engine: Engine, sequences: list[Sequence]) -> None:
    for s in sequences:
        half = s.prompt + (s.request.target - s.prompt) // 2
        if s.request.swaps and not s.swapped and len(s.tokens) >= half and s.ending is None and engine.has_host:
            s.held = s.swapped = True
    victim = choose_victim(engine)
    if victim is not None:
        victim.held = True
    staying = [s for s in sequences if s.ending is None and not s.is_beam and s.forked]
    turn.leaving = [s for s in staying if s.held and s.residency == Residency.DEVICE and s.is_level and not s.copied]
    away = [s for s in sequences if s.residency == Residency.HOST and s.ending is None]
    turn.returning = [s for s in away if has_room_for(engine, s)]
    turn.message.swap_out = ints(s.handle for s in turn.leaving)
    turn.message.swap_in = ints(s.handle for s in turn.returning)


def _reserve(turn: Turn, engine: Engine, sequences: list[Sequence]) -> None:
    """Ask for the blocks of the next few positions, well before they are needed."""
    lengths = []
    leaving = {s.handle for s in turn.leaving}
    for s in sequences:
        if s.ending is not None or s.awaiting or s.residency != Residency.DEVICE or s.handle in leaving:
            continue
        stride = engine.settings.chunk if s.fed < s.prompt else engine.settings.depth
        wanted = max(min(s.fed + stride, s.limit), s.launched)
        soon = min(s.fed + stride + engine.settings.look_ahead // 2, s.limit)
        if s.frozen or soon > len(s.table) * engine.tokens_per_block:
            turn.reserved.append(s)
            lengths.append(wanted)
    look_ahead = [engine.settings.look_ahead] * len(lengths)
    turn.message.reservations = Reservations(ints(s.handle for s in turn.reserved), ints(lengths), ints(look_ahead))


def _admit(turn: Turn, engine: Engine) -> None:
    room = engine.settings.max_running - sum(s.request.width if not s.forked else 1 for s in engine.sequences.values())
    while engine.queue and len(turn.asked) < ADMISSIONS and engine.may_admit():
        request = engine.queue[0]
        room -= request.width
        if room < 0:
            return
        engine.queue.popleft()
        turn.asked[request.key] = request
        turn.message.admissions.append(
            Admission(
                uuid=request.key,
                prompt=np.array(request.prompt, dtype=np.int32),
                reserve=min(len(request.prompt), 2 * engine.settings.chunk),
                max_length=request.target + engine.settings.slack,
                salt=request.salt.encode(),
                request=request.to_bytes(),
            )
        )


def apply_reply(engine: Engine, turn: Turn, reply: Reply) -> None:
    """Take what the manager gives."""
    if reply.stale:
        raise RuntimeError(f"the manager does not know {reply.stale} as ours any more")
    engine.free_blocks, engine.draining = reply.free_blocks, reply.drain
    # Before the tables: those in the reply know of these copies already.
    engine.forget_copies()
    for s, upto in turn.appended:
        s.recorded = upto
    _take_forks(engine, turn, reply)
    for group, move in turn.moved:
        _become(group, move)
    for seen in reply.looked_again:
        _start_at(engine, engine.sequences[seen.handle], seen.cached, seen.awaiting)
    for admitted in reply.admitted:
        _take_admission(engine, turn.asked[admitted.uuid], admitted)
    _take_swaps(turn, reply)
    for update in reply.tables:
        named = engine.sequences.get(update.handle)
        if named is not None:
            blocks = update.blocks.tolist()
            engine.take_blocks(blocks, named.update(update.first, blocks, engine.tokens_per_block))
    engine.perform(reply.tickets)
    for s in turn.reserved:
        s.short = s.handle in reply.short
        s.frozen = s.frozen and s.short
    for handle in reply.cancel:
        if handle in engine.sequences:
            engine.sequences[handle].ending = FinishReason.CANCELLED


def _take_forks(engine: Engine, turn: Turn, reply: Reply) -> None:
    for parent, forked in zip(turn.forked, reply.forked, strict=True):
        if forked.refusal == Refusal.NONE:
            for request, handle in zip(parent.request.children(), forked.handles, strict=True):
                engine.sequences[handle] = Sequence(
                    request=request,
                    handle=handle,
                    tokens=list(parent.request.prompt),
                    fed=parent.prompt - 1,
                    launched=parent.prompt,
                    completed=parent.prompt,
                    recorded=parent.prompt,
                    reported=(parent.prompt, parent.prompt),
                    frozen=True,
                    swapped=True,
                )
        if forked.refusal in (Refusal.NONE, Refusal.DUPLICATE):
            parent.forked = parent.frozen = True
        elif forked.refusal not in (Refusal.NO_SLOTS, Refusal.BUSY):
            raise RuntimeError(f"fork refused: {forked}")


def _become(group: list[Sequence], move: Reorder) -> None:
    old = [s.tokens for s in group]
    for place, (s, parent, token) in enumerate(zip(group, move.parents.tolist(), move.ids.tolist(), strict=True)):
        s.tokens = [*old[parent], token]
        s.recorded = len(s.tokens)
        s.known_to_device = s.known_to_device and parent == place
        s.vector, s.held, s.frozen = b"", False, True
        if len(s.tokens) == s.request.target:
            s.ending = FinishReason.LENGTH


def _start_at(engine: Engine, s: Sequence, cached: int, awaiting: int) -> None:
    """Hits may still be being written, or copied from the host, by what is launched already."""
    if cached > s.launched:
        s.fed = s.launched = s.cached = cached
        s.known_to_device = False
        s.reported = (cached, -1)
        engine.starting.append(s)
    s.awaiting = awaiting


def _take_admission(engine: Engine, request: Request, admitted: Admitted) -> None:
    if admitted.refusal == Refusal.NONE:
        s = Sequence(request, admitted.handle, list(request.prompt), recorded=len(request.prompt))
        s.forked = request.width == 1
        engine.sequences[s.handle] = s
        _start_at(engine, s, admitted.cached, admitted.awaiting)
    elif admitted.refusal == Refusal.DUPLICATE:
        engine.look_up(request)
    elif admitted.refusal in (Refusal.POOL_EXHAUSTED, Refusal.NO_SLOTS, Refusal.DRAINING):
        engine.queue.appendleft(request)
        engine.wait_for_blocks(admitted.needed)
    else:
        engine.refuse(request, admitted)


def _take_swaps(turn: Turn, reply: Reply) -> None:
    refused = {swap.handle: swap.refusal for swap in reply.swaps_refused}
    moving: dict[int, set[int]] = {}
    for ticket in reply.tickets:
        moving.setdefault(ticket.handle, set()).add(ticket.id)
    for s in turn.leaving:
        if s.handle not in refused:
            s.moving = moving.get(s.handle, set())
            s.residency = Residency.LEAVING if s.moving else Residency.HOST
            s.table, s.held = [], False
        elif refused[s.handle] == Refusal.HOST_EXHAUSTED:
            s.held = False
    for s in turn.returning:
        if s.handle not in refused:
            s.moving = moving.get(s.handle, set())
            s.residency = Residency.RETURNING if s.moving else Residency.DEVICE
            s.frozen = True

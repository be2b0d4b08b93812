"""One message of an executor, handled in the order that the parts of a message have."""

import numpy as np

from blockmgr.core.admission import admit, look_again
from blockmgr.core.beams import reorder
from blockmgr.core.columns import Indexes
from blockmgr.core.copying import copy_done, demote
from blockmgr.core.deaths import void_unfinished
from blockmgr.core.events import Event, EventKind
from blockmgr.core.filling import seal_through
from blockmgr.core.forking import fork
from blockmgr.core.form import check_form
from blockmgr.core.geometry import SLOT_MASK
from blockmgr.core.growth import look_ahead, reserve
from blockmgr.core.handles import Named
from blockmgr.core.messages import NONE, Admission, Admitted, LookedAgain, Message, Reply, Swapped, TableUpdate, Want
from blockmgr.core.publishing import publish, seal_computed
from blockmgr.core.recomputing import come_back, release
from blockmgr.core.release import finish
from blockmgr.core.reports import take_appends, take_progress, take_steps
from blockmgr.core.resizing import move_below
from blockmgr.core.state import PoolState
from blockmgr.core.states import ExecutorState, Refusal, Residency
from blockmgr.core.swapping import swap_in, swap_out

STARTING, LIVE = int(ExecutorState.STARTING), int(ExecutorState.LIVE)
"""Plain numbers: looking a member up in its enum costs more than comparing it."""


def handle_message(state: PoolState, row: int, message: Message) -> Reply:
    """Change the state as the message says and say what came of it. Raises before or while changing; the caller undoes."""
    check_form(message)
    reply = Reply(message.number)
    state.tickets.fresh = []
    _take_reports(state, row, message, reply)
    _take_forks(state, row, message, reply)
    _take_endings(state, row, message, reply)
    state.blocks.fences.hear(row)
    state.blocks.open_fences()
    _give(state, row, message, reply)
    reply.tickets = [state.tickets.describe(destination) for destination in state.tickets.fresh]
    _pass_on_wishes(state, row, reply)
    reply.free_blocks, reply.usable_blocks = state.available(), state.capacity - 1
    reply.fenced_blocks, reply.cached_blocks = state.blocks.fenced(), state.blocks.tier(host=False).evictable
    reply.wanted = _exchange_wants(state, row, message)
    return reply


def _exchange_wants(state: PoolState, row: int, message: Message) -> Want | None:
    """Note what this executor waits for, and find what comes first of what the others wait for."""
    state.wants.pop(row, None)
    if message.want is not None:
        state.wants[row] = message.want
    others = [want for at, want in state.wants.items() if at != row and state.executors.state.get(at) == LIVE]
    return min(others, key=lambda want: (not want.running, want.rank), default=None)


def _take_reports(state: PoolState, row: int, message: Message, reply: Reply) -> None:
    """What has happened: steps, tokens, copies; then the blocks that are full by all of it."""
    if state.executors.state.get(row) == STARTING:
        state.executors.state.put(row, ExecutorState.LIVE)
        state.events.add(Event(EventKind.EXECUTOR_LIVE, executor=state.executors.name_of(row)))
    take_steps(state, row, message)
    moved = take_progress(state, row, message.progress, reply)
    appended = take_appends(state, row, message.appends, reply)
    tickets = [ticket for ticket in message.tickets_done.tolist() if state.tickets.is_mine(ticket, row)]
    copied = [slot for ticket in tickets if (slot := state.tickets.slot_of(ticket)) >= 0]
    for ticket in tickets:
        copy_done(state, ticket)
    concerned = _each_once(moved, appended, copied)
    publish(state, row, concerned)
    if not message.failed:
        seal_through(state.blocks, row, state.executors.completed.get(row))
    seal_computed(state, row, concerned)
    if message.failed:
        for slot in void_unfinished(state, row):
            handle, left = state.sequences.handle(slot), state.sequences.blocks.get(slot)
            reply.tables.append(TableUpdate(handle, left, NONE))
            reply.looked_again.append(LookedAgain(handle, state.sequences.launched.get(slot)))


def _each_once(moved: Named | None, appended: Named | None, copied: list[int]) -> Indexes:
    """Every slot of these once. A step moves and appends to the same ones, so mostly there is nothing to merge."""
    named = [one for one in (moved, appended) if one is not None]
    if not copied and named and named[0].once and named[-1] is named[0]:
        return named[0].slots
    return np.unique(np.concatenate((*(one.slots for one in named), np.array(copied, dtype=np.int64))))


def _take_forks(state: PoolState, row: int, message: Message, reply: Reply) -> None:
    reply.forked = [fork(state, row, request, reply.tables) for request in message.forks]
    for move in message.reorders:
        reorder(state, row, move, reply)


def _take_endings(state: PoolState, row: int, message: Message, reply: Reply) -> None:
    """What ends, and what goes to the other tier: both give blocks back before any are asked for."""
    for handle, reason in zip(message.finished.handles.tolist(), message.finished.reasons, strict=True):
        # Named twice in one message, the second time it is nobody's any more.
        if state.sequences.is_owned(handle, row):
            finish(state, handle & SLOT_MASK, reason)
        else:
            reply.stale.append(handle)
    for handle in message.swap_out.tolist():
        refused = swap_out(state, row, handle)
        if refused is not None:
            reply.swaps_refused.append(refused)
    for handle in message.release.tolist():
        refused = release(state, row, handle)
        if refused is not None:
            reply.swaps_refused.append(refused)


def _give(state: PoolState, row: int, message: Message, reply: Reply) -> None:
    """What is asked for: running sequences first, then those that come back, then new ones; look-ahead from the rest."""
    for handle in message.look_again.tolist():
        if state.sequences.is_owned(handle, row):
            reply.looked_again.append(look_again(state, row, handle & SLOT_MASK, reply.tables))
        else:
            reply.stale.append(handle)
    reserve(state, row, message.reservations, reply)
    for handle in message.swap_in.tolist():
        refused = _bring_back(state, row, handle, reply)
        if refused is not None:
            reply.swaps_refused.append(refused)
    for request in message.admissions:
        reply.admitted.append(_admit(state, row, request, reply))
    look_ahead(state, row, message.reservations, reply)
    if message.demote:
        demote(state, row, message.demote)
    if state.draining:
        reply.tables += move_below(state, row)


def _bring_back(state: PoolState, row: int, handle: int, reply: Reply) -> Swapped | None:
    slot = handle & SLOT_MASK
    if state.sequences.is_owned(handle, row) and state.sequences.residency.get(slot) == Residency.RELEASED:
        return come_back(state, row, handle, slot, reply)
    return swap_in(state, row, handle, reply.tables)


def _admit(state: PoolState, row: int, request: Admission, reply: Reply) -> Admitted:
    if state.executors.drain.get(row):
        return Admitted(request.uuid, refusal=Refusal.DRAINING)
    answer = admit(state, row, request, reply.tables)
    if answer.refusal != Refusal.NONE:
        name = state.executors.name_of(row)
        state.events.add(Event(EventKind.REFUSED, uuid=request.uuid, executor=name, detail=answer.refusal.name.lower()))
    return answer


def _pass_on_wishes(state: PoolState, row: int, reply: Reply) -> None:
    """What others want of this executor goes into its reply; its rows change only by its own messages."""
    seqs = state.sequences
    wishes = state.wishes.get(row)
    reply.drain = bool(state.executors.drain.get(row) or state.columns["pool.drain"].get(0))
    for handle in sorted(wishes or ()):
        slot = handle & SLOT_MASK
        if seqs.handle(slot) != handle:
            continue
        if seqs.cancel.get(slot):
            reply.cancel.append(handle)
        if seqs.final.get(slot) >= 0:
            reply.final_lengths.append((handle, seqs.final.get(slot)))
    if wishes:
        del state.wishes[row]

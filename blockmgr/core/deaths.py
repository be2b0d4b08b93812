"""An executor is proven dead, or a step of its has failed; and a successor takes over what it left.

Nothing of an executor moves before its processes are proven dead: until then it may still write. Then its tables are cut
to what completed steps have written, and its sequences wait, whole, to be adopted.
"""

from blockmgr.core.events import Event, EventKind
from blockmgr.core.filling import unfill
from blockmgr.core.messages import Adopted
from blockmgr.core.release import cut, finish
from blockmgr.core.state import PoolState
from blockmgr.core.states import ExecutorState, FinishReason, Residency, SequenceState

SUSPECT_AFTER = 2
"""Deaths without progress after which a sequence is to run alone."""


def fence(state: PoolState, row: int, why: str) -> None:
    """Revoke an executor's epoch: its messages are refused from now on. Nothing of it moves until it is proven dead."""
    if state.executors.state.get(row) in (ExecutorState.STARTING, ExecutorState.LIVE):
        state.executors.state.put(row, ExecutorState.FENCING)
        state.events.add(Event(EventKind.EXECUTOR_FENCED, executor=state.executors.name_of(row), detail=why))


def bury(state: PoolState, row: int) -> None:
    """Every process of an executor is proven dead: void its unfinished work and let its sequences be adopted."""
    executors = state.executors
    if executors.state.get(row) in (ExecutorState.EMPTY, ExecutorState.DEAD):
        return
    executors.state.put(row, ExecutorState.DEAD)
    executors.orphaned.put(row, int(state.clock.now() * 1e6))
    state.events.add(Event(EventKind.EXECUTOR_DEAD, executor=executors.name_of(row)))
    state.blocks.fences.bury(row)
    _give_up_tickets(state, row)
    _keep_last_token_to_feed(state, row)
    void_unfinished(state, row)
    solo = executors.solo.get(row)
    for slot in sorted(state.sequences.by_owner.get(row, set())):
        if solo and state.sequences.handle(slot) == solo:
            finish(state, slot, FinishReason.INTERNAL)
        else:
            _orphan(state, slot, blame=not solo)
    state.blocks.open_fences()
    forget_if_empty(state, row)


def _give_up_tickets(state: PoolState, row: int) -> None:
    """Copies of a dead executor will never be reported. Tables name the sources still, so nothing else changes."""
    tickets, seqs = state.tickets, state.sequences
    for destination in sorted(tickets.rows):
        if tickets.executor.get(destination) == row:
            slot = seqs.find(tickets.handle.get(destination)) if tickets.index.get(destination) >= 0 else -1
            tickets.abandon(destination, slot)


def _keep_last_token_to_feed(state: PoolState, row: int) -> None:
    """An heir feeds the last recorded token again. Its position counts as not computed, so that its block, which may be
    sealed and shared by now, is copied before it is written again.
    """
    for slot in state.sequences.by_owner.get(row, ()):
        state.sequences.computed.put(slot, state.sequences.resume(slot))


def void_unfinished(state: PoolState, row: int) -> list[int]:
    """Cut every table of an executor to what is computed. Returns its slots."""
    unfill(state.blocks, row)
    slots = sorted(state.sequences.by_owner.get(row, set()))
    for slot in slots:
        cut(state, slot)
        _settle_residency(state, slot)
    return slots


def _settle_residency(state: PoolState, slot: int) -> None:
    """A half-done swap is taken up again from where its copies were done: anything on the host means it must come back.

    One that is away stays so, with or without blocks: only its owner lets it come back.
    """
    seqs = state.sequences
    if slot in state.tickets.of_slot or seqs.residency.get(slot) in (Residency.RELEASED, Residency.HOST):
        return
    away = (seqs.entries(slot) >= state.geometry.host_base).any()
    seqs.reside(slot, Residency.HOST if away else Residency.DEVICE)


def _orphan(state: PoolState, slot: int, blame: bool) -> None:
    """Count the death against the sequence if it has made no progress since the last one, a computed position of its
    prompt included. No ``blame``: another one ran alone. That, or being away from the device, it neither was the cause
    nor could make progress.
    """
    seqs = state.sequences
    if blame and seqs.residency.get(slot) == Residency.DEVICE:
        progress = seqs.count.get(slot) + seqs.computed.get(slot)
        before = seqs.deaths.get(slot) if seqs.death_count.get(slot) == progress else 0
        seqs.deaths.put(slot, before + 1)
        seqs.death_count.put(slot, progress)
    seqs.state.put(slot, SequenceState.ORPHANED)
    state.note(EventKind.ORPHANED, slot)


def forget_if_empty(state: PoolState, row: int) -> None:
    """A dead registration that owns nothing any more leaves its row."""
    if state.executors.state.get(row) == ExecutorState.DEAD and not state.sequences.by_owner.get(row):
        state.executors.vacate(row)


def gather(state: PoolState) -> None:
    """Of the dead registrations under one name let only the last keep its row, with the sequences of all of them.

    Their handles stay: nobody speaks for a dead registration, so no two can be confused.
    """
    executors, seqs = state.executors, state.sequences
    dead = [row for row in executors.rows() if executors.state.get(row) == ExecutorState.DEAD]
    last: dict[bytes, int] = {}
    for row in sorted(dead, key=executors.epoch.get, reverse=True):
        keeper = last.setdefault(executors.name.key(row), row)
        if keeper != row:
            for slot in seqs.by_owner.pop(row, set()):
                seqs.own(slot, keeper, executors.epoch.get(keeper))
            executors.vacate(row)


def adopt(state: PoolState, heir: int, dead: list[int]) -> list[Adopted]:
    """Give every sequence of the dead registrations to ``heir``, all in one transaction. Old handles are stale then.

    Those that the heir has already are listed too, without a previous handle: so the question may be repeated.
    """
    seqs, epoch = state.sequences, state.executors.epoch.get(heir)
    adopted = [_as_adopted(state, slot, 0) for slot in sorted(seqs.by_owner.get(heir, set()))]
    for row in dead:
        for slot in sorted(seqs.by_owner.get(row, set())):
            previous = seqs.handle(slot)
            seqs.pass_on(slot, heir, epoch)
            seqs.state.put(slot, SequenceState.LIVE)
            state.note(EventKind.ADOPTED, slot)
            adopted.append(_as_adopted(state, slot, previous))
        forget_if_empty(state, row)
    return adopted


def _as_adopted(state: PoolState, slot: int, previous: int) -> Adopted:
    seqs = state.sequences
    suspect = seqs.deaths.get(slot) >= SUSPECT_AFTER
    return Adopted(seqs.handle(slot), previous, seqs.resume(slot), seqs.count.get(slot), suspect)


def end_orphans(state: PoolState, row: int, at_most: int) -> int:
    """Nobody adopted in time: the dead executor's sequences end UNAVAILABLE. Their sealed blocks stay cached.

    Returns how many ended now; fewer than ``at_most`` means that none is left.
    """
    slots = sorted(state.sequences.by_owner.get(row, set()))[:at_most]
    for slot in slots:
        finish(state, slot, FinishReason.UNAVAILABLE)
    forget_if_empty(state, row)
    return len(slots)

"""What an executor reports of its work: steps launched and completed, and tokens sampled."""

import numpy as np

from blockmgr.core.columns import Indexes
from blockmgr.core.errors import InvalidMessage
from blockmgr.core.handles import Named
from blockmgr.core.messages import Appends, Message, Progress, Reply
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState, Residency

OWNED = int(BlockState.OWNED)
"""A plain number: looking a member up in its enum costs more than comparing an array with it."""


def take_steps(state: PoolState, row: int, message: Message) -> None:
    """Note the last step launched and completed; a report that takes back an earlier one is refused."""
    executors = state.executors
    for name, column in (("launched_step", executors.launched), ("completed_step", executors.completed)):
        value, before = getattr(message, name), column.get(row)
        if value is None or value == before:
            continue
        if value < before:
            raise InvalidMessage(name, value, f"{before} was reported before")
        column.put(row, value)
    launched, completed = executors.launched.get(row), executors.completed.get(row)
    if completed > launched:
        raise InvalidMessage("completed_step", completed, f"only {launched} is launched")
    if message.solo != executors.solo.get(row):
        executors.solo.put(row, message.solo)


def take_progress(state: PoolState, row: int, progress: Progress, reply: Reply) -> Named | None:
    """Note how far each sequence's KV has come. Returns the sequences concerned."""
    if not len(progress.handles):
        return None
    seqs = state.sequences
    named = seqs.named(progress.handles, row)
    reply.stale += named.stale
    slots, launched, computed = named.slots, named.pick(progress.launched), named.pick(progress.computed)
    before = seqs.launched.flat[slots]
    room = seqs.blocks.flat[slots] * state.geometry.tokens_per_block
    if np.count_nonzero((launched < before) | (launched > room) | (computed > launched)):
        _refuse("progress.launched", launched, launched < before, "was reported before", before)
        _refuse("progress.launched", launched, launched > room, "is what the table has room for", room)
        _refuse("progress.computed", computed, computed > launched, "is launched", launched)
    if seqs.away or seqs.doubtful:
        written = launched > before
        _refuse_where_away(state, slots[written], launched[written])
        _refuse_shared_writes(state, named, before, written)
    seqs.launched.scatter(slots, launched)
    # Of hits that were sealed when it got them the pool knows more than the executor.
    seqs.computed.scatter(slots, np.maximum(computed, seqs.computed.flat[slots]))
    return named


def _refuse(field: str, values: Indexes, wrong: np.ndarray, what: str, limits: Indexes) -> None:
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise InvalidMessage(f"{field}[{place}]", int(values[place]), f"{int(limits[place])} {what}")


def _refuse_where_away(state: PoolState, slots: Indexes, launched: Indexes) -> None:
    away = np.flatnonzero(state.sequences.residency.flat[slots] != Residency.DEVICE)
    if len(away):
        place, handle = int(away[0]), state.sequences.handle(int(slots[away[0]]))
        raise InvalidMessage("progress.launched", int(launched[place]), f"sequence {handle} is not back on the device")


def _refuse_shared_writes(state: PoolState, named: Named, positions: Indexes, written: np.ndarray) -> None:
    """A step must not have written into a block that others read, unless it wrote into the copy that was ordered."""
    seqs, blocks = state.sequences, state.blocks
    index = positions // state.geometry.tokens_per_block
    entry = seqs.blocks_at(named.table + index)
    odd = written & ((blocks.refs.flat[entry] != 1) | (blocks.state.flat[entry] != OWNED))
    # Who writes into a block of its own has only blocks of its own behind it.
    seqs.doubtful.difference_update(named.slots[written & ~odd].tolist())
    for place in np.flatnonzero(odd).tolist():
        slot = int(named.slots[place])
        if int(index[place]) not in state.tickets.of_slot.get(slot, {}) and not state.tickets.may_write(
            int(entry[place])
        ):
            handle = int(named.handles[place])
            raise InvalidMessage(
                "progress.launched", int(positions[place]), f"sequence {handle} shares that block: reserve first"
            )


def take_appends(state: PoolState, row: int, appends: Appends, reply: Reply) -> Named | None:
    """Record tokens. Returns the sequences concerned."""
    if not len(appends.handles):
        return None
    seqs = state.sequences
    named = seqs.named(appends.handles, row)
    reply.stale += named.stale
    slots, starts = named.slots, appends.starts
    if _are_next(state, named, appends):
        seqs.tokens.scatter(named.tokens + starts, appends.ids)
        if appends.logprobs is not None:
            seqs.logprobs.scatter(named.tokens + starts, appends.logprobs)
        seqs.count.scatter(slots, starts + 1)
        state.counts.output_tokens += len(slots)
    else:
        _append_each(state, named, appends)
    return named


def _are_next(state: PoolState, named: Named, appends: Appends) -> bool:
    """Whether each sequence appears once with just its next token: the common case, done with whole arrays."""
    starts = appends.starts
    return (
        named.mine is None
        and named.once
        and len(appends.ids) == len(starts)
        and not np.count_nonzero(starts != state.sequences.count.flat[named.slots])
        and int(starts.max()) < state.geometry.max_length
    )


def _append_each(state: PoolState, named: Named, appends: Appends) -> None:
    """One run of tokens at a time, each checked against what is recorded already."""
    seqs, limit, at = state.sequences, state.geometry.max_length, 0
    counts, slots = appends.counts.tolist() or [1] * len(appends.starts), iter(named.slots.tolist())
    for place, (start, count) in enumerate(zip(appends.starts.tolist(), counts, strict=True)):
        ids = appends.ids[at : at + count].astype(np.int32)
        logprobs = None if appends.logprobs is None else appends.logprobs[at : at + count]
        at += count
        if named.mine is not None and not named.mine[place]:
            continue
        slot = next(slots)
        have = seqs.count.get(slot)
        if not seqs.prompt.get(slot) <= start <= have:
            low = seqs.prompt.get(slot)
            raise InvalidMessage(f"appends.starts[{place}]", start, f"{low}..{have} can be appended to")
        if start + count > limit:
            raise InvalidMessage(f"appends.counts[{place}]", count, f"a sequence has at most {limit} tokens")
        known = seqs.tokens.row(slot)[start : min(start + count, have)]
        if not np.array_equal(known, ids[: len(known)]):
            raise InvalidMessage(
                f"appends.ids of run {place}", ids.tolist()[:8], f"{known.tolist()[:8]} is recorded there"
            )
        new = ids[len(known) :]
        if len(new):
            seqs.tokens.write(slot, have, new)
            seqs.count.put(slot, have + len(new))
            state.counts.output_tokens += len(new)
            if logprobs is not None:
                seqs.logprobs.write(slot, have, logprobs[len(known) :].astype(np.float32))

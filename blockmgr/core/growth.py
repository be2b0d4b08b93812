"""Tables grow: blocks for the tokens to come, and a block of its own for whoever writes into a shared one.

The common case, one block more for a few of many sequences, is done with whole arrays; so a step costs what it changes.
"""

import numpy as np

from blockmgr.core.columns import Indexes
from blockmgr.core.copying import order_copy
from blockmgr.core.errors import InvalidMessage
from blockmgr.core.events import EventKind
from blockmgr.core.geometry import SLOT_MASK
from blockmgr.core.messages import Reply, Reservations, TableUpdate
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState, Residency, TicketKind


def reserve(state: PoolState, row: int, wanted: Reservations, reply: Reply) -> None:
    """Make tables long enough, in the order given. A sequence that cannot be served whole gets nothing and is short."""
    if not len(wanted.handles):
        return
    limit = state.geometry.max_length
    _within("reservations.lengths", wanted.lengths, limit)
    mine = state.sequences.owned(wanted.handles, row)
    reply.stale.extend(wanted.handles[~mine].tolist())
    slots = wanted.handles[mine] & SLOT_MASK
    lengths = wanted.lengths[mine]
    away = state.sequences.residency.flat[slots] != Residency.DEVICE
    if away.any():
        reply.short.extend(wanted.handles[mine][away].tolist())
        slots, lengths = slots[~away], lengths[~away]
    shared = _writes_into_shared(state, slots, lengths)
    missing = np.maximum(-(-lengths // state.geometry.tokens_per_block) - state.sequences.blocks.flat[slots], 0)
    if shared.any():
        _copy_and_grow(state, row, slots, missing, shared, reply)
    else:
        _grow(state, slots, missing, reply)


def look_ahead(state: PoolState, row: int, wanted: Reservations, reply: Reply) -> None:
    """Blocks beyond what was asked for, as far as they are to be had: whole blocks, and nobody is short for want of them."""
    if not wanted.look_ahead.any():
        return
    mine = state.sequences.owned(wanted.handles, row) & ~np.isin(wanted.handles, reply.short)
    slots = wanted.handles[mine] & SLOT_MASK
    mine_lengths = np.minimum(wanted.lengths[mine] + wanted.look_ahead[mine], state.geometry.max_length)
    missing = np.maximum(-(-mine_lengths // state.geometry.tokens_per_block) - state.sequences.blocks.flat[slots], 0)
    room = state.available()
    _grow(state, slots, np.clip(room - (np.cumsum(missing) - missing), 0, missing), reply)


def _within(field: str, values: Indexes, limit: int) -> None:
    if len(values) and not (int(values.min()) >= 0 and int(values.max()) <= limit):
        wrong = values[(values < 0) | (values > limit)][0]
        raise InvalidMessage(field, int(wrong), f"must lie in 0..{limit}")


def _writes_into_shared(state: PoolState, slots: Indexes, lengths: Indexes) -> np.ndarray:
    """Which sequences are about to write where they may not: into a block that others name too, or an immutable one.

    Only the block of the next position can be either: what lies behind it was taken for this sequence alone.
    """
    seqs, blocks = state.sequences, state.blocks
    launched = seqs.launched.flat[slots]
    index = launched // state.geometry.tokens_per_block
    inside = (index < seqs.blocks.flat[slots]) & (lengths > launched)
    entry = seqs.table.flat[slots * seqs.table.stride + np.where(inside, index, 0)]
    return inside & ((blocks.refs.flat[entry] > 1) | (blocks.state.flat[entry] != BlockState.OWNED))


def _grow(state: PoolState, slots: Indexes, missing: Indexes, reply: Reply) -> None:
    growing = missing > 0
    if not growing.any():
        return
    slots, missing = slots[growing], missing[growing]
    if int(missing.sum()) > state.available():
        slots, missing = _first_come(state, slots, missing, reply)
        if not len(slots):
            return
    seqs = state.sequences
    taken = state.blocks.take(int(missing.sum()))
    have = seqs.blocks.flat[slots]
    starts = np.cumsum(missing) - missing
    offsets = np.arange(len(taken), dtype=np.int64) - np.repeat(starts, missing)
    seqs.table.scatter(np.repeat(slots * seqs.table.stride + have, missing) + offsets, taken)
    seqs.blocks.scatter(slots, have + missing)
    handles = seqs.handles(slots).tolist()
    pieces = np.split(taken, starts[1:])
    reply.tables += [TableUpdate(*update) for update in zip(handles, have.tolist(), pieces, strict=True)]
    state.note_each(EventKind.GREW, slots, handles, [piece.tolist() for piece in pieces])


def _first_come(state: PoolState, slots: Indexes, missing: Indexes, reply: Reply) -> tuple[Indexes, Indexes]:
    """Serve in order while blocks last; a sequence that needs more than is left is short and takes nothing."""
    left, keep = state.available(), []
    for place, (slot, count) in enumerate(zip(slots.tolist(), missing.tolist(), strict=True)):
        if count <= left:
            left -= count
            keep.append(place)
        else:
            reply.short.append(state.sequences.handle(slot))
            state.note(EventKind.SHORT, slot, detail=f"needed={count} available={left}")
    return slots[keep], missing[keep]


def _copy_and_grow(
    state: PoolState, row: int, slots: Indexes, missing: Indexes, shared: np.ndarray, reply: Reply
) -> None:
    """One sequence at a time: its copy and its new blocks together, or neither.

    The last of several sharers writes in place: the references that leave by a ticket do not count.
    """
    size, seqs = state.geometry.tokens_per_block, state.sequences
    for slot, count, is_shared in zip(slots.tolist(), missing.tolist(), shared.tolist(), strict=True):
        index = seqs.launched.get(slot) // size
        copy = is_shared and index not in state.tickets.of_slot.get(slot, {})
        block = seqs.table.get(slot * seqs.table.stride + index) if copy else 0
        copy = copy and not state.tickets.may_write(block)
        needed = count + copy
        if needed > state.available():
            reply.short.append(seqs.handle(slot))
            state.note(EventKind.SHORT, slot, detail=f"needed={needed} available={state.available()}")
            continue
        if copy:
            order_copy(state, row, slot, index, block, TicketKind.COPY_ON_WRITE)
        _grow(state, np.array([slot], dtype=np.int64), np.array([count], dtype=np.int64), reply)

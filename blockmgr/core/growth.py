"""Tables grow: blocks for the tokens to come, and a block of its own for whoever writes into a shared one.

The common case, one block more for a few of many sequences, is done with whole arrays; so a step costs what it changes.
"""

from itertools import accumulate

import numpy as np

from blockmgr.core.columns import Indexes
from blockmgr.core.copying import order_copy
from blockmgr.core.errors import InvalidMessage
from blockmgr.core.events import EventKind
from blockmgr.core.form import outside
from blockmgr.core.handles import Named
from blockmgr.core.messages import Reply, Reservations, TableUpdate
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState, Residency, TicketKind

OWNED, DEVICE = int(BlockState.OWNED), int(Residency.DEVICE)
"""Plain numbers: looking a member up in its enum costs more than comparing an array with it."""


def reserve(state: PoolState, row: int, wanted: Reservations, reply: Reply) -> None:
    """Make tables long enough, in the order given. A sequence that cannot be served whole gets nothing and is short.

    Raises ``InvalidMessage`` if a table is to grow twice.
    """
    if not len(wanted.handles):
        return
    wrong = outside(wanted.lengths, state.geometry.max_length)
    if len(wrong):
        raise InvalidMessage("reservations.lengths", int(wrong[0]), f"must lie in 0..{state.geometry.max_length}")
    named = state.sequences.named(wanted.handles, row)
    if not named.once:
        raise InvalidMessage("reservations.handles", "a list with repetitions", "each may be named once")
    reply.stale += named.stale
    lengths = named.pick(wanted.lengths)
    missing = _missing(state, named, lengths)
    seqs = state.sequences
    if seqs.doubtful or seqs.away:
        unready = _writes_into_shared(state, named, lengths) | (seqs.residency.flat[named.slots] != DEVICE)
        if np.count_nonzero(unready):
            _make_ready_and_grow(state, row, named, missing, unready, reply)
            return
    _grow(state, named, missing, reply)


def look_ahead(state: PoolState, row: int, wanted: Reservations, reply: Reply) -> None:
    """Blocks beyond what was asked for, as far as they are to be had: whole blocks, and nobody is short for want of them."""
    if not np.count_nonzero(wanted.look_ahead):
        return
    named = state.sequences.named(wanted.handles, row)
    lengths = named.pick(wanted.lengths) + named.pick(wanted.look_ahead)
    missing = _missing(state, named, np.minimum(lengths, state.geometry.max_length))
    if reply.short:
        missing[np.isin(named.handles, reply.short)] = 0
    _grow(state, named, missing, reply, whole=False)


def _missing(state: PoolState, named: Named, lengths: Indexes) -> Indexes:
    """Blocks that each table lacks to hold so many tokens."""
    size = state.geometry.tokens_per_block
    return np.maximum((lengths + (size - 1)) // size - state.sequences.blocks.flat[named.slots], 0)


def _writes_into_shared(state: PoolState, named: Named, lengths: Indexes) -> np.ndarray:
    """Which sequences are about to write where they may not: into a block that others name too, or an immutable one.

    Only the block of the next position can be either: what lies behind it was taken for this sequence alone.
    """
    seqs, blocks = state.sequences, state.blocks
    launched = seqs.launched.flat[named.slots]
    index = launched // state.geometry.tokens_per_block
    inside = (index < seqs.blocks.flat[named.slots]) & (lengths > launched)
    entry = seqs.blocks_at(named.table + index * inside)
    return inside & ((blocks.refs.flat[entry] > 1) | (blocks.state.flat[entry] != OWNED))


def _grow(state: PoolState, named: Named, missing: Indexes, reply: Reply, whole: bool = True) -> None:
    """Give each sequence as many blocks as it misses, in order while there are any.

    ``whole``: who needs more than is left is short and takes nothing. Otherwise it takes what is left.
    """
    places = missing.nonzero()[0]
    if not len(places):
        return
    missing = missing[places]
    counts: list[int] = missing.tolist()
    total = sum(counts)
    if total > state.available():
        if whole:
            missing = _first_come(state, named, places, counts, reply)
        else:
            missing = np.clip(state.available() - (np.cumsum(missing) - missing), 0, missing)
        places, missing = places[missing > 0], missing[missing > 0]
        counts = missing.tolist()
        total = sum(counts)
        if not total:
            return
    seqs = state.sequences
    slots, handles = named.slots[places], named.handles[places].tolist()
    taken, have = state.blocks.take(total), seqs.blocks.flat[slots]
    entries = named.table[places] + have
    if total > len(places):
        behind = np.arange(total) - np.repeat(np.cumsum(missing) - missing, missing)
        entries = np.repeat(entries, missing) + behind
    seqs.table.scatter(entries, taken)
    seqs.blocks.scatter(slots, have + missing)
    pieces = [slice(end - count, end) for end, count in zip(accumulate(counts), counts, strict=True)]
    reply.tables += map(TableUpdate, handles, have.tolist(), [taken[piece] for piece in pieces])
    numbers: tuple[int, ...] = tuple(taken.tolist())
    state.note_each(EventKind.GREW, slots, handles, [numbers[piece] for piece in pieces])


def _first_come(state: PoolState, named: Named, places: Indexes, counts: list[int], reply: Reply) -> Indexes:
    """What each of the sequences at these places of the list is given, all that it misses or nothing."""
    left, given = state.available(), []
    for place, count in zip(places.tolist(), counts, strict=True):
        if count <= left:
            left -= count
            given.append(count)
        else:
            given.append(0)
            reply.short.append(int(named.handles[place]))
            state.note(EventKind.SHORT, int(named.slots[place]), detail=f"needed={count} available={left}")
    return np.array(given, dtype=np.int64)


def _make_ready_and_grow(
    state: PoolState, row: int, named: Named, missing: Indexes, unready: np.ndarray, reply: Reply
) -> None:
    """One sequence at a time: its copy and its new blocks together, or neither; one that is away from the device is short.

    The last of several sharers writes in place: the references that leave by a ticket do not count.
    """
    size, seqs = state.geometry.tokens_per_block, state.sequences
    for place, slot in enumerate(named.slots.tolist()):
        if slot in seqs.away:
            reply.short.append(int(named.handles[place]))
            continue
        index, count = seqs.launched.get(slot) // size, int(missing[place])
        copy = bool(unready[place]) and index not in state.tickets.of_slot.get(slot, {})
        block = seqs.table.get(slot * seqs.table.stride + index) if copy else 0
        copy = copy and not state.tickets.may_write(block)
        needed = count + copy
        if needed > state.available():
            reply.short.append(int(named.handles[place]))
            state.note(EventKind.SHORT, slot, detail=f"needed={needed} available={state.available()}")
            continue
        if copy:
            order_copy(state, row, slot, index, block, TicketKind.COPY_ON_WRITE)
        alone = np.zeros_like(missing)
        alone[place] = count
        _grow(state, named, alone, reply)

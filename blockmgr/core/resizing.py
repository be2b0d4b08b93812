"""The pool grows and shrinks while it serves.

Growing makes ABSENT blocks FREE. Shrinking lowers the capacity at once: nothing beyond it is handed out any more, what is
free or cached there goes, and what sequences still name is moved below, block by block, by copies ordered from the
executors that own the sequences.
"""

import numpy as np

from blockmgr.core.copying import order_copy
from blockmgr.core.errors import InvalidMessage, Precondition
from blockmgr.core.events import Event, EventKind
from blockmgr.core.messages import TableUpdate
from blockmgr.core.pins import Pins
from blockmgr.core.state import PoolState, one
from blockmgr.core.states import BlockState, Residency, TicketKind


def resize(state: PoolState, pins: Pins, capacity: int) -> int:
    """Set the number of device blocks, the null block included. Returns how many beyond it are still in use.

    Raises ``InvalidMessage`` outside what the pool was made for, ``Precondition`` if a pin stands in the way.
    """
    limit = state.geometry.max_device_blocks
    if not 2 <= capacity <= limit:
        raise InvalidMessage("blocks", capacity, f"must lie in 2..{limit}, the null block included")
    pinned = [block for block in pins.blocks() if capacity <= block < limit]
    if pinned:
        raise Precondition(f"blocks {pinned[:8]} are pinned and lie beyond the new size {capacity}: unpin them first")
    before = state.capacity
    state.columns["pool.capacity"].put(0, capacity)
    if capacity > before:
        _grow(state, before, capacity)
    elif capacity < before:
        _shrink(state, capacity)
    state.events.add(Event(EventKind.RESIZED, detail=f"from={before} to={capacity}"))
    left = in_use_beyond(state)
    state.draining = left > 0
    return left


def _grow(state: PoolState, before: int, capacity: int) -> None:
    new = np.arange(before, capacity, dtype=np.int64)
    new = new[state.blocks.state.flat[new] == BlockState.ABSENT]
    if len(new):
        state.blocks.state.scatter(new, BlockState.FENCED)
        state.blocks.settle(new[::-1].copy())


def _shrink(state: PoolState, capacity: int) -> None:
    free, cached = state.blocks.tier(host=False).shrink(capacity)
    state.blocks.retire(free, cached)


def in_use_beyond(state: PoolState) -> int:
    """Blocks beyond the capacity that something still uses; when there are none, their memory may be given back."""
    beyond = state.blocks.state.flat[state.capacity : state.geometry.host_base]
    return int(np.count_nonzero(beyond != BlockState.ABSENT))


def move_below(state: PoolState, row: int) -> list[TableUpdate]:
    """Order moves for an executor's sequences, and name what others have moved already. Called while a shrink drains."""
    updates = []
    for slot in sorted(state.sequences.by_owner.get(row, set())):
        if state.sequences.residency.get(slot) == Residency.DEVICE:
            updates += _move_sequence(state, row, slot)
    state.moved = {source: to for source, to in state.moved.items() if state.blocks.refs.get(source)}
    state.draining = in_use_beyond(state) > 0
    return updates


def _move_sequence(state: PoolState, row: int, slot: int) -> list[TableUpdate]:
    seqs, blocks = state.sequences, state.blocks
    entries, updates = seqs.entries(slot), []
    beyond = np.flatnonzero((entries >= state.capacity) & (entries < state.geometry.host_base))
    for index in beyond.tolist():
        source = int(entries[index])
        moved = _moved(state, source)
        if index in state.tickets.of_slot.get(slot, {}) or blocks.state.get(source) == BlockState.FILLING:
            continue
        if moved is not None:
            blocks.reference(one(moved))
            seqs.table.put(slot * seqs.table.stride + index, moved)
            blocks.unreference(one(source))
            updates.append(TableUpdate(seqs.handle(slot), index, seqs.entries(slot)[index:]))
        elif source not in state.tickets.leaving and state.available():
            order_copy(state, row, slot, index, source, TicketKind.MOVE)
    return updates


def _moved(state: PoolState, source: int) -> int | None:
    """Where a block's content was moved for another of its sharers, if it is there still."""
    destination, generation = state.moved.get(source, (0, 0))
    blocks = state.blocks
    complete = blocks.state.get(destination) in (BlockState.SEALED, BlockState.CACHED)
    return destination if complete and blocks.generation.get(destination) == generation else None

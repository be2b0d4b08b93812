"""Which blocks of a sequence are full and known by now: their last position is launched, and all their tokens recorded."""

import numpy as np

from blockmgr.core.columns import Indexes
from blockmgr.core.filling import FullBlocks, as_elements, fill, seal
from blockmgr.core.prefix import chain_of, hash_each
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState, SequenceFlags

# Plain numbers: looking a member up in its enum costs more than most of what is done with it here.
FILLING, OWNED, NO_STORE = int(BlockState.FILLING), int(BlockState.OWNED), int(SequenceFlags.NO_STORE)


def publish(state: PoolState, row: int, slots: Indexes) -> None:
    """Blocks of these sequences (none twice) that are full now and were not before become FILLING.

    Decoding sequences fill one block each and are done together, others one by one.
    """
    if not len(slots):
        return
    seqs, size = state.sequences, state.geometry.tokens_per_block
    full = np.minimum(seqs.launched.flat[slots], seqs.count.flat[slots]) // size
    first = seqs.published.flat[slots]
    fuller = (full > first).nonzero()[0]
    if not len(fuller):
        return
    slots, first, full = slots[fuller], first[fuller], full[fuller]
    alone = full - first == 1
    if seqs.chains or state.tickets.of_slot:
        alone &= [slot not in seqs.chains and slot not in state.tickets.of_slot for slot in slots.tolist()]
    step = state.executors.launched.get(row)
    if np.count_nonzero(alone) < len(slots):
        for place in (~alone).nonzero()[0].tolist():
            slot, last = int(slots[place]), int(full[place])
            fill(state.blocks, _run(state, slot, int(first[place]), _before_copies(state, slot, last)), row, step)
        slots, first = slots[alone], first[alone]
    if len(slots):
        fill(state.blocks, _singles(state, slots, first), row, step)


def _singles(state: PoolState, slots: Indexes, first: Indexes) -> FullBlocks:
    """Hash one block of each sequence, the one at table entry ``first``."""
    seqs, blocks, size = state.sequences, state.blocks, state.geometry.tokens_per_block
    entry = slots * seqs.table.stride + first
    # Before a table's first entry stands another one's last, or the column's: any block will do there.
    parents = blocks.hash.flat[seqs.blocks_at(entry - 1)]
    if not first.all():
        at_root = (first == 0).nonzero()[0]
        parents[at_root] = seqs.root.flat[slots[at_root]]
    tokens = seqs.runs[slots * seqs.tokens.stride + first * size]
    keys = hash_each(parents.tobytes(), tokens)
    stored = (seqs.flags.flat[slots] & NO_STORE == 0).tolist()
    seqs.published.scatter(slots, first + 1)
    entries = seqs.blocks_at(entry)
    # A fork or a beam may share its block with a sibling that has published it already.
    return FullBlocks(entries, keys, parents, tokens, stored).only(blocks.state.flat[entries] == OWNED)


def _before_copies(state: PoolState, slot: int, end: int) -> int:
    """A block whose copy is still ordered waits: until then the table names what others wrote."""
    return min(end, *state.tickets.of_slot.get(slot, (end,)), end)


def _run(state: PoolState, slot: int, first: int, last: int) -> FullBlocks:
    """Hash blocks ``first`` to ``last`` of a table."""
    seqs, size = state.sequences, state.geometry.tokens_per_block
    last = max(first, last)
    start = slot * seqs.table.stride
    entries = seqs.table.flat[start + first : start + last].astype(np.int64)
    parent = state.blocks.hash.key(seqs.table.get(start + first - 1)) if first else seqs.root.key(slot)
    tokens = seqs.tokens.row(slot, last * size)[first * size :]
    known = seqs.chains.get(slot, ())[first:last]
    keys = list(known) if len(known) == last - first else chain_of(parent, tokens, size)
    seqs.published.put(slot, last)
    if (last + 1) * size > seqs.prompt.get(slot):
        seqs.chains.pop(slot, None)
    stored = [not seqs.flags.get(slot) & NO_STORE] * len(keys)
    parents = as_elements([parent, *keys[:-1]][: len(keys)])
    # A fork or a beam may share the run's head with a sibling that has published it already.
    return FullBlocks(entries, keys, parents, tokens.reshape(-1, size), stored).only(
        state.blocks.state.flat[entries] == OWNED
    )


def seal_computed(state: PoolState, row: int, slots: Indexes) -> None:
    """Seal what these sequences report computed, looking only at those whose last computed block is still filling."""
    filling = state.blocks.filling.get(row)
    if not filling or not len(slots):
        return
    seqs, table = state.sequences, state.sequences.table
    done = np.minimum(seqs.computed.flat[slots] // state.geometry.tokens_per_block, seqs.published.flat[slots])
    last = slots * table.stride + np.maximum(done - 1, 0)
    behind = np.flatnonzero((state.blocks.state.flat[table.flat[last]] == FILLING) & (done > 0))
    ready = set()
    for place, upto in zip(last[behind].tolist(), done[behind].tolist(), strict=True):
        while upto and (block := table.get(place)) in filling:
            ready.add(block)
            upto, place = upto - 1, place - 1
    if ready:
        seal(state.blocks, row, sorted(ready))

"""From columns alone back to a whole pool: what a manager does that starts on a ledger, and what undoes a failed message.

Block tables are the truth. Counts, free lists, index and holds are rebuilt from them; where a column says otherwise, the
ledger is corrupt, and that is said rather than mended.
"""

import numpy as np

from blockmgr.core.admission import expect_rest
from blockmgr.core.columns import Columns
from blockmgr.core.errors import LedgerCorrupt
from blockmgr.core.geometry import slot_of
from blockmgr.core.pins import Pins
from blockmgr.core.prefix import chain_of
from blockmgr.core.resizing import in_use_beyond
from blockmgr.core.sequences import NOBODY
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState, ExecutorState, Residency, SequenceState


def rebuild(state: PoolState, pins: Pins, unheard: set[int] | None = None) -> None:
    """Derive everything anew, for a manager that starts or (``unheard`` given) to undo a transaction.

    Executors may have launched steps since an earlier manager heard of them: after a start no block is given out before
    each has reported. ``unheard`` are the rows of those that had not when the transaction began.
    """
    state.blocks.reset()
    state.sequences.reset()
    state.tickets.reset()
    state.archive.reset()
    state.moved = {}
    _rebuild_slots(state)
    _check_counts(state)
    _rebuild_holds(state, pins)
    _rebuild_index(state)
    if unheard is None:
        _quarantine(state)
    else:
        _close_fences_again(state, unheard)
    _rebuild_reuse(state)
    if unheard is None:
        # Without anybody to wait for, what was fenced is free.
        state.blocks.settle(np.flatnonzero(state.blocks.state.flat == BlockState.FENCED))
    _rebuild_expected(state)
    state.draining = in_use_beyond(state) > 0


def _rebuild_slots(state: PoolState) -> None:
    seqs = state.sequences
    live = set(seqs.live())
    seqs.free = [slot for slot in range(seqs.slots) if slot not in live]
    seqs.doubtful = set(live)
    for slot in live:
        seqs.by_uuid[seqs.uuid.key(slot)] = slot
        caller = seqs.caller.key(slot)
        if any(caller):
            seqs.by_caller[caller] = slot
        seqs.by_owner.setdefault(seqs.owner.get(slot), set()).add(slot)
        if seqs.residency.get(slot) != Residency.DEVICE:
            seqs.away.add(slot)
        if seqs.cancel.get(slot) or seqs.final.get(slot) >= 0:
            state.wishes.setdefault(seqs.owner.get(slot), set()).add(seqs.handle(slot))


def counted_refs(state: PoolState) -> np.ndarray:
    """References of every block, counted from the tables."""
    counts = np.zeros(state.geometry.total_blocks, dtype=np.int64)
    for slot in state.sequences.live():
        np.add.at(counts, state.sequences.entries(slot), 1)
    return counts


def _check_counts(state: PoolState) -> None:
    counts = counted_refs(state)
    wrong = np.flatnonzero(counts != state.blocks.refs.flat)
    if len(wrong):
        block = int(wrong[0])
        have, want = state.blocks.refs.get(block), int(counts[block])
        raise LedgerCorrupt(
            f"block {block} has the count {have}, but {want} table entries name it ({len(wrong)} such blocks)"
        )


def _rebuild_holds(state: PoolState, pins: Pins) -> None:
    tickets = state.tickets
    for destination in np.flatnonzero(tickets.kind.flat).tolist():
        index = tickets.index.get(destination)
        slot = slot_of(tickets.handle.get(destination)) if index >= 0 else -1
        tickets.remember(slot, index, tickets.source.get(destination), destination)
    for block in pins.blocks():
        state.blocks.hold(block)


def _rebuild_index(state: PoolState) -> None:
    blocks = state.blocks
    for block in np.flatnonzero(blocks.indexed.flat).tolist():
        blocks.index.tier(state.geometry.is_host(block))[blocks.hash.key(block)] = block
    for block in np.flatnonzero(blocks.state.flat == BlockState.FILLING).tolist():
        blocks.filling.setdefault(blocks.filler.get(block), {})[block] = blocks.step.get(block)


def _quarantine(state: PoolState) -> None:
    """Every block without a reference waits for word of each executor that may have launched something since.

    Blocks filling without a reference wait too: once they are sealed, a step later than the one that fills them may still
    read them. Oldest first, so that the orders of reuse are what they were.
    """
    blocks, executors = state.blocks, state.executors
    blocks.fence.scatter(np.flatnonzero(blocks.fence.flat), 0)
    blocks.fences.unheard = {row for row in executors.rows() if _may_have_launched(state, row)}
    if not blocks.fences.unheard:
        return
    unused = (BlockState.FREE, BlockState.CACHED, BlockState.FENCED, BlockState.FILLING)
    loose = np.flatnonzero(np.isin(blocks.state.flat, unused) & (blocks.refs.flat == 0))
    loose = loose[np.lexsort((-loose, blocks.used.flat[loose]))]
    blocks.fence.scatter(loose, blocks.fences.close(loose))
    blocks.state.scatter(loose[blocks.state.flat[loose] == BlockState.FREE], BlockState.FENCED)


def _may_have_launched(state: PoolState, row: int) -> bool:
    """One that is loading has nothing to launch, unless it has adopted sequences already."""
    executor = state.executors.state.get(row)
    return executor in (ExecutorState.LIVE, ExecutorState.FENCING) or (
        executor == ExecutorState.STARTING and bool(state.sequences.by_owner.get(row))
    )


def _close_fences_again(state: PoolState, unheard: set[int]) -> None:
    """Fences that the undone transaction opened or closed are as they were, and wait for all that is launched."""
    blocks = state.blocks
    blocks.fences.unheard = unheard
    fence = blocks.fence.flat
    closed = np.flatnonzero(fence)
    for number in np.unique(fence[closed]).tolist():
        blocks.fences.close_again(number, closed[fence[closed] == number])


def _rebuild_reuse(state: PoolState) -> None:
    """Free lists and orders of eviction, in the order in which their blocks were given."""
    blocks = state.blocks
    quiet = (blocks.refs.flat == 0) & (blocks.fence.flat == 0)
    free = np.flatnonzero(quiet & (blocks.state.flat == BlockState.FREE))
    free = free[np.lexsort((-free, blocks.used.flat[free]))]
    cached = np.flatnonzero(quiet & (blocks.state.flat == BlockState.CACHED))
    cached = cached[np.argsort(blocks.used.flat[cached], kind="stable")]
    for host in (False, True):
        tier = blocks.tier(host)
        tier.give_free(free[(free >= state.geometry.host_base) == host].tolist())
        mine = cached[(cached >= state.geometry.host_base) == host].tolist()
        tier.give_cached(block for block in mine if block not in blocks.holds)


def _rebuild_expected(state: PoolState) -> None:
    seqs, size = state.sequences, state.geometry.tokens_per_block
    for slot in sorted(seqs.live()):
        if seqs.residency.get(slot) not in (Residency.DEVICE, Residency.RETURNING):
            continue
        if seqs.state.get(slot) == SequenceState.LIVE and seqs.computed.get(slot) < seqs.prompt.get(slot):
            prompt = seqs.tokens.row(slot, seqs.prompt.get(slot))
            expect_rest(state, slot, chain_of(seqs.root.key(slot), prompt, size))


def prepare(columns: Columns, first_epoch: int) -> None:
    """Make fresh columns a pool: the null block, the blocks beyond the first size absent, nobody at home."""
    geometry = columns.geometry
    columns["pool.capacity"].put(0, geometry.device_blocks)
    columns["pool.epoch"].put(0, first_epoch - 1)
    # No handle is ever 0: that number stands for no sequence.
    columns["slot.tenancy"].scatter(np.arange(geometry.max_sequences, dtype=np.int64), 1)
    state = columns["block.state"]
    state.put(0, BlockState.NULL)
    columns["slot.owner"].scatter(np.arange(geometry.max_sequences, dtype=np.int64), NOBODY)
    beyond = np.arange(geometry.device_blocks, geometry.max_device_blocks, dtype=np.int64)
    if len(beyond):
        state.scatter(beyond, BlockState.ABSENT)

"""Whole sequences to the host tier and back, for an engine that makes room.

A block whose content the other tier has already is not copied: the table just names that one. A sequence waits until all
its copies are done; whatever dies in between, the table names the truth.
"""

from blockmgr.core.admission import expect_rest, visible
from blockmgr.core.copying import order_copy
from blockmgr.core.events import EventKind
from blockmgr.core.geometry import SLOT_MASK
from blockmgr.core.messages import Swapped, TableUpdate
from blockmgr.core.prefix import chain_of
from blockmgr.core.release import forget_expected
from blockmgr.core.state import PoolState, one
from blockmgr.core.states import BlockState, Refusal, Residency, TicketKind


def swap_out(state: PoolState, row: int, handle: int) -> Swapped | None:
    """Order a sequence's blocks to the host tier. Returns why not, if not; then nothing has changed.

    Blocks that hold nothing yet are given up. Nothing of the sequence may be in flight.
    """
    slot, refused = may_swap(state, row, handle, {Residency.DEVICE, Residency.HOST})
    if refused is not None:
        return refused
    seqs, geometry = state.sequences, state.geometry
    if seqs.launched.get(slot) != seqs.computed.get(slot):
        return Swapped(handle, Refusal.BUSY)
    keep = geometry.blocks_for(seqs.computed.get(slot))
    entries = seqs.entries(slot)
    here = [(index, block) for index, block in enumerate(entries[:keep].tolist()) if not geometry.is_host(block)]
    if any(state.blocks.state.get(block) == BlockState.FILLING for _, block in here):
        return Swapped(handle, Refusal.BUSY)
    copies = [(index, block) for index, block in here if _twin(state, block) is None]
    tier = state.blocks.tier(host=True)
    twins = [_twin(state, block) for _, block in here]
    spare = tier.available - sum(twin is not None and tier.may_evict(twin) for twin in twins)
    if len(copies) > spare:
        return Swapped(handle, Refusal.HOST_EXHAUSTED, needed=len(copies), available=spare)
    state.note(EventKind.SWAPPING_OUT, slot, [block for _, block in here])
    # Nobody need wait for one that computes nothing.
    forget_expected(state, slot)
    if keep < len(entries):
        seqs.blocks.put(slot, keep)
        state.blocks.unreference(entries[keep:])
    _go(state, row, slot, here, TicketKind.SWAP_OUT)
    seqs.reside(slot, Residency.LEAVING if copies else Residency.HOST)
    return None


def swap_in(state: PoolState, row: int, handle: int, tables: list[TableUpdate]) -> Swapped | None:
    """Order a sequence's blocks back to the device, and have room for all its tokens: all of it, or none and the reason."""
    slot, refused = may_swap(state, row, handle, {Residency.HOST})
    if refused is not None:
        return refused
    seqs = state.sequences
    entries = seqs.entries(slot).tolist()
    away = [(index, block) for index, block in enumerate(entries) if state.geometry.is_host(block)]
    twins = [_twin(state, block) for _, block in away]
    copies = sum(twin is None for twin in twins)
    # What comes back must be able to get on: the last token is still to be fed, mostly into a block that is not there yet.
    missing = max(state.geometry.blocks_for(seqs.count.get(slot)) - len(entries), 0)
    needed = copies + missing
    tier = state.blocks.tier(host=False)
    spare = tier.available - sum(twin is not None and tier.may_evict(twin) for twin in twins)
    if needed > spare:
        return Swapped(handle, Refusal.POOL_EXHAUSTED, needed=needed, available=spare)
    state.note(EventKind.SWAPPING_IN, slot, [block for _, block in away])
    _go(state, row, slot, away, TicketKind.SWAP_IN)
    seqs.extend(slot, state.blocks.take(missing))
    seqs.reside(slot, Residency.RETURNING if copies else Residency.DEVICE)
    prompt = seqs.prompt.get(slot)
    if seqs.published.get(slot) < prompt // state.geometry.tokens_per_block:
        tokens = seqs.tokens.row(slot, prompt)
        expect_rest(state, slot, chain_of(seqs.root.key(slot), tokens, state.geometry.tokens_per_block))
    tables.append(TableUpdate(handle, 0, visible(state, seqs.entries(slot))))
    return None


def may_swap(state: PoolState, row: int, handle: int, allowed: set[Residency]) -> tuple[int, Swapped | None]:
    """The slot of a sequence that may be moved, which resides where it is ``allowed`` to; or why it may not."""
    if not state.sequences.is_owned(handle, row):
        return -1, Swapped(handle, Refusal.STALE_HANDLE)
    slot = handle & SLOT_MASK
    if slot in state.tickets.of_slot or state.sequences.residency.get(slot) not in allowed:
        return slot, Swapped(handle, Refusal.BUSY)
    return slot, None


def _twin(state: PoolState, block: int) -> int | None:
    """The block of the other tier that holds the same, if that tier has it indexed and complete."""
    blocks = state.blocks
    if blocks.state.get(block) != BlockState.SEALED:
        return None
    twin = blocks.index.tier(not state.geometry.is_host(block)).get(blocks.hash.key(block))
    if twin is None or blocks.state.get(twin) not in (BlockState.SEALED, BlockState.CACHED):
        return None
    return twin


def _go(state: PoolState, row: int, slot: int, entries: list[tuple[int, int]], kind: TicketKind) -> None:
    """Name the twin where there is one, then order copies of the rest: twins are referred to before anything is taken."""
    seqs, copies = state.sequences, []
    for index, block in entries:
        twin = _twin(state, block)
        if twin is None:
            copies.append((index, block))
            continue
        state.blocks.reference(one(twin))
        seqs.table.put(slot * seqs.table.stride + index, twin)
        state.blocks.unreference(one(block))
    for index, block in copies:
        order_copy(state, row, slot, index, block, kind)

"""Whole sequences that give up their blocks, to be computed again later: room for an engine where nothing is copied.

Their tokens stay in their rows. What was full stays cached until it is evicted, so what comes back computes only what is
gone by then; in the worst case as much as a prompt of that length.
"""

import numpy as np

from blockmgr.core.admission import Hits, expect_rest, look_up, take_hits, visible
from blockmgr.core.columns import Indexes
from blockmgr.core.events import EventKind
from blockmgr.core.messages import LookedAgain, Reply, Swapped, TableUpdate
from blockmgr.core.prefix import chain_of
from blockmgr.core.release import forget_expected
from blockmgr.core.state import PoolState
from blockmgr.core.states import Refusal, Residency, SequenceFlags, SequenceState
from blockmgr.core.swapping import may_swap


def release(state: PoolState, row: int, handle: int) -> Swapped | None:
    """Have a sequence give up its blocks. Returns why not, if not. Nothing of it may be in flight."""
    slot, refused = may_swap(state, row, handle, {Residency.DEVICE})
    if refused is not None:
        return refused
    seqs = state.sequences
    if seqs.launched.get(slot) != seqs.computed.get(slot):
        return Swapped(handle, Refusal.BUSY)
    entries = seqs.entries(slot)
    state.note(EventKind.RELEASED, slot, entries.tolist())
    forget_expected(state, slot)
    for column in (seqs.blocks, seqs.launched, seqs.computed, seqs.published):
        column.put(slot, 0)
    state.blocks.unreference(entries)
    seqs.reside(slot, Residency.RELEASED)
    return None


def come_back(state: PoolState, row: int, handle: int, slot: int, reply: Reply) -> Swapped | None:
    """Give such a sequence what is cached of its tokens and blocks for the rest: all of it, or nothing and the reason."""
    seqs, size = state.sequences, state.geometry.tokens_per_block
    tokens = seqs.tokens.row(slot, seqs.count.get(slot)).copy()
    root = seqs.root.key(slot)
    chain = chain_of(root, tokens, size)
    hits = Hits() if seqs.flags.get(slot) & SequenceFlags.BYPASS else look_up(state, row, root, chain, tokens)
    kin = _hits_of_kin(state, row, slot)
    if len(kin.blocks) > len(hits.blocks):
        hits = kin
    missing = state.geometry.blocks_for(len(tokens)) - len(hits.blocks)
    on_host = [block for block in hits.blocks if state.geometry.is_host(block)]
    on_device = [block for block in hits.blocks if not state.geometry.is_host(block)]
    needed = missing + len(on_host)
    # Its own hits must not be evicted for it: they do not count as available.
    spare = state.available() - sum(state.blocks.tier_of(block).may_evict(block) for block in on_device)
    if needed > spare:
        return Swapped(handle, Refusal.POOL_EXHAUSTED, needed=needed, available=spare)
    seqs.reside(slot, Residency.DEVICE)
    take_hits(state, row, slot, hits.blocks, 0)
    seqs.extend(slot, state.blocks.take(missing))
    cached = len(hits.blocks) * size
    seqs.launched.put(slot, cached)
    seqs.computed.put(slot, hits.ready * size)
    seqs.published.put(slot, len(hits.blocks))
    _expect_prompt(state, slot, chain)
    entries: Indexes = seqs.entries(slot)
    reply.tables.append(TableUpdate(handle, 0, visible(state, entries)))
    reply.looked_again.append(LookedAgain(handle, cached, hits.awaiting))
    state.note(EventKind.RETURNED, slot, entries.tolist(), f"cached={len(hits.blocks)}")
    return None


def _hits_of_kin(state: PoolState, row: int, slot: int) -> Hits:
    """What of the prompt stands in the table of another sequence that was forked from the same one: blocks that both had in
    common, whether they are to be found in the cache or not.
    """
    seqs, size = state.sequences, state.geometry.tokens_per_block
    most, best = (seqs.prompt.get(slot) - 1) // size, Hits()
    same = (seqs.family.flat == seqs.family.get(slot)) & (seqs.state.flat == SequenceState.LIVE)
    for other in np.flatnonzero(same & (seqs.owner.flat == row) & (seqs.residency.flat == Residency.DEVICE)).tolist():
        ready = min(seqs.computed.get(other) // size, most)
        if other != slot and ready > best.ready:
            best = Hits(seqs.entries(other)[:ready].tolist(), ready)
    return best


def _expect_prompt(state: PoolState, slot: int, chain: list[bytes]) -> None:
    """Others wait for what it computes of its prompt; nobody else's prompt is known to have the same output."""
    full = state.sequences.prompt.get(slot) // state.geometry.tokens_per_block
    if state.sequences.published.get(slot) < full:
        expect_rest(state, slot, chain[:full])

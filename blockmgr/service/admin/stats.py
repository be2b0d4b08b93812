"""A pool's figures: how many blocks are in which state, who uses them, and how much of them is used."""

import os

import numpy as np

from blockmgr.core.columns import Indexes
from blockmgr.core.counts import Counts
from blockmgr.core.events import EventKind
from blockmgr.core.schema import PAGE
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState, ExecutorState, Residency, SequenceState, TicketKind
from blockmgr.service.admin.numbers import BLOCK_STATE, TICKET_KIND
from blockmgr.service.admin.tables import entries_of, live_slots
from blockmgr.service.pools import ManagedPool
from blockmgr.service.specs import describe
from pagehold.admin.v1 import pool_pb2, stats_pb2
from pagehold.common.v1 import states_pb2

SECTOR = 512
FULL = (BlockState.FILLING, BlockState.SEALED)
SERVING = (ExecutorState.STARTING, ExecutorState.LIVE)


def pool_stats(managed: ManagedPool) -> stats_pb2.PoolStats:
    """Every figure of a pool, now. To be called on the loop; takes a few milliseconds at most."""
    state, said = managed.pool.state, describe(managed)
    stats = stats_pb2.PoolStats(
        name=managed.name,
        time=state.clock.now(),
        geometry=said.geometry,
        identity=said.identity,
        arena=said.arena,
        shards=said.shards,
        executors=_serving(state),
        draining=bool(state.columns["pool.drain"].get(0)),
        pins=len(managed.pool.pins.list()),
        finished_requests=len(state.archive),
        ledger_bytes=os.fstat(managed.ledger.descriptor).st_blocks * SECTOR,
    )
    pinned = np.array(managed.pool.pins.blocks(), dtype=np.int64)
    stats.tiers.append(_tier(state, pinned, host=False))
    if managed.geometry.host_blocks:
        stats.tiers.append(_tier(state, pinned, host=True))
    stats.sequences.CopyFrom(_sequences(state))
    stats.counters.CopyFrom(_counters(state.counts))
    for kind, tickets in _tickets_by_kind(state).items():
        stats.pending_tickets.add(kind=TICKET_KIND[kind], tickets=tickets)
    return stats


def summary(managed: ManagedPool) -> pool_pb2.PoolSummary:
    """A pool in one line."""
    state = managed.pool.state
    return pool_pb2.PoolSummary(
        name=managed.name,
        revision=managed.pool.revision,
        device_blocks=state.capacity,
        available_blocks=state.available(),
        sequences=len(live_slots(state)),
        executors=_serving(state),
    )


def _serving(state: PoolState) -> int:
    return sum(state.executors.state.get(row) in SERVING for row in state.executors.rows())


def _tickets_by_kind(state: PoolState) -> dict[TicketKind, int]:
    rows = np.fromiter(state.tickets.rows, dtype=np.int64, count=len(state.tickets.rows))
    counts = np.bincount(state.tickets.kind.flat[rows], minlength=len(TicketKind))
    return {kind: int(counts[kind]) for kind in TicketKind if counts[kind]}


def _tier(state: PoolState, pinned: np.ndarray, host: bool) -> stats_pb2.TierStats:
    geometry, blocks = state.geometry, state.blocks
    first, end = (geometry.host_base, geometry.total_blocks) if host else (0, geometry.host_base)
    counts = np.bincount(blocks.state.flat[first:end], minlength=len(BlockState))
    refs, fence = blocks.refs.flat[first:end], blocks.fence.flat[first:end]
    beyond = blocks.state.flat[state.capacity : geometry.host_base]
    tier = stats_pb2.TierStats(
        tier=states_pb2.TIER_HOST if host else states_pb2.TIER_DEVICE,
        blocks=end - first - int(counts[BlockState.ABSENT]),
        available=blocks.tier(host).available,
        pinned=len(np.unique(pinned[(pinned >= first) & (pinned < end)])),
        shared=int(np.count_nonzero(refs > 1)),
        indexed=int(np.count_nonzero(blocks.indexed.flat[first:end])),
        beyond_size=0 if host else int(np.count_nonzero(beyond != BlockState.ABSENT)),
        fenced=int(np.count_nonzero((fence != 0) & (refs == 0))),
    )
    for block_state in BlockState:
        if counts[block_state]:
            tier.states.add(state=BLOCK_STATE[block_state], blocks=int(counts[block_state]))
    return tier


def _sequences(state: PoolState) -> stats_pb2.SequenceStats:
    seqs, slots = state.sequences, live_slots(state)
    size = state.geometry.tokens_per_block
    residency = np.bincount(seqs.residency.flat[slots], minlength=len(Residency))
    refs = state.blocks.refs.flat[: state.geometry.host_base]
    in_use, on_device = int(np.count_nonzero(refs)), int(refs.sum())
    tokens, reserved = _tokens_in_use(state, slots), in_use * size
    return stats_pb2.SequenceStats(
        live=int(np.count_nonzero(seqs.state.flat[slots] == SequenceState.LIVE)),
        orphaned=int(np.count_nonzero(seqs.state.flat[slots] == SequenceState.ORPHANED)),
        swapped=len(slots) - int(residency[Residency.DEVICE]),
        leaving=int(residency[Residency.LEAVING]),
        returning=int(residency[Residency.RETURNING]),
        released=int(residency[Residency.RELEASED]),
        free_slots=seqs.slots - len(slots),
        tokens=int(seqs.count.flat[slots].sum()),
        computed_tokens=int(seqs.computed.flat[slots].sum()),
        table_entries=int(seqs.blocks.flat[slots].sum()),
        table_bytes=_table_bytes(state, slots),
        blocks_in_use=in_use,
        blocks_saved_by_sharing=on_device - in_use,
        utilisation=tokens / max(1, (state.capacity - 1) * size),
        internal_fragmentation=(reserved - tokens) / max(1, reserved),
    )


def _table_bytes(state: PoolState, slots: Indexes) -> int:
    """Rows are sparse: memory is behind the pages that entries lie in."""
    table = state.sequences.table
    row = table.stride * table.flat.itemsize
    used = state.sequences.blocks.flat[slots] * table.flat.itemsize
    return int((-(-used // PAGE) * PAGE).sum()) if row % PAGE == 0 else row * len(slots)


def _tokens_in_use(state: PoolState, slots: Indexes) -> int:
    """Tokens that lie in the device blocks named by tables; where tables share a block, they count once."""
    size, base, seqs, blocks = state.geometry.tokens_per_block, state.geometry.host_base, state.sequences, state.blocks
    full = np.isin(blocks.state.flat[:base], FULL) & (blocks.refs.flat[:base] > 0)
    # What is not full lies at the tables' ends: a sequence's published blocks are full.
    ends = entries_of(state, slots, seqs.published.flat[slots])
    here = np.clip(seqs.count.flat[slots][ends.place] - ends.index * size, 0, size)
    owned = (ends.block < base) & (blocks.state.flat[ends.block] == BlockState.OWNED)
    most: dict[int, int] = {}
    for block, tokens in zip(ends.block[owned].tolist(), here[owned].tolist(), strict=True):
        most[block] = max(tokens, most.get(block, 0))
    return int(np.count_nonzero(full)) * size + sum(most.values())


def _counters(counts: Counts) -> stats_pb2.Counters:
    return stats_pb2.Counters(
        turns=counts.turns,
        repeated_turns=counts.repeated_turns,
        admitted=counts.events[EventKind.ADMITTED],
        refused=counts.events[EventKind.REFUSED],
        finished=counts.events[EventKind.FINISHED],
        prompt_tokens=counts.prompt_tokens,
        cached_prompt_tokens=counts.cached_prompt_tokens,
        output_tokens=counts.output_tokens,
        sealed_blocks=counts.blocks[EventKind.SEALED],
        evicted_blocks=counts.blocks[EventKind.EVICTED],
        copies=counts.events[EventKind.COPY_ORDERED],
        short_reservations=counts.events[EventKind.SHORT],
        adopted=counts.events[EventKind.ADOPTED],
    )

"""Cached blocks given up by hand: some, those that would go next, or all."""

import asyncio
from dataclasses import dataclass

import numpy as np

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.pool import Pool
from blockmgr.core.states import BlockState
from blockmgr.service.admin.identifiers import block_id, is_host_tier, ledger_block, within
from blockmgr.service.admin.numbers import BLOCK_STATE
from pagehold.admin.v1 import evict_pb2

LIST_LIMIT, COUNT_LIMIT = 10_000, 100_000
AT_ONCE = 500
"""Blocks evicted in one go, about a millisecond's work; then others have their turn."""


async def evict(pool: Pool, request: evict_pb2.EvictRequest) -> evict_pb2.EvictResponse:
    """Evict what a request names. Raises ``InvalidMessage``, and ``NotFound`` for a block that does not exist."""
    what = request.WhichOneof("what")
    if what is None:
        raise InvalidMessage("what", "absent", "blocks or a count must be given")
    named: list[int] = []
    if what == "blocks":
        if len(request.blocks.ids) > LIST_LIMIT:
            raise InvalidMessage("blocks.ids", f"{len(request.blocks.ids)} long", f"at most {LIST_LIMIT} are taken")
        named = list(dict.fromkeys(ledger_block(pool.geometry, name) for name in request.blocks.ids))
        wanted = named
    else:
        within("count", request.count, 1, COUNT_LIMIT)
        wanted = pool.coldest(request.count, is_host_tier(request.tier, "tier"))
    gone = await _evict_in_turns(pool, wanted, request.dry_run)
    answer = evict_pb2.EvictResponse(evicted=(block_id(pool.geometry, block) for block in gone))
    stayed = set(named) - set(gone)
    for block in (block for block in named if block in stayed):
        state = pool.state.blocks.state.get(block)
        detail = _why_kept(pool, block)
        answer.kept.add(id=block_id(pool.geometry, block), state=BLOCK_STATE[state], detail=detail)
    return answer


async def _evict_in_turns(pool: Pool, wanted: list[int], dry_run: bool) -> list[int]:
    """Evict a few at a time. What is used meanwhile stays."""
    if dry_run:
        return pool.evict(wanted, dry_run=True)
    gone: list[int] = []
    for start in range(0, len(wanted), AT_ONCE):
        gone += pool.evict(wanted[start : start + AT_ONCE])
        await asyncio.sleep(0)
    return gone


def _why_kept(pool: Pool, block: int) -> str:
    """What keeps a block that was named from being evicted, for people."""
    state = pool.state
    have = BlockState(state.blocks.state.get(block))
    if have in (BlockState.SEALED, BlockState.OWNED, BlockState.FILLING) and state.blocks.refs.get(block):
        return f"{state.blocks.refs.get(block)} table entries name it"
    if have != BlockState.CACHED:
        return f"it is {have.name.lower()}, not cached"
    pins = [pin.id for pin in pool.pins.list() if block in pin.blocks]
    if pins:
        return f"pinned by {pins}"
    if block in state.blocks.holds:
        return "a copy of it is ordered and not done"
    return "a launched step may still read it"


@dataclass(slots=True)
class Flushed:
    """Blocks given up on each tier, and cached ones that stay."""

    device: int = 0
    host: int = 0
    kept: int = 0


async def flush(pool: Pool, request: evict_pb2.FlushRequest) -> Flushed:
    """Evict every cached block of a tier, or of both."""
    flushed = Flushed()
    tiers = [is_host_tier(request.tier, "tier")] if request.tier else [False, True]
    for host in tiers:
        gone = len(await _evict_in_turns(pool, pool.coldest(None, host), request.dry_run))
        flushed.device, flushed.host = (flushed.device, gone) if host else (gone, flushed.host)
    base, states = pool.geometry.host_base, pool.state.blocks.state.flat
    parts = [states[base:] if host else states[:base] for host in tiers]
    cached = sum(int(np.count_nonzero(part == BlockState.CACHED)) for part in parts)
    flushed.kept = cached - (flushed.device + flushed.host if request.dry_run else 0)
    return flushed

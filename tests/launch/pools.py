"""What is left in a pool once nobody works on it."""

import asyncio
import time
from dataclasses import dataclass

from pagehold.client.admin import AdminClient
from pagehold.common.v1 import states_pb2


@dataclass(frozen=True, slots=True)
class PoolLeft:
    """Blocks of the device."""

    blocks: int
    free: int


async def flushed_pool(address: str, seconds: float = 60.0) -> PoolLeft:
    """Wait for the end of every sequence, check every invariant, give up what is cached; what is there then."""
    async with AdminClient(address, timeout=seconds) as admin:
        deadline = time.monotonic() + seconds
        while (await admin.pool_stats()).stats.sequences.live:
            assert time.monotonic() < deadline, "sequences live on"
            await asyncio.sleep(0.02)
        while True:
            assert not (await admin.verify()).violations
            await admin.flush()
            left = _left((await admin.pool_stats()).stats)
            if left.free == left.blocks - 1 or time.monotonic() > deadline:
                # Blocks behind a fence become free with the executors' next word.
                return left
            await asyncio.sleep(0.02)


def _left(stats: object) -> PoolLeft:
    device = next(tier for tier in stats.tiers if tier.tier == states_pb2.TIER_DEVICE)  # type: ignore[attr-defined]
    states = {one.state: one.blocks for one in device.states}
    return PoolLeft(device.blocks, states.get(states_pb2.BLOCK_STATE_FREE, 0))

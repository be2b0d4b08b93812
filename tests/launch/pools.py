"""What is left in a pool once nobody works on it."""

from dataclasses import dataclass

from pagehold.client.admin import AdminClient
from pagehold.common.v1 import states_pb2
from tests.scripted.processes import wait_until_async


@dataclass(frozen=True, slots=True)
class PoolLeft:
    """Blocks of the device."""

    blocks: int
    free: int


async def flushed_pool(address: str, seconds: float = 60.0) -> PoolLeft:
    """Wait for the end of every sequence, check every invariant, give up what is cached; what is there then."""
    async with AdminClient(address, timeout=seconds) as admin:

        async def is_idle() -> bool:
            return not (await admin.pool_stats()).stats.sequences.live

        async def free_pool() -> PoolLeft | None:
            assert not (await admin.verify()).violations
            await admin.flush()
            left = _left((await admin.pool_stats()).stats)
            return left if left.free == left.blocks - 1 else None

        await wait_until_async(is_idle, "no sequence lives", seconds)
        # Blocks behind a fence become free with the executors' next word.
        left: PoolLeft = await wait_until_async(free_pool, "every block but the null block is free", seconds)
        return left


def _left(stats: object) -> PoolLeft:
    device = next(tier for tier in stats.tiers if tier.tier == states_pb2.TIER_DEVICE)  # type: ignore[attr-defined]
    states = {one.state: one.blocks for one in device.states}
    return PoolLeft(device.blocks, states.get(states_pb2.BLOCK_STATE_FREE, 0))

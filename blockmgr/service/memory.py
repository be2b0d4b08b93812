"""The memory under a pool that grows, in step with the descriptor store."""

from blockmgr.service.deposits import Deposits
from blockmgr.service.pools import ManagedPool


async def grow_memory(deposits: Deposits, managed: ManagedPool, blocks: int) -> None:
    """Put memory behind the first ``blocks`` device blocks; when this returns, the descriptor store has it too.

    The caller then raises the pool's capacity before it awaits anything else: memory behind no block is trimmed.
    Raises ``ArenaError`` if there is no memory, ``NotServing`` if the store does not take it; then nothing is left.
    """
    before, size = set(managed.stored_descriptors()), managed.device.size
    managed.growing = max(managed.growing, blocks)
    try:
        if managed.grow_memory(blocks):
            after = managed.stored_descriptors()
            await deposits.put({name: [after[name]] for name in after if name not in before})
    except BaseException:
        managed.device.trim(size)
        raise
    finally:
        managed.growing = 0

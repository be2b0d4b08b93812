"""The memory under a pool that grows, in step with the descriptor store."""

from contextlib import suppress

from blockmgr.notify import Notifier, NotifyError
from blockmgr.service.pools import ManagedPool


async def grow_memory(notifier: Notifier, managed: ManagedPool, blocks: int) -> None:
    """Put memory behind the first ``blocks`` device blocks; when this returns, the descriptor store has it too.

    The caller then raises the pool's capacity before it awaits anything else: memory behind no block is trimmed.
    Raises ``ArenaError`` if there is no memory, ``NotifyError`` if the store does not take it; then nothing is left.
    """
    before, size = set(managed.stored_descriptors()), managed.device.size
    managed.growing = max(managed.growing, blocks)
    try:
        if managed.grow_memory(blocks):
            for name, descriptor in managed.stored_descriptors().items():
                if name not in before:
                    await notifier.deposit(name, [descriptor])
    except BaseException:
        for extent in managed.device.trim(size):
            with suppress(NotifyError):
                notifier.remove_descriptor(extent.name, timeout=0.0)
        raise
    finally:
        managed.growing = 0

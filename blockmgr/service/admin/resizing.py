"""A pool's size changed by hand: the memory comes before the blocks in it, and goes after them."""

from dataclasses import dataclass

from blockmgr.core.errors import InvalidMessage
from blockmgr.service.manager import Manager
from blockmgr.service.memory import grow_memory
from blockmgr.service.pools import ManagedPool
from pagehold.blockmgr.v1 import session_pb2


@dataclass(slots=True)
class Resized:
    """Device blocks before and from now on, and blocks beyond that are still in use."""

    before: int
    after: int
    in_use_beyond: int


async def resize(manager: Manager, managed: ManagedPool, blocks: int) -> Resized:
    """Set the number of device blocks, the null block included.

    New memory is with the descriptor store before a block in it can be handed out. Blocks beyond a smaller size are moved
    by executors with their next turns; their memory goes when none is left. Executors are asked for a turn in any case:
    those that are idle would refuse what does not fit the size that they know.
    Raises ``InvalidMessage``, ``Precondition`` if pins stand in the way, ``ArenaError`` if there is no memory,
    ``NotServing`` if the descriptor store does not take it.
    """
    limit = managed.geometry.max_device_blocks
    if not 2 <= blocks <= limit:
        raise InvalidMessage("device_blocks", blocks, f"must lie in 2..{limit}, the null block included")
    before = managed.pool.state.capacity
    if blocks > before:
        await grow_memory(manager.deposits, managed, blocks)
    left = managed.pool.resize(blocks)
    if left or blocks != before:
        manager.nudge(managed.name, session_pb2.NUDGE_REASON_TICKETS)
    if not left:
        manager.trim(managed)
    return Resized(before, blocks, left)

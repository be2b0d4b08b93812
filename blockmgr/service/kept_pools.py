"""Pools whose descriptors came back from a store or from executors: ledger and memory put together again."""

import re
from collections.abc import Callable, Sequence

from blockmgr.arena import Arena, Extent, arena_of_kind
from blockmgr.core.errors import BlockManagerError, LedgerCorrupt
from blockmgr.core.events import Event
from blockmgr.core.messages import Reply
from blockmgr.core.pool import Pool
from blockmgr.identity import Shape, Shard
from blockmgr.ledger.pool_ledger import PoolLedger
from blockmgr.ledger.redo import RedoLog
from blockmgr.service.pools import ManagedPool, bytes_for


class MemoryLost(BlockManagerError):
    """A pool's ledger is there, but its memory went with the process that held it. The ledger is closed again."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number


def adopt_pool(
    name: str,
    descriptors: dict[str, list[int]],
    redo: RedoLog,
    encode: Callable[[Reply], bytes],
    on_events: Callable[[Sequence[Event]], None],
) -> ManagedPool:
    """Go on with a pool whose descriptors came back. Takes them out of ``descriptors`` and owns them.

    Raises ``MemoryLost`` if its memory was of a kind that does not outlive the manager, ``LedgerCorrupt`` where ledger and
    memory do not fit each other, and what the ledger itself raises.
    """
    ledger = PoolLedger.adopt(descriptors.pop(f"ledger.{name}")[0], redo)
    geometry, meta = ledger.geometry, ledger.meta
    shards, arena = tuple(Shard(**shard) for shard in meta["shards"]), arena_of_kind(meta["arena"])
    if not arena.outlives_maker:
        ledger.close()
        raise MemoryLost(meta["number"], f"its memory, of the kind {arena.kind}, went with the manager that made it")
    extents = _extents(arena, f"device.{name}", descriptors)
    device = arena.adopt(extents, f"device.{name}", gpu_uuid=shards[0].gpu_uuid)
    host = None
    if geometry.host_blocks:
        kind = arena_of_kind("host")
        host = kind.adopt(_extents(kind, f"host.{name}", descriptors), f"host.{name}")
    pool = Pool(geometry, ledger, fresh=False, encode=encode, on_events=on_events)
    needed = bytes_for(geometry, pool.state.capacity, arena.granularity)
    if device.size < needed:
        raise LedgerCorrupt(f"pool {name} has {device.size} bytes of memory, but its ledger speaks of {needed}")
    return ManagedPool(name, meta["number"], Shape(**meta["shape"]), shards, ledger, pool, device, host)


def _extents(arena: type[Arena], prefix: str, descriptors: dict[str, list[int]]) -> list[Extent]:
    """Extents by their index, which their names hold. A gap is memory that is lost."""
    pattern = re.compile(re.escape(prefix) + r"\.(\d+)(@.*)?")
    found: dict[int, str] = {}
    for key in descriptors:
        if match := pattern.fullmatch(key):
            index = int(match[1])
            if index in found:
                raise LedgerCorrupt(f"both {found[index]} and {key} came back as extent {index}")
            found[index] = key
    extents = []
    for index in range(len(found)):
        if index not in found:
            raise LedgerCorrupt(f"extent {index} of {prefix} did not come back, though a later one did")
        extents.append(arena.kept(found[index], descriptors.pop(found[index])[0]))
    if not extents:
        raise LedgerCorrupt(f"no memory of {prefix} came back with its ledger")
    return extents


def pool_names(descriptors: dict[str, list[int]]) -> list[str]:
    """Names of the pools whose ledgers are among descriptors that came back."""
    return sorted(key.removeprefix("ledger.") for key in descriptors if key.startswith("ledger."))

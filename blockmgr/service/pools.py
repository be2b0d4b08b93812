"""A manager's pools: the allocator, the ledger under it, and the memory that its blocks lie in."""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from blockmgr.arena import Arena, arena_of_kind
from blockmgr.arena.base import Extent
from blockmgr.core.errors import LedgerCorrupt
from blockmgr.core.events import Event
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import Reply
from blockmgr.core.pool import Pool
from blockmgr.descriptors import Offer
from blockmgr.identity import Content, Shape, Shard
from blockmgr.ledger.pool_ledger import PoolLedger
from blockmgr.ledger.redo import RedoLog

PAGE = 4096
EPOCH_BITS = 32
"""Epochs of a pool's executors carry the pool's number above these bits, so that an epoch names its pool."""


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """What the first executor of a pool proposes."""

    name: str
    geometry: PoolGeometry
    shape: Shape
    content: Content
    arena: str
    shards: tuple[Shard, ...] = (Shard(),)


@dataclass(slots=True)
class ManagedPool:
    """One pool in service. Owns its ledger and its arenas; the redo log is shared."""

    name: str
    number: int
    shape: Shape
    shards: tuple[Shard, ...]
    ledger: PoolLedger
    pool: Pool
    device: Arena
    host: Arena | None
    growing: int = 0
    """Device blocks that memory is being made ready for, ahead of the capacity; 0: none."""

    @property
    def geometry(self) -> PoolGeometry:
        """Sizes of pool and ledger."""
        return self.pool.geometry

    def content(self) -> Content:
        """Whose keys and values the pool holds."""
        return Content(**json.loads(self.pool.description))

    def stored_descriptors(self) -> dict[str, int]:
        """Every descriptor without which the pool would be lost, by the name it is kept under.

        The ledger is last: memory without a ledger is nothing, but a ledger without its memory would be a loss.
        """
        named = {}
        for tier, arena in self.arenas():
            for index, extent in enumerate(arena.extents):
                if extent.descriptor is not None:
                    named[f"{tier}.{self.name}.{index}"] = extent.descriptor
        return named | {f"ledger.{self.name}": self.ledger.descriptor}

    def offers(self, redo: int) -> list[Offer]:
        """What an executor fetches to map the pool and its ledger, and to give back should everyone else lose it."""
        offers = [self.ledger_offer(), Offer("redo", redo, {"kind": "redo"})]
        for tier, arena in self.arenas():
            for index, extent in enumerate(arena.extents):
                if extent.descriptor is not None:
                    meta = {"kind": tier, "arena": arena.kind, "index": index, "size": extent.size}
                    offers.append(Offer(f"{tier}.{self.name}.{index}", extent.descriptor, meta))
        return offers

    def ledger_offer(self) -> Offer:
        """What anybody fetches to read along."""
        return Offer(f"ledger.{self.name}", self.ledger.descriptor, {"kind": "ledger", "pool": self.name})

    def arenas(self) -> Iterable[tuple[str, Arena]]:
        """The memory of each tier that there is."""
        yield "device", self.device
        if self.host is not None:
            yield "host", self.host

    def grow_memory(self, blocks: int) -> bool:
        """Make sure that memory stands behind the first ``blocks`` device blocks. Returns whether an extent was added."""
        missing = bytes_for(self.geometry, blocks) - self.device.size
        if missing > 0:
            self.device.grow(missing)
        return missing > 0

    def trim_memory(self) -> None:
        """Give the pages behind the capacity back to the machine, once nothing uses them.

        The extents stay: executors have them mapped, and a pool that grows again must grow into the same memory, or each
        would see another.
        """
        wanted = bytes_for(self.geometry, max(self.pool.state.capacity, self.growing))
        if not self.pool.state.draining and wanted < self.device.size and self.device.manager_writes:
            self.device.zero(wanted, self.device.size - wanted)

    def close(self) -> None:
        """Let go of the memory here; whoever else holds it keeps it."""
        self.ledger.close()
        for _, arena in self.arenas():
            arena.close()


def bytes_for(geometry: PoolGeometry, blocks: int) -> int:
    """Bytes of memory, in whole pages, for so many blocks."""
    return -(-blocks * geometry.block_bytes // PAGE) * PAGE


def pool_number(epoch: int) -> int:
    """Number of the pool that an executor's epoch belongs to."""
    return epoch >> EPOCH_BITS


def create_pool(
    spec: PoolSpec,
    number: int,
    redo: RedoLog,
    encode: Callable[[Reply], bytes],
    on_events: Callable[[list[Event]], None],
) -> ManagedPool:
    """Make a pool: memory, ledger, allocator. Nothing of it is left behind if one of them cannot be had."""
    arena_class = arena_of_kind(spec.arena)
    geometry = spec.geometry
    device = arena_class.create(bytes_for(geometry, geometry.device_blocks), f"device.{spec.name}")
    host, ledger = None, None
    try:
        if geometry.host_blocks:
            host = arena_of_kind("host").create(bytes_for(geometry, geometry.host_blocks), f"host.{spec.name}")
        meta: dict[str, Any] = {
            "number": number,
            "shape": asdict(spec.shape),
            "arena": spec.arena,
            "shards": [asdict(shard) for shard in spec.shards],
        }
        ledger = PoolLedger.create(spec.name, geometry, redo, meta)
        first = (number << EPOCH_BITS) + 1
        pool = Pool(geometry, ledger, fresh=True, first_epoch=first, encode=encode, on_events=on_events)
        pool.relabel(spec.content.digest(), spec.content.describe())
    except BaseException:
        for thing in (ledger, host, device):
            if thing is not None:
                thing.close()
        raise
    return ManagedPool(spec.name, number, spec.shape, spec.shards, ledger, pool, device, host)


def adopt_pool(
    name: str,
    descriptors: dict[str, list[int]],
    redo: RedoLog,
    encode: Callable[[Reply], bytes],
    on_events: Callable[[list[Event]], None],
) -> ManagedPool:
    """Go on with a pool whose descriptors came back. Takes them out of ``descriptors`` and owns them.

    Raises ``LedgerCorrupt`` where ledger and memory do not fit each other, and what the ledger itself raises.
    """
    ledger = PoolLedger.adopt(descriptors.pop(f"ledger.{name}")[0], redo)
    geometry, meta = ledger.geometry, ledger.meta
    device = arena_of_kind(meta["arena"]).adopt(_extents(f"device.{name}", descriptors), f"device.{name}")
    host = None
    if geometry.host_blocks:
        host = arena_of_kind("host").adopt(_extents(f"host.{name}", descriptors), f"host.{name}")
    pool = Pool(geometry, ledger, fresh=False, encode=encode, on_events=on_events)
    needed = bytes_for(geometry, pool.state.capacity)
    if device.size < needed:
        raise LedgerCorrupt(f"pool {name} has {device.size} bytes of memory, but its ledger speaks of {needed}")
    shards = tuple(Shard(**shard) for shard in meta["shards"])
    return ManagedPool(name, meta["number"], Shape(**meta["shape"]), shards, ledger, pool, device, host)


def _extents(prefix: str, descriptors: dict[str, list[int]]) -> list[Extent]:
    """Extents by their index, as they were stored. A gap is memory that is lost."""
    found = []
    names = {key for key in descriptors if key.startswith(f"{prefix}.")}
    for index in range(len(names)):
        key = f"{prefix}.{index}"
        if key not in descriptors:
            raise LedgerCorrupt(f"extent {key} did not come back, though a later one did")
        descriptor = descriptors.pop(key)[0]
        found.append(Extent(key, os.fstat(descriptor).st_size, descriptor))
    if not found:
        raise LedgerCorrupt(f"no memory of {prefix} came back with its ledger")
    return found


def pool_names(descriptors: dict[str, list[int]]) -> list[str]:
    """Names of the pools whose ledgers are among descriptors that came back."""
    return sorted(key.removeprefix("ledger.") for key in descriptors if key.startswith("ledger."))

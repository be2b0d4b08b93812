"""A manager's pools: the allocator, the ledger under it, and the memory that its blocks lie in."""

import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from blockmgr.arena import Arena, arena_of_kind
from blockmgr.core.events import Event
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import Reply
from blockmgr.core.pool import Pool
from blockmgr.descriptors import Offer
from blockmgr.identity import Content, Shape, Shard
from blockmgr.ledger.pool_ledger import PoolLedger
from blockmgr.ledger.redo import RedoLog

LABEL_BYTES = 16
"""Bytes that a pool's label is made of."""
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

    @property
    def gpu_uuid(self) -> str:
        """The GPU that the memory is to lie on; empty for the host's."""
        return self.shards[0].gpu_uuid


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
        named = {
            extent.name: extent.descriptor
            for _, arena in self.arenas()
            for extent in arena.extents
            if extent.descriptor is not None
        }
        return named | {f"ledger.{self.name}": self.ledger.descriptor}

    def offers(self, redo: int) -> list[Offer]:
        """What an executor fetches to map the pool and its ledger, and to give back should everyone else lose it."""
        offers = [self.ledger_offer(), Offer("redo", redo, {"kind": "redo"})]
        for tier, arena in self.arenas():
            for index, extent in enumerate(arena.extents):
                if extent.descriptor is not None:
                    meta = {"kind": tier, "arena": arena.kind, "index": index}
                    meta |= {"size": extent.size, "offset": extent.offset}
                    offers.append(Offer(extent.name, extent.descriptor, meta))
        return offers

    def ledger_offer(self) -> Offer:
        """What anybody fetches to read along."""
        return Offer(f"ledger.{self.name}", self.ledger.descriptor, {"kind": "ledger", "pool": self.name})

    @property
    def label(self) -> bytes:
        """What the label in front of the memory is made of, where there is one."""
        return bytes.fromhex(self.ledger.meta.get("label", ""))

    @property
    def is_undefined(self) -> bool:
        """Whether nobody has zeroed the memory yet: it is for one executor to do, and for no other to touch meanwhile."""
        return not self.device.born_zero and not self.pool.zeroed

    def arenas(self) -> Iterable[tuple[str, Arena]]:
        """The memory of each tier that there is."""
        yield "device", self.device
        if self.host is not None:
            yield "host", self.host

    def grow_memory(self, blocks: int) -> bool:
        """Make sure that memory stands behind the first ``blocks`` device blocks. Returns whether an extent was added."""
        missing = self.bytes_for(blocks) - self.device.size
        if missing > 0:
            self.device.grow(missing)
        return missing > 0

    def bytes_for(self, blocks: int) -> int:
        """Bytes of device memory for so many blocks, in whole pieces of what its kind comes in."""
        return bytes_for(self.geometry, blocks, self.device.granularity)

    def trim_memory(self, mapped: bool) -> list[str]:
        """Give the memory behind the capacity back, once nothing uses it. Returns the names of extents that are gone.

        While executors have it ``mapped`` the extents stay: a pool that grows again must grow into the same memory, or
        each would see another. The host takes pages back from under them, a GPU does not.
        """
        wanted = self.bytes_for(max(self.pool.state.capacity, self.growing))
        if self.pool.state.draining or wanted >= self.device.size:
            return []
        if self.device.manager_writes:
            self.device.zero(wanted, self.device.size - wanted)
        elif not mapped:
            return [extent.name for extent in self.device.trim(wanted)]
        return []

    def close(self) -> None:
        """Let go of the memory here; whoever else holds it keeps it."""
        self.ledger.close()
        for _, arena in self.arenas():
            arena.close()


def bytes_for(geometry: PoolGeometry, blocks: int, granularity: int) -> int:
    """Bytes of memory, in whole pieces of ``granularity`` bytes, for so many blocks."""
    return -(-blocks * geometry.block_bytes // granularity) * granularity


def pool_number(epoch: int) -> int:
    """Number of the pool that an executor's epoch belongs to."""
    return epoch >> EPOCH_BITS


def make_memory(spec: PoolSpec) -> tuple[Arena, bytes]:
    """Make a pool's device memory, and what its label is made of. Touches nothing else, so that it can run off the loop:
    a GPU's driver takes its time. Raises ``ArenaError``.
    """
    arena, label = arena_of_kind(spec.arena), secrets.token_bytes(LABEL_BYTES)
    size = bytes_for(spec.geometry, spec.geometry.device_blocks, arena.granularity)
    return arena.create(size, f"device.{spec.name}", gpu_uuid=spec.gpu_uuid, label=label), label


def create_pool(
    spec: PoolSpec,
    number: int,
    memory: tuple[Arena, bytes],
    redo: RedoLog,
    encode: Callable[[Reply], bytes],
    on_events: Callable[[Sequence[Event]], None],
) -> ManagedPool:
    """Make a pool over its device's memory, which it owns: ledger, allocator, host tier. If one of them cannot be had,
    nothing is left behind, the memory given included.
    """
    geometry, (device, label) = spec.geometry, memory
    host, ledger = None, None
    try:
        if geometry.host_blocks:
            kind = arena_of_kind("host")
            host = kind.create(bytes_for(geometry, geometry.host_blocks, kind.granularity), f"host.{spec.name}")
        meta: dict[str, Any] = {
            "number": number,
            "shape": asdict(spec.shape),
            "arena": spec.arena,
            "label": label.hex(),
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

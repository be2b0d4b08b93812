"""A pool as an executor maps it: the blocks of both tiers as bytes, and the ledger for reading."""

import mmap
import os
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockmgr.arena import Extent, HostMapping
from blockmgr.descriptors import DescriptorError, fetch
from blockmgr.ledger.reader import LedgerReader
from pagehold.blockmgr.v1 import executor_pb2

Fetched = dict[str, tuple[int, dict[str, Any]]]

PASSING = frozenset({"unreachable", "timeout", "busy", "not-serving"})
"""What a descriptor socket answers, or does not, while a manager is being restarted."""

FETCH_SECONDS, PAUSE = 60.0, 0.05
"""How long a manager is waited for, and how long between two attempts."""


@dataclass(slots=True)
class PoolMapping:
    """Mapped memory of one pool. This process owns the mapping and copies of the descriptors; the manager owns the memory.

    Blocks may be written only as the manager's replies allow, and by nobody once the registration is over.
    """

    name: str
    block_bytes: int
    device: HostMapping
    host: HostMapping | None
    ledger: LedgerReader
    descriptors: dict[str, int] = field(default_factory=dict)
    """Copies of every descriptor fetched, to be given back to a manager that lost its own."""
    socket: str = ""
    instance: bytes = b""
    epoch: int = 0

    @classmethod
    def fetch(cls, registered: executor_pb2.RegisterExecutorResponse, instance: bytes) -> "PoolMapping":
        """Fetch the descriptors of the pool that a registration names, and map them.

        Waits for a manager that is being restarted. Raises ``DescriptorError`` when refused.
        """
        pool, socket = registered.pool, registered.descriptor_socket
        fetched = _fetch(socket, instance, registered.epoch, pool.name)
        host_blocks = pool.geometry.host_blocks
        return cls(
            name=pool.name,
            block_bytes=pool.geometry.block_bytes,
            device=_map(fetched, "device", pool.reserve_bytes),
            host=_map(fetched, "host", host_blocks * pool.geometry.block_bytes) if host_blocks else None,
            ledger=LedgerReader(os.dup(fetched[pool.ledger][0])),
            descriptors={name: descriptor for name, (descriptor, _) in fetched.items()},
            socket=socket,
            instance=instance,
            epoch=registered.epoch,
        )

    def block(self, number: int, host: bool = False) -> NDArray[np.uint8]:
        """The bytes of one block: ``[block_bytes]``, a view of the shared memory itself.

        A block beyond what is mapped belongs to an extent that was added since: it is fetched first.
        """
        end = (number + 1) * self.block_bytes
        if not host and end > self.device.size:
            self._map_new_extents()
        memory = self.host if host and self.host is not None else self.device
        return memory.array[end - self.block_bytes : end]

    def _map_new_extents(self) -> None:
        fetched = _fetch(self.socket, self.instance, self.epoch, self.name)
        for name, (descriptor, meta) in sorted(fetched.items(), key=lambda item: int(item[1][1].get("index", 0))):
            if name in self.descriptors:
                os.close(descriptor)
                continue
            self.descriptors[name] = descriptor
            if meta["kind"] == "device":
                self.device.add(Extent(name, meta["size"], descriptor))

    def close(self) -> None:
        """Unmap everything and let go of the descriptors."""
        self.device.close()
        if self.host is not None:
            self.host.close()
        self.ledger.close()
        for descriptor in self.descriptors.values():
            os.close(descriptor)
        self.descriptors = {}


def _fetch(socket: str, instance: bytes, epoch: int, pool: str) -> Fetched:
    """Fetch a pool's descriptors, from the next manager if this one is going. The caller owns them."""
    deadline = time.monotonic() + FETCH_SECONDS
    while True:
        try:
            return fetch(socket, instance.hex(), epoch, pool)
        except DescriptorError as error:
            if error.reason not in PASSING or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE)


def _map(fetched: Fetched, tier: str, reserve: int) -> HostMapping:
    found = [
        (meta["index"], name, descriptor, meta) for name, (descriptor, meta) in fetched.items() if meta["kind"] == tier
    ]
    extents = [
        Extent(name, meta["size"], descriptor) for _, name, descriptor, meta in sorted(found, key=lambda f: f[0])
    ]
    whole_pages = -(-reserve // mmap.PAGESIZE) * mmap.PAGESIZE
    return HostMapping.of(extents, writable=True, reserve=max(whole_pages, sum(extent.size for extent in extents)))

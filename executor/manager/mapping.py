"""A pool as an executor maps it: the blocks of both tiers, on the host or on a GPU, and the ledger for reading.

No torch and nothing of a GPU is loaded before it is used.
"""

import mmap
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from blockmgr.arena import ArenaError, CudaIpcMapping, CudaMapping, Extent, GpuMapping, HostMapping
from blockmgr.descriptors import DescriptorError, fetch
from blockmgr.ledger.reader import LedgerReader
from executor.manager.tensors import tensor_on_gpu, tensor_on_host
from pagehold.blockmgr.v1 import executor_pb2, pool_pb2

if TYPE_CHECKING:
    import torch

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
    device: HostMapping | GpuMapping
    host: HostMapping | None
    ledger: LedgerReader
    descriptors: dict[str, int] = field(default_factory=dict)
    """Copies of every descriptor fetched, to be given back to a manager that lost its own."""
    socket: str = ""
    instance: bytes = b""
    epoch: int = 0
    _tensor: "torch.Tensor | None" = None
    _pinned: int = 0
    """Where pinned memory of the host tier begins; 0: it is not pinned."""

    @classmethod
    def fetch(cls, registered: executor_pb2.RegisterExecutorResponse, instance: bytes) -> "PoolMapping":
        """Fetch the descriptors of the pool that a registration names, and map them.

        Waits for a manager that is being restarted. Raises ``DescriptorError`` when refused, ``NoSuchGpu`` if the pool lies
        on a GPU that this process does not see, ``LabelMismatch`` if what is mapped is not the pool's memory.
        """
        pool, socket = registered.pool, registered.descriptor_socket
        fetched = _fetch(socket, instance, registered.epoch, pool.name)
        host_bytes = pool.geometry.host_blocks * pool.geometry.block_bytes
        mapping = cls(
            name=pool.name,
            block_bytes=pool.geometry.block_bytes,
            device=_map_device(pool, fetched),
            host=_map_on_host(_extents(fetched, "host"), host_bytes) if host_bytes else None,
            ledger=LedgerReader(os.dup(fetched[pool.ledger][0])),
            descriptors={name: descriptor for name, (descriptor, _) in fetched.items()},
            socket=socket,
            instance=instance,
            epoch=registered.epoch,
        )
        if isinstance(mapping.device, GpuMapping) and not registered.zero_memory:
            mapping.device.check(pool.label)
        return mapping

    def make_ready(self, label: bytes) -> None:
        """Zero new memory on a GPU and write its label, as a registration has asked. The null block is zero from then on."""
        if isinstance(self.device, GpuMapping):
            self.device.make_ready(label)

    # -- the device's memory -------------------------------------------------------------------------------------------

    def tensor(self) -> "torch.Tensor":
        """The pool's whole address range as a tensor of bytes ``[device.reserve]`` on its device, the same one every time.

        Its address never changes, so what is made from it, CUDA graphs too, stays right when the pool grows. A block
        must be within ``reach`` before it is touched: what is behind ``device.size`` is no memory.
        """
        if self._tensor is None:
            device = self.device
            self._tensor = tensor_on_host(device.whole) if isinstance(device, HostMapping) else tensor_on_gpu(device)
        return self._tensor

    def torch_device(self) -> "torch.device":
        """Where the blocks lie: the CPU, or the GPU of the pool's UUID, whatever its number in this process."""
        return self.tensor().device

    def reach(self, block: int) -> None:
        """See to it that a block of the device is mapped: one beyond that belongs to an extent added since."""
        if (block + 1) * self.block_bytes > self.device.size:
            self._map_new_extents()

    def block(self, number: int, host: bool = False) -> NDArray[np.uint8]:
        """The bytes of one block of the host's memory: ``[block_bytes]``, a view of the shared memory itself.

        A block beyond what is mapped belongs to an extent that was added since: it is fetched first.
        Raises ``ArenaError`` for blocks on a GPU, which ``tensor`` is for.
        """
        memory = self.host if host and self.host is not None else self.device
        if not isinstance(memory, HostMapping):
            raise ArenaError(f"block {number} of pool {self.name} lies on a GPU, where no array can be made of it")
        if memory is self.device:
            self.reach(number)
        end = (number + 1) * self.block_bytes
        return memory.array[end - self.block_bytes : end]

    # -- the host's memory ---------------------------------------------------------------------------------------------

    def host_tensor(self, pinned: bool = False) -> "torch.Tensor":
        """The host tier as a tensor of bytes ``[host.size]``; ``pinned``, once, for copies to and from a GPU that run beside
        everything else, which takes all of its memory from the machine at once.

        Raises ``ArenaError`` if the pool has no host tier, or cannot be pinned.
        """
        if self.host is None:
            raise ArenaError(f"pool {self.name} has no host tier")
        if pinned and not self._pinned:
            if not isinstance(self.device, GpuMapping):
                raise ArenaError(f"the host tier of pool {self.name} cannot be pinned: its blocks lie on no GPU")
            self.device.context.pin(self.host.address, self.host.size)
            self._pinned = self.host.address
        return tensor_on_host(self.host.array)

    def close(self) -> None:
        """Unmap everything and let go of the descriptors."""
        if self._pinned and isinstance(self.device, GpuMapping):
            self.device.context.unpin(self._pinned)
        self._pinned, self._tensor = 0, None
        self.device.close()
        if self.host is not None:
            self.host.close()
        self.ledger.close()
        for descriptor in self.descriptors.values():
            os.close(descriptor)
        self.descriptors = {}

    def _map_new_extents(self) -> None:
        fetched = _fetch(self.socket, self.instance, self.epoch, self.name)
        for name, (descriptor, meta) in sorted(fetched.items(), key=lambda item: int(item[1][1].get("index", 0))):
            if name in self.descriptors:
                os.close(descriptor)
                continue
            self.descriptors[name] = descriptor
            if meta["kind"] == "device":
                self.device.add(Extent(name, meta["size"], descriptor, offset=meta["offset"]))


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


def _extents(fetched: Fetched, tier: str) -> list[Extent]:
    """A tier's extents that came by descriptor, in order of address."""
    found = [(meta, name, descriptor) for name, (descriptor, meta) in fetched.items() if meta["kind"] == tier]
    return [
        Extent(name, meta["size"], descriptor, offset=meta["offset"])
        for meta, name, descriptor in sorted(found, key=lambda each: int(each[0]["index"]))
    ]


def _map_device(pool: pool_pb2.Pool, fetched: Fetched) -> HostMapping | GpuMapping:
    if pool.arena == pool_pb2.ARENA_KIND_HOST:
        return _map_on_host(_extents(fetched, "device"), pool.reserve_bytes)
    gpu_uuid = pool.shards[0].gpu_uuid
    if pool.arena == pool_pb2.ARENA_KIND_CUDA:
        return CudaMapping.of(_extents(fetched, "device"), gpu_uuid=gpu_uuid, reserve=pool.reserve_bytes)
    (opened,) = (extent for extent in pool.extents if not extent.host_tier)
    return CudaIpcMapping(Extent(f"device.{pool.name}.0", opened.bytes, None, opened.handle, opened.offset), gpu_uuid)


def _map_on_host(extents: list[Extent], reserve: int) -> HostMapping:
    whole_pages = -(-reserve // mmap.PAGESIZE) * mmap.PAGESIZE
    return HostMapping.of(extents, writable=True, reserve=max(whole_pages, sum(extent.size for extent in extents)))

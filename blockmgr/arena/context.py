"""An executor's context on a GPU, and the memory of it that its mappings read, write and reserve addresses for."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from blockmgr.arena.base import ArenaError, NoSuchGpu
from blockmgr.arena.driver import DriverError, call, is_shared_by_mps, load, ordinal_of, visible_gpus

_EVERY_CONTEXT = 1
"""Host memory is pinned for every context, not for the current one alone."""


class Context:
    """The primary context of a GPU, the one that torch and cupy use too. Held until the last reference to it has gone.

    Every method makes it the calling thread's current one.
    """

    def __init__(self, gpu_uuid: str) -> None:
        """Hold the context of the GPU of this UUID, whatever its number in this process.

        Raises:
            NoSuchGpu: this process does not see it.
            ArenaError: there is no driver, or it refuses, or MPS is in use.
        """
        if is_shared_by_mps():
            raise ArenaError(
                f"{gpu_uuid} is shared by MPS, under which a dead process does not prove that its kernels have stopped: "
                "stop MPS, or have the pool lie elsewhere"
            )
        self.gpu_uuid = gpu_uuid
        self.ordinal = ordinal_of(gpu_uuid)
        self._driver = load()
        self._device = call(self._driver.cuDeviceGet, self.ordinal)
        self._context = call(self._driver.cuDevicePrimaryCtxRetain, self._device)

    def __del__(self) -> None:
        if hasattr(self, "_context") and not sys.is_finalizing():
            self._driver.cuDevicePrimaryCtxRelease(self._device)

    def enter(self) -> Any:
        """Make the context the calling thread's own, and return the driver."""
        call(self._driver.cuCtxSetCurrent, self._context)
        return self._driver

    def synchronize(self) -> None:
        """Wait until everything launched in this process has completed."""
        call(self.enter().cuCtxSynchronize)

    def read(self, address: int, length: int) -> bytes:
        """Copy bytes from the GPU, once all that was launched before has completed."""
        self.synchronize()
        into = np.empty(length, np.uint8)
        call(self._driver.cuMemcpyDtoH, into.ctypes.data, address, length)
        return into.tobytes()

    def write(self, address: int, content: bytes) -> None:
        """Copy bytes to the GPU; they are there when this returns."""
        source = np.frombuffer(content, np.uint8)
        call(self.enter().cuMemcpyHtoD, address, source.ctypes.data, len(content))
        self.synchronize()

    def zero(self, address: int, length: int) -> None:
        """Make bytes on the GPU zero; they are when this returns."""
        call(self.enter().cuMemsetD8, address, 0, length)
        self.synchronize()

    def pin(self, address: int, length: int) -> None:
        """Pin host memory, so that copies from and to it run beside everything else. `unpin` before it is unmapped."""
        call(self.enter().cuMemHostRegister, address, length, _EVERY_CONTEXT)

    def unpin(self, address: int) -> None:
        """Let go of pinned host memory, once no copy uses it."""
        self.synchronize()
        call(self._driver.cuMemHostUnregister, address)


class Region:
    """A reserved address range of a GPU, and what is mapped in it. Given up when the last reference to it has gone."""

    def __init__(self, context: Context, reserve: int) -> None:
        """Reserve `reserve` bytes of addresses; costs no memory.

        Raises:
            ArenaError: the addresses are not to be had.
        """
        self.context = context
        self.reserve = reserve
        self._pieces: list[tuple[int, int]] = []
        self.address = int(call(context.enter().cuMemAddressReserve, reserve, 0, 0, 0))

    def __del__(self) -> None:
        # At its end a process loses all of this anyway, and the driver may be gone already.
        if hasattr(self, "address") and not sys.is_finalizing():
            try:
                self.unmap(0)
                call(self.context.enter().cuMemAddressFree, self.address, self.reserve)
            except DriverError:
                # After a fault on the GPU nothing can be given up in order any more; the process's end does.
                return

    def map(self, offset: int, size: int, descriptor: int) -> None:
        """Map the memory behind a descriptor, all `size` bytes of it, at `offset`. The descriptor stays the caller's.

        Raises:
            NoSuchGpu: the memory lies on another GPU than this context.
            ArenaError: it is no memory of a GPU, or not of that size.
        """
        driver, address = self.context.enter(), self.address + offset
        kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        handle = call(driver.cuMemImportFromShareableHandle, descriptor, kind)
        try:
            self._check_place(driver, handle)
            call(driver.cuMemMap, address, size, 0, handle, 0)
        finally:
            # The mapping holds the memory from here on.
            call(driver.cuMemRelease, handle)
        self._pieces.append((offset, size))
        access = driver.CUmemAccessDesc()
        access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = self.context.ordinal
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        try:
            call(driver.cuMemSetAccess, address, size, [access], 1)
        except DriverError:
            self.unmap(offset)
            raise

    def unmap(self, offset: int) -> None:
        """Unmap every piece that begins at `offset` or behind it, once nothing that was launched can touch it."""
        gone = [piece for piece in self._pieces if piece[0] >= offset]
        if not gone:
            return
        self.context.synchronize()
        driver = self.context.enter()
        for start, size in gone:
            call(driver.cuMemUnmap, self.address + start, size)
        self._pieces = [piece for piece in self._pieces if piece not in gone]

    def _check_place(self, driver: Any, handle: Any) -> None:
        """Memory of a peer could be mapped too, and would be read over a link that nobody asked for."""
        try:
            found = int(call(driver.cuMemGetAllocationPropertiesFromHandle, handle).location.id)
        except DriverError:
            # A driver that does not tell of imported memory: what it is, the label shows.
            return
        if found != self.context.ordinal:
            seen = visible_gpus()
            other = seen[found] if 0 <= found < len(seen) else f"number {found}"
            raise NoSuchGpu(f"the memory lies on {other}, but {self.context.gpu_uuid} was announced")


def check_range(offset: int, length: int, size: int) -> None:
    """Check that bytes lie within mapped memory.

    Raises:
        ArenaError: they do not.
    """
    if offset < 0 or length < 0 or offset + length > size:
        raise ArenaError(f"{length} bytes at {offset} are outside the {size} mapped")

"""An executor's side of a cuda-ipc arena: its one extent opened by its handle, wherever CUDA puts it."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from blockmgr.arena.base import ArenaError, ArenaUnavailable, Extent
from blockmgr.arena.gpu_mapping import GpuMapping


class CudaIpcMapping(GpuMapping):
    """An executor's view of a cuda-ipc arena; see `Mapping`. The memory goes with the process that made it."""

    kind: ClassVar[str] = "cuda-ipc"

    def __init__(self, extent: Extent, gpu_uuid: str) -> None:
        """Open the extent's handle.

        Raises:
            NoSuchGpu: this process does not see that GPU.
            ArenaError: the handle cannot be opened here, or there is none.
        """
        super().__init__(gpu_uuid)
        self.context.enter()
        self._opened: _Opened | None = _Opened(extent, self.context.ordinal)
        self._offset, self._length = extent.offset, extent.size

    @property
    def address(self) -> int:
        """Where the first byte lies on the GPU, in this process."""
        return self.owner.base + self._offset

    @property
    def size(self) -> int:
        """Bytes mapped."""
        return self._length

    @property
    def reserve(self) -> int:
        """The same: there will never be more."""
        return self._length

    @property
    def owner(self) -> _Opened:
        """The opened handle; see `GpuMapping.owner`."""
        if self._opened is None:
            raise ArenaError("the mapping is closed")
        return self._opened

    def add(self, extent: Extent) -> None:
        """Refused: nothing can be mapped behind what a handle opens."""
        raise ArenaError(f"{extent.name}: memory of the kind {self.kind} cannot grow")

    def remove(self, size: int) -> None:
        """Keep everything, the only size that there is; see `Mapping.remove`."""
        if size != self._length:
            raise ArenaError(f"memory of the kind {self.kind} has {self._length} bytes, and cannot be cut at {size}")

    def close(self) -> None:
        """Give the mapping up, once the last view of it has gone. May be repeated."""
        self._opened, self._length = None, 0


class _Opened:
    """An opened handle. Closed when the last reference to it has gone."""

    def __init__(self, extent: Extent, ordinal: int) -> None:
        self._runtime = _runtime()
        self._ordinal = ordinal
        self._runtime.setDevice(ordinal)
        try:
            self.base = int(self._runtime.ipcOpenMemHandle(extent.handle))
        except RuntimeError as error:
            raise ArenaError(f"{extent.name}: its handle cannot be opened here: {error}") from error

    def __del__(self) -> None:
        if hasattr(self, "base") and not sys.is_finalizing():
            self._runtime.setDevice(self._ordinal)
            self._runtime.deviceSynchronize()
            self._runtime.ipcCloseMemHandle(self.base)


def _runtime() -> Any:
    try:
        from cupy.cuda import runtime
    except ImportError as error:
        raise ArenaUnavailable("cupy is not installed: pip install 'pagehold[cuda]'") from error
    return runtime

"""An executor's side of a cuda arena: its extents mapped one behind the other at addresses that never change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

from blockmgr.arena.base import ArenaError, Extent
from blockmgr.arena.context import Region
from blockmgr.arena.cuda import GRANULE
from blockmgr.arena.gpu_mapping import GpuMapping


class CudaMapping(GpuMapping):
    """An executor's view of a cuda arena; see `Mapping`.

    reserved: [granule: label] [extent 0] [extent 1] [ nothing yet ... ]
                               address               address + size     address + reserve
    """

    kind: ClassVar[str] = "cuda"

    def __init__(self, gpu_uuid: str, reserve: int) -> None:
        """Reserve addresses for `reserve` bytes, the largest size the pool may ever have. Costs no memory.

        Raises:
            NoSuchGpu: this process does not see that GPU.
            ArenaError: the size is not a positive multiple of a granule, or the addresses are not to be had.
        """
        if reserve <= 0 or reserve % GRANULE:
            raise ArenaError(f"address range: {reserve} bytes is not a positive multiple of {GRANULE}")
        super().__init__(gpu_uuid)
        self._region: Region | None = Region(self.context, GRANULE + reserve)
        self._starts: list[int] = []
        self._length = 0

    @classmethod
    def of(cls, extents: Iterable[Extent], *, gpu_uuid: str, reserve: int | None = None) -> Self:
        """Map `extents` in order; `reserve` is their own size unless more is asked for.

        Raises:
            ArenaError: as the constructor and `add` do.
        """
        known = list(extents)
        mapping = cls(gpu_uuid, sum(extent.size for extent in known) if reserve is None else reserve)
        for extent in known:
            mapping.add(extent)
        return mapping

    @property
    def address(self) -> int:
        """Where the first byte lies on the GPU, in this process."""
        return self.owner.address + GRANULE

    @property
    def size(self) -> int:
        """Bytes mapped at present."""
        return self._length

    @property
    def reserve(self) -> int:
        """Bytes of the address range."""
        return self.owner.reserve - GRANULE

    @property
    def owner(self) -> Region:
        """The address range itself; see `GpuMapping.owner`."""
        if self._region is None:
            raise ArenaError("the mapping is closed")
        return self._region

    def add(self, extent: Extent) -> None:
        """Map another extent behind the last one; see `Mapping.add`."""
        region, front = self.owner, 0 if self._starts else GRANULE
        if extent.descriptor is None or extent.offset != front:
            raise ArenaError(f"{extent.name}: is no extent {len(self._starts)} of a GPU's memory by descriptor")
        if self._length + extent.size > self.reserve:
            raise ArenaError(
                f"{extent.name}: {extent.size} bytes do not fit: {self._length} of {self.reserve} reserved are taken"
            )
        region.map(GRANULE - front + self._length, front + extent.size, extent.descriptor)
        self._starts.append(self._length)
        self._length += extent.size

    def remove(self, size: int) -> None:
        """Unmap the extents behind the first `size` bytes, where an extent ends; see `Mapping.remove`."""
        if size not in (*self._starts[1:], self._length):
            raise ArenaError(f"no extent ends at {size} bytes; they end at {[*self._starts[1:], self._length]}")
        if size < self._length:
            self.owner.unmap(GRANULE + size)
            self._starts = [start for start in self._starts if start < size]
            self._length = size

    def close(self) -> None:
        """Give the mapping up, once the last view of it has gone. May be repeated."""
        self._region = None
        self._starts, self._length = [], 0

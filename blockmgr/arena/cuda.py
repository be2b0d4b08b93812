"""Memory of a GPU that is shared by descriptor: made and kept by the manager without a CUDA context, mapped by executors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import ClassVar, Self

from blockmgr.arena.base import Arena, ArenaError, Extent, whole_extents
from blockmgr.arena.driver import OUT_OF_MEMORY, DriverError, allocate, granularity, ordinal_of, see_all_gpus

GRANULE = 2 << 20
"""Bytes that sizes are multiples of, and that stand in front of the first extent for its label."""

_KEPT = re.compile(r"(?P<name>.+\.\d+)@(?P<offset>\d+)\+(?P<size>\d+)")


class CudaArena(Arena):
    """Allocations of CUDA's virtual memory management, one per extent, of which only the descriptors are kept here.

    Such a descriptor does not tell how large its memory is, so the extent's name does: "NAME.INDEX@OFFSET+SIZE".
    Memory is taken from the GPU at once and goes back to it when descriptors and mappings are all gone.
    """

    kind: ClassVar[str] = "cuda"
    outlives_maker: ClassVar[bool] = True
    manager_writes: ClassVar[bool] = False
    born_zero: ClassVar[bool] = False
    granularity: ClassVar[int] = GRANULE

    def __init__(self, extents: Iterable[Extent], name: str, gpu_uuid: str) -> None:
        """Own `extents`, already checked; use `create` or `adopt`."""
        self._extents = list(extents)
        self._name = name
        self._gpu_uuid = gpu_uuid

    @classmethod
    def create(cls, size: int, name: str, *, gpu_uuid: str = "", label: bytes = b"") -> Self:
        """Take `size` bytes from the GPU, and a granule for the label; see `Arena.create`."""
        arena = cls([], name, gpu_uuid)
        arena.grow(size)
        return arena

    @classmethod
    def adopt(cls, extents: Iterable[Extent], name: str, *, gpu_uuid: str = "") -> Self:
        """Take over descriptors as they are: executors see by the label whether they have the right memory."""
        taken = list(extents)
        for index, extent in enumerate(taken):
            if extent.descriptor is None or extent.offset != (0 if index else GRANULE):
                raise ArenaError(f"{extent.name}: is no extent {index} of a GPU's memory by descriptor")
        return cls(taken, name, gpu_uuid)

    @classmethod
    def kept(cls, name: str, descriptor: int) -> Extent:
        """Read offset and size from the name; see `Arena.kept`."""
        found = _KEPT.fullmatch(name)
        if found is None:
            raise ArenaError(f"{name!r} does not say how large the GPU's memory behind it is")
        return Extent(name, int(found["size"]), descriptor, offset=int(found["offset"]))

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The allocations in order of address; see `Arena.extents`."""
        return tuple(self._extents)

    def grow(self, size: int) -> Extent:
        """Take `size` bytes more from the GPU; see `Arena.grow`."""
        index = len(self._extents)
        offset = 0 if index else GRANULE
        name = f"{self._name}.{index}@{offset}+{size}"
        if size <= 0 or size % GRANULE:
            raise ArenaError(f"{name}: {size} bytes is not a positive multiple of {GRANULE}")
        see_all_gpus()
        ordinal = ordinal_of(self._gpu_uuid)
        needed = granularity(ordinal)
        if GRANULE % needed:
            raise ArenaError(f"{name}: {self._gpu_uuid} gives memory in pieces of {needed} bytes, not of {GRANULE}")
        try:
            descriptor = allocate(ordinal, offset + size)
        except DriverError as error:
            what = f"has no {offset + size} bytes" if error.status == OUT_OF_MEMORY else f"gives no {size} bytes"
            raise ArenaError(f"{name}: {self._gpu_uuid} {what}: {error}") from error
        extent = Extent(name, size, descriptor, offset=offset)
        self._extents.append(extent)
        return extent

    def trim(self, size: int) -> tuple[Extent, ...]:
        """Let go of whole extents; the GPU has them back once no executor maps them any more. See `Arena.trim`."""
        if size < 0 or size > self.size or size % GRANULE:
            raise ArenaError(
                f"arena {self._name}: trim to {size} bytes; it must be a multiple of {GRANULE} "
                f"between 0 and the present {self.size}"
            )
        kept = whole_extents(self._extents, size)
        gone = self._extents[kept:]
        del self._extents[kept:]
        _close(gone)
        return tuple(gone)

    def zero(self, offset: int, length: int) -> None:
        """Refused: without a context nothing can be written."""
        raise ArenaError(f"arena {self._name}: its manager cannot write a GPU's memory")

    def write(self, offset: int, content: bytes) -> None:
        """Refused: without a context nothing can be written."""
        raise ArenaError(f"arena {self._name}: its manager cannot write a GPU's memory")

    def close(self) -> None:
        """Close the descriptors; see `Arena.close`."""
        _close(self._extents)
        self._extents = []


def _close(extents: Iterable[Extent]) -> None:
    for extent in extents:
        if extent.descriptor is not None:
            os.close(extent.descriptor)

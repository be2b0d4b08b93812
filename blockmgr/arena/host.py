"""Host memory that is shared by descriptor: memfds, made and kept by the manager, mapped by executors."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from typing import ClassVar, Self

from blockmgr.arena.base import Arena, ArenaError, Extent, whole_extents
from blockmgr.arena.memfd import check_extent, descriptor_of, new_extent, punch


class HostArena(Arena):
    """Memfds, one per extent: mode 0600, sealed against shrinking so that no mapping can lose the ground under it.

    Pages are taken from the machine when they are first written, and hold zeros until then.
    """

    kind: ClassVar[str] = "host"
    outlives_maker: ClassVar[bool] = True
    manager_writes: ClassVar[bool] = True
    born_zero: ClassVar[bool] = True
    granularity: ClassVar[int] = mmap.PAGESIZE

    def __init__(self, extents: Iterable[Extent], name: str) -> None:
        """Own `extents`, already checked; use `create` or `adopt`."""
        self._extents = list(extents)
        self._name = name

    @classmethod
    def create(cls, size: int, name: str, *, gpu_uuid: str = "", label: bytes = b"") -> Self:
        """Make one memfd of `size` bytes, all zeros; see `Arena.create`."""
        return cls([new_extent(size, f"{name}.0")], name)

    @classmethod
    def adopt(cls, extents: Iterable[Extent], name: str, *, gpu_uuid: str = "") -> Self:
        """Take over memfds with their contents; see `Arena.adopt`."""
        taken = list(extents)
        for extent in taken:
            check_extent(extent)
        return cls(taken, name)

    @classmethod
    def kept(cls, name: str, descriptor: int) -> Extent:
        """A memfd knows its size; see `Arena.kept`."""
        return Extent(name, os.fstat(descriptor).st_size, descriptor)

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The memfds in order of address; see `Arena.extents`."""
        return tuple(self._extents)

    def grow(self, size: int) -> Extent:
        """Add a memfd of `size` bytes; see `Arena.grow`."""
        extent = new_extent(size, f"{self._name}.{len(self._extents)}")
        self._extents.append(extent)
        return extent

    def trim(self, size: int) -> tuple[Extent, ...]:
        """Punch out all behind `size`, also under executors that still map it; see `Arena.trim`."""
        if size < 0 or size > self.size or size % self.granularity:
            raise ArenaError(
                f"arena {self._name}: trim to {size} bytes; it must be a multiple of {self.granularity} "
                f"between 0 and the present {self.size}"
            )
        self.zero(size, self.size - size)
        gone = self._extents[whole_extents(self._extents, size) :]
        del self._extents[len(self._extents) - len(gone) :]
        for extent in gone:
            os.close(descriptor_of(extent))
        return tuple(gone)

    def zero(self, offset: int, length: int) -> None:
        """Punch holes: the pages go back to the machine and read as zeros; see `Arena.zero`."""
        for extent, start, count in self._pieces(offset, length):
            punch(extent, start, count)

    def write(self, offset: int, content: bytes) -> None:
        """Write through the descriptors; see `Arena.write`."""
        view = memoryview(content)
        for extent, start, count in self._pieces(offset, len(content)):
            written = 0
            while written < count:
                written += os.pwrite(descriptor_of(extent), view[written:count], start + written)
            view = view[count:]

    def close(self) -> None:
        """Close the descriptors; see `Arena.close`."""
        for extent in self._extents:
            os.close(descriptor_of(extent))
        self._extents.clear()

    def _pieces(self, offset: int, length: int) -> Iterator[tuple[Extent, int, int]]:
        """Cut a range of the pool into (extent, offset in it, length)."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise ArenaError(f"arena {self._name}: {length} bytes at {offset} are outside its {self.size} bytes")
        start = 0
        for extent in self._extents:
            begin, end = max(offset, start), min(offset + length, start + extent.size)
            if begin < end:
                yield extent, begin - start, end - begin
            start += extent.size

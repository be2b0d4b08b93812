"""An executor's side of a host arena: its extents mapped one behind the other at addresses that never change."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from blockmgr.arena.base import ArenaError, Extent
from blockmgr.arena.memfd import check_extent, check_size, descriptor_of, map_memory, unmap_memory

_PROT_NONE = 0
_MAP_FIXED, _MAP_NORESERVE = 0x10, 0x4000


class _Region:
    """A reserved address range. It is unmapped when the last reference to it, such as a numpy view's, has gone."""

    def __init__(self, reserve: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self.address = map_memory(None, reserve, _PROT_NONE, flags, -1)
        self.reserve = reserve

    def array(self, length: int, writable: bool) -> npt.NDArray[np.uint8]:
        window = _Window(self, length, writable)
        return np.asarray(window)

    def __del__(self) -> None:
        if hasattr(self, "reserve"):
            unmap_memory(self.address, self.reserve)


class _Window:
    """Numpy's way to memory that is not Python's: the array keeps this object, and this object keeps the region."""

    def __init__(self, region: _Region, length: int, writable: bool) -> None:
        self._region = region
        self.__array_interface__ = {
            "version": 3,
            "data": (region.address, not writable),
            "shape": (length,),
            "typestr": "|u1",
        }


class HostMapping:
    """An executor's view of a host arena: all extents, one behind the other, at addresses that never change.

    The mapping holds the memory by itself: the descriptors stay the caller's, who may close them afterwards.
    Views taken from it stay valid after `close`; the addresses are given up when the last view has gone too.
    """

    kind: ClassVar[str] = "host"
    ordinal: ClassVar[None] = None

    def __init__(self, reserve: int, *, writable: bool) -> None:
        """Reserve addresses for `reserve` bytes, the largest size the pool may ever have. Costs no memory.

        Raises:
            ArenaError: the size is not a positive multiple of the page size, or the addresses are not to be had.
        """
        check_size(reserve, "address range")
        self._region: _Region | None = _Region(reserve)
        self._writable = writable
        self._length = 0

    @classmethod
    def of(cls, extents: Iterable[Extent], *, writable: bool, reserve: int | None = None) -> Self:
        """Map `extents` in order; `reserve` is their own size unless more is asked for.

        Raises:
            ArenaError: as the constructor and `add` do.
        """
        known = list(extents)
        mapping = cls(sum(extent.size for extent in known) if reserve is None else reserve, writable=writable)
        for extent in known:
            mapping.add(extent)
        return mapping

    @property
    def address(self) -> int:
        """Where the first byte lies in this process."""
        return self._open().address

    @property
    def size(self) -> int:
        """Bytes mapped at present."""
        return self._length

    @property
    def reserve(self) -> int:
        """Bytes of the address range."""
        return self._open().reserve

    @property
    def whole(self) -> npt.NDArray[np.uint8]:
        """The address range, `[reserve]`. To touch it behind `size` is a fault."""
        region = self._open()
        return region.array(region.reserve, self._writable)

    @property
    def array(self) -> npt.NDArray[np.uint8]:
        """The bytes mapped at present, `[size]`, read-only unless mapped writable. A view, no copy."""
        return self._open().array(self._length, self._writable)

    def add(self, extent: Extent) -> None:
        """Map another extent behind the last one. Views taken before keep their length.

        Raises:
            ArenaError: it does not fit the reserved range, is not memory of this kind, or is not as large as it says.
        """
        region = self._open()
        check_extent(extent)
        if self._length + extent.size > region.reserve:
            raise ArenaError(
                f"{extent.name}: {extent.size} bytes do not fit: {self._length} of {region.reserve} reserved are taken"
            )
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if self._writable else 0)
        map_memory(
            region.address + self._length,
            extent.size,
            protection,
            mmap.MAP_SHARED | _MAP_FIXED,
            descriptor_of(extent),
        )
        self._length += extent.size

    def remove(self, size: int) -> None:
        """Unmap all but the first `size` bytes, as after `Arena.trim`. Touching them afterwards is a fault.

        Raises:
            ArenaError: `size` is beyond what is mapped, or no multiple of the page size.
        """
        region = self._open()
        if size < 0 or size > self._length or size % mmap.PAGESIZE:
            raise ArenaError(f"{size} bytes is not a multiple of {mmap.PAGESIZE} up to the {self._length} mapped")
        if size < self._length:
            # Mapped over instead of unmapped, so that the range stays reserved.
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED
            map_memory(region.address + size, self._length - size, _PROT_NONE, flags, -1)
            self._length = size

    def read(self, offset: int, length: int) -> bytes:
        """Copy bytes out; see `Mapping.read`."""
        return self._piece(offset, length).tobytes()

    def write(self, offset: int, content: bytes) -> None:
        """Copy bytes in; see `Mapping.write`."""
        self._piece(offset, len(content))[:] = np.frombuffer(content, np.uint8)

    def zero(self, offset: int, length: int) -> None:
        """Make bytes zero; see `Mapping.zero`."""
        self._piece(offset, length)[:] = 0

    def _piece(self, offset: int, length: int) -> npt.NDArray[np.uint8]:
        if offset < 0 or length < 0 or offset + length > self._length:
            raise ArenaError(f"{length} bytes at {offset} are outside the {self._length} mapped")
        return self.array[offset : offset + length]

    def close(self) -> None:
        """Give the mapping up, once the last view of it has gone. May be repeated."""
        self._region = None
        self._length = 0

    def _open(self) -> _Region:
        if self._region is None:
            raise ArenaError("the mapping is closed")
        return self._region

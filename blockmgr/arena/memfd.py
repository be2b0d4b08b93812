"""Memfds as extents: making, checking, mapping and punching them, for which Python has no calls of its own."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import stat

from blockmgr.arena.base import ArenaError, Extent

_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def descriptor_of(extent: Extent) -> int:
    """Return the extent's descriptor, which stays its owner's.

    Raises:
        ArenaError: the extent has none.
    """
    if extent.descriptor is None:
        raise ArenaError(f"{extent.name}: host memory comes as a descriptor, and there is none")
    return extent.descriptor


def check_size(size: int, what: str) -> None:
    """Check that `size` bytes can be mapped.

    Raises:
        ArenaError: it is not a positive multiple of the page size; `what` is named.
    """
    if size <= 0 or size % mmap.PAGESIZE:
        raise ArenaError(f"{what}: {size} bytes is not a positive multiple of {mmap.PAGESIZE}")


def check_extent(extent: Extent) -> None:
    """Check that the extent is what it says: a mapping longer than its file is a SIGBUS later on.

    Raises:
        ArenaError: no memfd, not sealed against shrinking, or of another size.
    """
    check_size(extent.size, extent.name)
    descriptor = descriptor_of(extent)
    try:
        found = os.fstat(descriptor)
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError as error:
        raise ArenaError(f"{extent.name}: descriptor {descriptor} is no memfd: {error}") from error
    if not stat.S_ISREG(found.st_mode) or found.st_size != extent.size:
        raise ArenaError(f"{extent.name}: holds {found.st_size} bytes where {extent.size} were announced")
    if not seals & fcntl.F_SEAL_SHRINK:
        raise ArenaError(f"{extent.name}: is not sealed against shrinking")


def new_extent(size: int, name: str) -> Extent:
    """Make a memfd of `size` bytes, all zeros: mode 0600, sealed against shrinking. The caller owns its descriptor.

    Raises:
        ArenaError: the size does not fit, or the machine has no descriptor or memory for it.
    """
    check_size(size, name)
    try:
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except (OSError, ValueError) as error:
        raise ArenaError(f"{name}: no memfd: {error}") from error
    try:
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, size)
        # Not sealed against growing: that costs nothing here, and against writing it would seal out the executors.
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    except OSError as error:
        os.close(descriptor)
        raise ArenaError(f"{name}: no {size} bytes of memory: {error}") from error
    return Extent(name, size, descriptor)


def punch(extent: Extent, start: int, length: int) -> None:
    """Give back the pages of `length` bytes at `start` of the extent; they read as zeros in every mapping.

    Raises:
        ArenaError: the kernel refuses.
    """
    flags = _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE
    if _libc.fallocate(descriptor_of(extent), flags, start, length) != 0:
        raise ArenaError(f"{extent.name}: cannot punch {length} bytes at {start}: {_errno_text()}")


def unmap_memory(address: int, length: int) -> None:
    """Unmap a range. Whatever still points into it faults when it is used."""
    _libc.munmap(address, length)


def map_memory(address: int | None, length: int, protection: int, flags: int, descriptor: int) -> int:
    """Call mmap with offset 0 and return where it mapped; the descriptor is not needed afterwards.

    Raises:
        ArenaError: the kernel refuses.
    """
    found = _libc.mmap(address, length, protection, flags, descriptor, 0)
    if found is None or found == _MAP_FAILED:
        raise ArenaError(f"{length} bytes cannot be mapped: {_errno_text()}")
    return int(found)


def _errno_text() -> str:
    number = ctypes.get_errno()
    return f"{errno.errorcode.get(number, number)}: {os.strerror(number)}"

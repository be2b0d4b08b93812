"""Shared memory over a memfd, and the one place through which everything is stored into it.

A process that dies leaves every store before its death whole, and of the store it died in any part. Because all stores
pass through ``SharedMemory``, a test can die at each of them in turn and see what recovery makes of the rest.

Stores become visible to other processes in the order in which they are made. That is x86-64's rule; a machine with
a weaker one needs a barrier between them.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import stat
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import DTypeLike

from blockmgr.core.columns import Array, Indexes
from blockmgr.core.errors import LedgerCorrupt
from blockmgr.core.schema import PAGE, pages

WORD = 8
"""Bytes of a word: the unit that a single store writes whole."""

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2

_NAME_BYTES = 200
"""The kernel takes 249; the name only helps whoever reads ``/proc``."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class StoreHook(Protocol):
    """Called ahead of a store that puts ``values`` at ``indexes`` of ``target`` (None: all of it). May raise."""

    def __call__(self, target: Array, indexes: Indexes | None, values: Array) -> None:
        """Watch one store, or put part of it in place and raise in its stead."""


class SharedMemory:
    """A memfd and its mapping. Owns the descriptor; views taken from it keep the mapping alive beyond ``close``."""

    on_store: ClassVar[StoreHook | None] = None
    """For tests: sees every store of every ``SharedMemory`` of the process."""

    def __init__(self, descriptor: int, *, writable: bool) -> None:
        """Take over a checked descriptor; ``create`` and ``adopt`` are the ways in."""
        self.descriptor = descriptor
        self.nbytes = os.fstat(descriptor).st_size
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        self._mapping = mmap.mmap(descriptor, self.nbytes, access=access)
        self._words = memoryview(self._mapping).cast("q")
        self._bytes = self.array("u1", self.nbytes, 0)

    @classmethod
    def create(cls, name: str, nbytes: int) -> Self:
        """Make memory of at least ``nbytes`` bytes, all zero and not yet allocated: mode 0600, of a size that is final."""
        descriptor = os.memfd_create(
            name.encode()[:_NAME_BYTES].decode(errors="ignore"), os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        )
        try:
            os.fchmod(descriptor, 0o600)
            os.ftruncate(descriptor, pages(nbytes))
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            return cls(descriptor, writable=True)
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def adopt(cls, descriptor: int, *, writable: bool = True) -> Self:
        """Take over memory that exists. On success the descriptor is this object's, otherwise still the caller's.

        A descriptor that is open for reading only serves for writing too: it is opened anew under the same number.

        Raises:
            LedgerCorrupt: it is no memory that ``create`` made; mapping it could fault later on.
        """
        _check(descriptor)
        if writable and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            anew = reopen(descriptor, os.O_RDWR)
            os.dup2(anew, descriptor, inheritable=False)
            os.close(anew)
        return cls(descriptor, writable=writable)

    # -- reading -----------------------------------------------------------------------------------------------------

    def array(self, dtype: DTypeLike, count: int, offset: int) -> Array:
        """A view of ``count`` elements from byte ``offset`` on; read-only if the mapping is.

        Everything is stored through the methods below, never through the view itself. Reading a page that nobody
        wrote allocates it.
        """
        return np.frombuffer(self._mapping, dtype=dtype, count=count, offset=offset)

    def word(self, offset: int) -> int:
        """The aligned word at a byte offset, in one load."""
        return self._words[offset // WORD]

    def pread(self, offset: int, nbytes: int) -> bytes:
        """A copy of some bytes, by the descriptor: allocates nothing where nothing was written."""
        into = np.empty(nbytes, dtype=np.uint8)
        self._pread_into(offset, into)
        return into.tobytes()

    def read_written(self, offset: int, into: Array) -> None:
        """Copy from byte ``offset`` on whatever was ever written into ``into``, a contiguous array.

        Pages that were not written are left alone on both sides, so a sparse column costs what it holds.
        """
        target = into.view(np.uint8)
        at, end = offset, offset + target.nbytes
        while at < end and (first := self._next_data(at)) < end:
            at = min(os.lseek(self.descriptor, first, os.SEEK_HOLE), end)
            self._pread_into(first, target[first - offset : at - offset])

    def _next_data(self, at: int) -> int:
        try:
            return os.lseek(self.descriptor, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return self.nbytes

    def _pread_into(self, offset: int, into: Array) -> None:
        done = 0
        while done < into.nbytes:
            got = os.preadv(self.descriptor, [into[done:].data], offset + done)
            if got == 0:
                raise LedgerCorrupt(f"memory ends at byte {offset + done}, within what was to be read")
            done += got

    # -- storing -----------------------------------------------------------------------------------------------------

    def store_word(self, offset: int, value: int) -> None:
        """Put one aligned word in place with a single store: others see the old value or the new one."""
        if self.on_store is not None:
            self.on_store(self.array("i8", 1, offset), None, np.array([value], dtype=np.int64))
        self._words[offset // WORD] = value

    def store_slice(self, target: Array, values: Array) -> None:
        """Fill a view of this memory. A reader, or a recovery, may find any part of it done."""
        if self.on_store is not None:
            self.on_store(target, None, values)
        target[...] = values

    def store_bytes(self, offset: int, data: bytes) -> None:
        """Put bytes in place from a byte offset on, as ``store_slice`` does."""
        self.store_slice(self._bytes[offset : offset + len(data)], np.frombuffer(data, dtype=np.uint8))

    def scatter(self, target: Array, indexes: Indexes, values: Array) -> None:
        """Set single elements of a view. Any part of them may be found done; an aligned word is never half done."""
        if self.on_store is not None:
            self.on_store(target, indexes, values)
        target[indexes] = values

    def punch(self, offset: int, nbytes: int) -> None:
        """Give back the whole pages within a range of bytes; they read as zeros afterwards, everywhere."""
        first, last = pages(offset), (offset + nbytes) // PAGE * PAGE
        if first >= last:
            return
        flags = _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE
        if _libc.fallocate(self.descriptor, flags, first, last - first) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot give back {last - first} bytes at {first}: {os.strerror(number)}")

    def close(self) -> None:
        """Close the descriptor and give up the mapping, which goes with its last view. May be repeated."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
            del self._bytes, self._words, self._mapping


def reopen(descriptor: int, flags: int) -> int:
    """Open the same memory anew: a file description that shares neither lock nor access mode. The caller owns it."""
    return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_CLOEXEC)


def _check(descriptor: int) -> None:
    """Refuse what cannot be mapped safely: reading beyond the end of a file is a fault, not an error."""
    found = os.fstat(descriptor)
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError as error:
        raise LedgerCorrupt(f"descriptor {descriptor} is no shared memory: {error.strerror}") from error
    if seals & _SEALS != _SEALS:
        raise LedgerCorrupt(
            f"descriptor {descriptor} has the seals {seals:#x}, but needs {_SEALS:#x}: its size is not final"
        )
    if not stat.S_ISREG(found.st_mode) or found.st_size == 0 or found.st_size % PAGE:
        raise LedgerCorrupt(f"descriptor {descriptor} holds {found.st_size} bytes, but must hold whole pages")

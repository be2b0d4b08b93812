"""What the manager needs of the memory behind a pool, whatever kind of memory it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Protocol, Self


class ArenaError(Exception):
    """Memory cannot be made, taken over, changed or mapped as asked; the text names the value and the limit."""


class ArenaUnavailable(ArenaError):
    """Memory of this kind cannot be had on this machine as it is: a driver or a library is missing, or does not answer."""


class NoSuchGpu(ArenaError):
    """The GPU that memory lies on, or is to lie on, is not one that this process can use; both UUIDs are named."""


@dataclass(frozen=True)
class Extent:
    """One piece of a pool's memory, in the form in which it reaches another process.

    Either `descriptor` is set (memory that is kept by whoever holds a copy of it) or `handle` is (memory that lives
    only as long as its maker). `size` is in bytes; the allocation that descriptor or handle opens has `offset` bytes
    more in front of it. `name` is what the piece is kept under: with the descriptor it is all there is to know of it.
    """

    name: str
    size: int
    descriptor: int | None = None
    handle: bytes = b""
    offset: int = 0


class Arena(ABC):
    """The memory of one shard of a pool: a run of extents that every process maps one behind the other.

        address range reserved for the largest size
    [label] |-- extent 0 --|-- extent 1 --|.............|
            0              size of 0      size          reserved by each mapping

    On a GPU the first extent has a label in front of it (`label`), by which whoever maps it sees that it is this pool's.

    The manager makes and owns the memory and never maps it: it reads no keys or values, and needs no GPU context.
    It owns the extents' descriptors, or the child process that holds the handles. Executors own mappings.

    Memory may be freed only by the manager, and only when no block in it is referenced or fenced; `trim` is the way.
    `close` is not: it lets go of this process's descriptors, and the memory stays as long as anybody, such as the
    keeper or an executor, holds another copy or a mapping (if `outlives_maker`; if not, it goes with its maker).
    """

    #: Name of the kind in settings and messages: "host", "cuda" or "cuda-ipc".
    kind: ClassVar[str]

    #: Whether contents outlast the manager's process. A restart without loss needs it.
    outlives_maker: ClassVar[bool]

    #: Whether the manager itself can put bytes there (`zero`, `write`). If not, new memory is undefined until the
    #: first executor that maps it has zeroed it, or its maker has (`born_zero`).
    manager_writes: ClassVar[bool]

    #: Whether memory reads as zeros when it is made. If not, it is the first executor who zeroes it and writes the label.
    born_zero: ClassVar[bool]

    #: Sizes of extents are multiples of this many bytes.
    granularity: ClassVar[int]

    @classmethod
    @abstractmethod
    def create(cls, size: int, name: str, *, gpu_uuid: str = "", label: bytes = b"") -> Self:
        """Make new memory of `size` bytes, in one extent; `name` begins the names of the extents.

        On a GPU it lies on the one of that UUID, and `label` is what the label in front of it is made of.

        Raises:
            ArenaError: the size is not a positive multiple of the granularity, or there is no such memory.
            NoSuchGpu: the GPU is not one of this machine's.
        """

    @classmethod
    @abstractmethod
    def adopt(cls, extents: Iterable[Extent], name: str, *, gpu_uuid: str = "") -> Self:
        """Take over memory that exists, with its contents, in the order of its extents. Owns their descriptors then.

        Raises:
            ArenaError: an extent is not memory of this kind, or not of the size it states, or memory of this kind does
                not outlive its maker. The caller keeps all.
        """

    @classmethod
    @abstractmethod
    def kept(cls, name: str, descriptor: int) -> Extent:
        """Describe the extent that was kept under this name by its descriptor, which stays the caller's.

        Raises:
            ArenaError: the name or the descriptor is none of an extent of this kind.
        """

    @property
    @abstractmethod
    def extents(self) -> tuple[Extent, ...]:
        """The extents in order of address. Descriptors stay the arena's: duplicate one to keep it."""

    @property
    def size(self) -> int:
        """Bytes of all extents together."""
        return sum(extent.size for extent in self.extents)

    @abstractmethod
    def grow(self, size: int) -> Extent:
        """Add an extent of `size` bytes behind the last one and return it. Nothing that exists moves.

        Raises:
            ArenaError: as for `create`.
        """

    @abstractmethod
    def trim(self, size: int) -> tuple[Extent, ...]:
        """Give back the memory of all but the first `size` bytes, and return the extents that are gone.

        Whole extents behind are dropped and their descriptors closed. The extent in which `size` falls stays as long
        as it is; behind `size` it holds no memory and, where the manager can write, reads as zeros.
        No block behind `size` may be referenced or fenced: its contents are lost at once, mapped or not.

        Raises:
            ArenaError: `size` is negative, beyond the present size, or no multiple of the granularity.
        """

    @abstractmethod
    def zero(self, offset: int, length: int) -> None:
        """Make `length` bytes at `offset` read as zeros in every mapping.

        Raises:
            ArenaError: outside the memory, or this kind cannot be written by the manager (`manager_writes`).
        """

    @abstractmethod
    def write(self, offset: int, content: bytes) -> None:
        """Put `content` at `offset`. For probes: blocks are written by executors only.

        Raises:
            ArenaError: outside the memory, or this kind cannot be written by the manager (`manager_writes`).
        """

    def lost(self) -> str | None:
        """Say why the memory is gone though nobody gave it back; None while it is there."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Let go of this process's hold on the memory. May be repeated."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def whole_extents(extents: Sequence[Extent], size: int) -> int:
    """How many extents, from the first on, hold the first `size` bytes."""
    count, start = 0, 0
    while start < size:
        start += extents[count].size
        count += 1
    return count


class Mapping(Protocol):
    """An executor's view of an arena: all extents, one behind the other, at addresses that never change.

    The mapping holds the memory by itself: the descriptors stay the caller's, who may close them afterwards. Views and
    tensors over it stay valid after `close`; the addresses are given up when the last of them has gone too.
    """

    #: Name of the arena's kind.
    kind: ClassVar[str]

    @property
    def address(self) -> int:
        """Where the first byte lies in this process: for a GPU, on the GPU."""

    @property
    def size(self) -> int:
        """Bytes mapped at present."""

    @property
    def reserve(self) -> int:
        """Bytes of the address range, the largest size that the memory may ever have. Behind `size` nothing is mapped."""

    @property
    def ordinal(self) -> int | None:
        """Number of the GPU among those that this process sees; None: the host's memory."""

    def add(self, extent: Extent) -> None:
        """Map another extent behind the last one.

        Raises:
            ArenaError: it does not fit, is not memory of this kind, or is not as large as it says.
        """

    def remove(self, size: int) -> None:
        """Unmap what lies behind the first `size` bytes, as after `Arena.trim`.

        Raises:
            ArenaError: `size` is beyond what is mapped, or not where memory of this kind can be cut.
        """

    def read(self, offset: int, length: int) -> bytes:
        """Copy bytes out, once all that was launched before has completed. Raises `ArenaError` outside the memory."""

    def write(self, offset: int, content: bytes) -> None:
        """Copy bytes in; they are there when this returns. Raises `ArenaError` outside the memory."""

    def zero(self, offset: int, length: int) -> None:
        """Make bytes zero; they are when this returns. Raises `ArenaError` outside the memory."""

    def close(self) -> None:
        """Give the mapping up, once the last view of it has gone. May be repeated."""

"""What the manager needs of the memory behind a pool, whatever kind of memory it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Self


class ArenaError(Exception):
    """Memory cannot be made, taken over, changed or mapped as asked; the text names the value and the limit."""


@dataclass(frozen=True)
class Extent:
    """One piece of a pool's memory, in the form in which it reaches another process.

    Either `descriptor` is set (memory that is kept by whoever holds a copy of it) or `handle` is (memory that lives
    only as long as its maker; `offset` is where the piece begins, in bytes, in the allocation that the handle opens).
    `size` is in bytes.
    """

    name: str
    size: int
    descriptor: int | None = None
    handle: bytes = b""
    offset: int = 0


class Arena(ABC):
    """The memory of one shard of a pool: a run of extents that every process maps one behind the other.

        address range reserved for the largest size
        |-- extent 0 --|-- extent 1 --|.............|
        0              size of 0      size          reserved by each mapping

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
    #: first executor that maps it has zeroed it, and it is the executors who write and check probes.
    manager_writes: ClassVar[bool]

    #: Sizes of extents are multiples of this many bytes.
    granularity: ClassVar[int]

    @classmethod
    @abstractmethod
    def create(cls, size: int, name: str) -> Self:
        """Make new memory of `size` bytes, in one extent; `name` is for people and names the extents.

        Raises:
            ArenaError: the size is not a positive multiple of the granularity, or there is no such memory.
        """

    @classmethod
    @abstractmethod
    def adopt(cls, extents: Iterable[Extent], name: str) -> Self:
        """Take over memory that exists, with its contents, in the order of its extents. Owns their descriptors then.

        Raises:
            ArenaError: an extent is not memory of this kind, or not of the size it states. The caller keeps all.
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

    @abstractmethod
    def close(self) -> None:
        """Let go of this process's hold on the memory. May be repeated."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

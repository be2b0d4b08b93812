"""What executors' mappings of a GPU's memory have in common, however it came."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from blockmgr.arena.base import Extent
from blockmgr.arena.context import Context, check_range
from blockmgr.arena.label import LABEL_BYTES, check_label, label_of


class GpuMapping(ABC):
    """An executor's view of a pool's memory on a GPU, with the label in front of it; see `Mapping`."""

    kind: ClassVar[str]

    def __init__(self, gpu_uuid: str) -> None:
        """Hold a context on the GPU of this UUID, whatever its number in this process.

        Raises:
            NoSuchGpu: this process does not see that GPU.
            ArenaError: there is no driver, or it refuses.
        """
        self.context = Context(gpu_uuid)

    @property
    @abstractmethod
    def address(self) -> int:
        """Where the first byte lies on the GPU, in this process."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes mapped at present."""

    @property
    @abstractmethod
    def reserve(self) -> int:
        """Bytes of the address range."""

    @property
    @abstractmethod
    def owner(self) -> object:
        """What keeps the addresses: whoever makes a view of them keeps this too. Raises `ArenaError` once closed."""

    @abstractmethod
    def add(self, extent: Extent) -> None:
        """Map another extent behind the last one; see `Mapping.add`."""

    @abstractmethod
    def remove(self, size: int) -> None:
        """Unmap what lies behind the first `size` bytes; see `Mapping.remove`."""

    @abstractmethod
    def close(self) -> None:
        """Give the mapping up, once the last view of it has gone. May be repeated."""

    @property
    def ordinal(self) -> int:
        """Number of the GPU among those that this process sees."""
        return self.context.ordinal

    def read(self, offset: int, length: int) -> bytes:
        """Copy bytes out; see `Mapping.read`."""
        check_range(offset, length, self.size)
        return self.context.read(self.address + offset, length)

    def write(self, offset: int, content: bytes) -> None:
        """Copy bytes in; see `Mapping.write`."""
        check_range(offset, len(content), self.size)
        self.context.write(self.address + offset, content)

    def zero(self, offset: int, length: int) -> None:
        """Make bytes zero; see `Mapping.zero`."""
        check_range(offset, length, self.size)
        self.context.zero(self.address + offset, length)

    def make_ready(self, label: bytes) -> None:
        """Zero new memory, and then write the label: whoever finds that finds zeros too."""
        self.zero(0, self.size)
        self.context.write(self.address - LABEL_BYTES, label_of(label))

    def check(self, label: bytes) -> None:
        """Check the label in front of the memory.

        Raises:
            LabelMismatch: it is another's, or there is none.
        """
        check_label(self.context.read(self.address - LABEL_BYTES, LABEL_BYTES), label)

"""Arrays on their way to the GPU and results on their way back, through memory that nobody has to wait for."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from executor.engine.gpu.runtime import Runtime

ALIGNMENT = 64
"""Bytes. Kernels are compiled for pointers to multiples of 16: no array may begin elsewhere, or another is compiled."""

BUNDLES = 8
"""Commands that can be on their way at once. An engine has two steps in flight, and few copies."""


@dataclass(slots=True)
class Bundle:
    """Everything that one command brings to the GPU, and what comes back of it."""

    outward: torch.Tensor
    """Pinned memory of the host, uint8."""
    homeward: torch.Tensor
    """The same for what comes back."""
    target: torch.Tensor
    """The GPU's memory for what is brought, the same for every bundle: the stream orders their use of it."""
    used: int = 0
    returned: int = 0
    spilled: list[torch.Tensor] = field(default_factory=list)
    """What found no place, in memory of its own, kept until the command has completed."""

    def put(self, array: NDArray[Any]) -> torch.Tensor:
        """The array as a tensor on the GPU, there once the bundle is sent."""
        begin = self.used
        end = begin + array.nbytes
        if end > len(self.outward):
            return self._spill(array)
        self.used = -(-end // ALIGNMENT) * ALIGNMENT
        if array.nbytes:
            self.outward.numpy()[begin:end] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        dtype = torch.from_numpy(array[:0]).dtype
        return self.target[begin:end].view(dtype).view(array.shape)

    def _spill(self, array: NDArray[Any]) -> torch.Tensor:
        """Take an array that finds no place, as all tables of an engine that starts again may be."""
        own = torch.from_numpy(np.ascontiguousarray(array))
        if self.target.is_cuda:
            own = own.pin_memory()
        self.spilled.append(own)
        return own.to(self.target.device, non_blocking=True)

    def send(self) -> None:
        """Bring everything put so far, in one copy on the current stream."""
        if self.used:
            self.target[: self.used].copy_(self.outward[: self.used], non_blocking=True)

    def fetch(self, tensor: torch.Tensor) -> torch.Tensor:
        """Bring a tensor back: the copy, on the host, is right once the stream has come so far."""
        begin = self.returned
        end = begin + tensor.nbytes
        if end > len(self.homeward):
            raise ValueError(f"results of {end} bytes; a command has room for {len(self.homeward)}")
        self.returned = -(-end // ALIGNMENT) * ALIGNMENT
        home = self.homeward[begin:end].view(tensor.dtype).view(tensor.shape)
        return home.copy_(tensor, non_blocking=True)


class Staging:
    """Bundles of pinned memory, each used by one command at a time. The memory is this object's, and lives as long."""

    def __init__(self, runtime: Runtime, outward: int, homeward: int) -> None:
        """Bundles with room for so many bytes out and back."""
        self._target = torch.empty(outward, dtype=torch.uint8, device=runtime.device)
        self._free: SimpleQueue[Bundle] = SimpleQueue()
        for _ in range(BUNDLES):
            self._free.put(Bundle(runtime.pinned(outward), runtime.pinned(homeward), self._target))

    def take(self) -> Bundle:
        """A bundle that no command has. Waits if there is none, until one has completed."""
        bundle = self._free.get()
        bundle.used = bundle.returned = 0
        bundle.spilled.clear()
        return bundle

    def give_back(self, bundle: Bundle) -> None:
        """The bundle's command has completed, and its results are read. From any thread."""
        self._free.put(bundle)

    @contextmanager
    def used_now(self) -> Iterator[Bundle]:
        """A bundle for work that is waited for before the block ends. For the start only."""
        bundle = self.take()
        try:
            yield bundle
        finally:
            self.give_back(bundle)

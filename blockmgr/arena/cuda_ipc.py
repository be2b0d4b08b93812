"""Memory of a GPU that is shared by handle, where descriptors cannot be passed. It lives in a process of its own, a child
of the manager, so that the manager has no CUDA context; and it lives only as long as that process.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterable
from typing import ClassVar, Self

from blockmgr.arena.base import Arena, ArenaError, Extent
from blockmgr.arena.cuda import GRANULE
from blockmgr.arena.driver import VISIBLE
from blockmgr.arena.nvml import find_gpu

HOLDER = (sys.executable, "-m", "blockmgr.arena.ipc_holder")
START_SECONDS = 60.0
"""How long the child may take: most of it is Python's imports and the GPU's context."""

END_SECONDS = 5.0


class CudaIpcArena(Arena):
    """One allocation of `cudaMalloc`, made, zeroed and labelled by a child process, which holds it until this is closed.

    It cannot grow: whoever opens a handle has the memory where CUDA puts it, and nothing can be mapped behind it.
    The death of the child or of the manager is the end of the memory (`lost`).
    """

    kind: ClassVar[str] = "cuda-ipc"
    outlives_maker: ClassVar[bool] = False
    manager_writes: ClassVar[bool] = False
    born_zero: ClassVar[bool] = True
    granularity: ClassVar[int] = GRANULE

    def __init__(self, holder: subprocess.Popen[bytes], extent: Extent, name: str) -> None:
        """Own the child that holds `extent`; use `create`."""
        self._holder = holder
        self._extents = [extent]
        self._name = name
        self._closed = False

    @classmethod
    def create(cls, size: int, name: str, *, gpu_uuid: str = "", label: bytes = b"") -> Self:
        """Start a child that takes the memory; see `Arena.create`. Takes seconds."""
        if size <= 0 or size % GRANULE:
            raise ArenaError(f"{name}.0: {size} bytes is not a positive multiple of {GRANULE}")
        find_gpu(gpu_uuid)
        holder = subprocess.Popen(
            [*HOLDER, str(size), label.hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {VISIBLE: gpu_uuid},
        )
        try:
            extent = _answer(holder, f"{name}.0", size)
        except BaseException:
            _end(holder)
            raise
        return cls(holder, extent, name)

    @classmethod
    def adopt(cls, extents: Iterable[Extent], name: str, *, gpu_uuid: str = "") -> Self:
        """Refused: with the manager that made it the memory has gone."""
        raise ArenaError(f"arena {name}: memory of the kind {cls.kind} goes with the manager that made it")

    @classmethod
    def kept(cls, name: str, descriptor: int) -> Extent:
        """Refused: there is no descriptor that could be kept."""
        raise ArenaError(f"{name}: memory of the kind {cls.kind} has no descriptor")

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The one allocation; see `Arena.extents`."""
        return tuple(self._extents)

    @property
    def holder_pid(self) -> int:
        """Id of the process that holds the memory."""
        return self._holder.pid

    def grow(self, size: int) -> Extent:
        """Refused; see the class."""
        raise ArenaError(f"arena {self._name}: memory of the kind {self.kind} cannot grow by {size} bytes, or at all")

    def trim(self, size: int) -> tuple[Extent, ...]:
        """Keep the one extent as it is, or give all of it back; see `Arena.trim`."""
        if size < 0 or size > self.size or size % GRANULE:
            raise ArenaError(
                f"arena {self._name}: trim to {size} bytes; it must be a multiple of {GRANULE} "
                f"between 0 and the present {self.size}"
            )
        if size:
            return ()
        gone, self._extents = tuple(self._extents), []
        self.close()
        return gone

    def zero(self, offset: int, length: int) -> None:
        """Refused: without a context nothing can be written."""
        raise ArenaError(f"arena {self._name}: its manager cannot write a GPU's memory")

    def write(self, offset: int, content: bytes) -> None:
        """Refused: without a context nothing can be written."""
        raise ArenaError(f"arena {self._name}: its manager cannot write a GPU's memory")

    def lost(self) -> str | None:
        """The memory is gone once the child has ended; see `Arena.lost`."""
        if self._closed or self._holder.poll() is None:
            return None
        return f"process {self._holder.pid}, which held it, has ended with {self._holder.returncode}"

    def close(self) -> None:
        """End the child, and the memory with it. May be repeated."""
        if not self._closed:
            self._closed = True
            _end(self._holder)


def _answer(holder: subprocess.Popen[bytes], name: str, size: int) -> Extent:
    """Wait for the child's one line: the handle, or why there is none."""
    assert holder.stdout is not None
    ready, _, _ = select.select([holder.stdout], [], [], START_SECONDS)
    line = holder.stdout.readline() if ready else b""
    if not line:
        why = f"has ended with {holder.wait(END_SECONDS)}" if ready else f"does not answer within {START_SECONDS} s"
        raise ArenaError(f"{name}: the process that is to hold the memory {why}")
    answer = json.loads(line)
    if "error" in answer:
        raise ArenaError(f"{name}: {answer['error']}")
    return Extent(name, size, handle=bytes.fromhex(answer["handle"]), offset=answer["offset"])


def _end(holder: subprocess.Popen[bytes]) -> None:
    """Close what the child waits on, which ends it, and make sure that it does."""
    for pipe in (holder.stdin, holder.stdout):
        if pipe is not None:
            pipe.close()
    try:
        holder.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        holder.kill()
        holder.wait(END_SECONDS)

"""Memory for blocks, shared across processes: the interface (`Arena`), its kinds, and how another process maps them.

Nothing of a GPU is loaded before memory of it is made or mapped.
"""

from __future__ import annotations

from blockmgr.arena.base import Arena, ArenaError, ArenaUnavailable, Extent, Mapping, NoSuchGpu
from blockmgr.arena.cuda import CudaArena
from blockmgr.arena.cuda_ipc import CudaIpcArena
from blockmgr.arena.cuda_ipc_mapping import CudaIpcMapping
from blockmgr.arena.cuda_mapping import CudaMapping
from blockmgr.arena.gpu_mapping import GpuMapping
from blockmgr.arena.host import HostArena
from blockmgr.arena.label import LabelMismatch
from blockmgr.arena.mapping import HostMapping

#: Every kind of memory that there is, by the name used in settings and messages.
ARENAS: dict[str, type[Arena]] = {arena.kind: arena for arena in (HostArena, CudaArena, CudaIpcArena)}


def arena_of_kind(kind: str) -> type[Arena]:
    """Return the class that makes memory of this kind.

    Raises:
        ArenaError: there is none.
    """
    if kind not in ARENAS:
        raise ArenaError(f"arena kind {kind!r} is not one of {', '.join(sorted(ARENAS))}")
    return ARENAS[kind]


__all__ = [
    "ARENAS",
    "Arena",
    "ArenaError",
    "ArenaUnavailable",
    "CudaArena",
    "CudaIpcArena",
    "CudaIpcMapping",
    "CudaMapping",
    "Extent",
    "GpuMapping",
    "HostArena",
    "HostMapping",
    "LabelMismatch",
    "Mapping",
    "NoSuchGpu",
    "arena_of_kind",
]

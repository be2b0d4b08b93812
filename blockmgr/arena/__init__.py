"""Memory for blocks, shared across processes: the interface (`Arena`), its kinds, and how another process maps them."""

from __future__ import annotations

from blockmgr.arena.base import Arena, ArenaError, Extent
from blockmgr.arena.host import HostArena
from blockmgr.arena.mapping import HostMapping
from blockmgr.arena.probe import ProbeMismatch, check_probe, write_probe

#: Every kind of memory that this installation can make, by the name used in settings and messages.
ARENAS: dict[str, type[Arena]] = {HostArena.kind: HostArena}


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
    "Extent",
    "HostArena",
    "HostMapping",
    "ProbeMismatch",
    "arena_of_kind",
    "check_probe",
    "write_probe",
]

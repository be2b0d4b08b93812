"""A self-test at attach: is what an executor has mapped really the manager's memory, at the offset meant?

The manager picks a place where nothing lives (never the null block, which stays zero), writes a pattern that nobody
could guess, and tells the executor offset and nonce; the executor checks. A mapping of other memory, or one that is
shifted, is found before a single key is written through it.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from blockmgr.arena.base import Arena, ArenaError

#: Bytes of a probe.
PROBE_BYTES = 64


class ProbeMismatch(ArenaError):
    """The mapped memory is not the memory that was announced."""


def probe_pattern(nonce: bytes) -> bytes:
    """Return the pattern that belongs to `nonce`, `PROBE_BYTES` long."""
    return hashlib.blake2b(nonce, digest_size=PROBE_BYTES, person=b"pagehold probe").digest()


def write_probe(arena: Arena, offset: int, nonce: bytes) -> None:
    """Write the pattern at `offset`, in a place where nothing lives. Clear it with `Arena.zero` when it was checked.

    Raises:
        ArenaError: outside the memory, or the manager cannot write this kind; then an executor writes the pattern.
    """
    arena.write(offset, probe_pattern(nonce))


def check_probe(memory: npt.NDArray[np.uint8], offset: int, nonce: bytes) -> None:
    """Check that the pattern stands at `offset` of the mapped bytes `[size]`.

    Raises:
        ProbeMismatch: it does not.
    """
    found = memory[offset : offset + PROBE_BYTES].tobytes() if offset >= 0 else b""
    if found != probe_pattern(nonce):
        raise ProbeMismatch(f"the self-test pattern is missing at offset {offset} of {memory.size} mapped bytes")

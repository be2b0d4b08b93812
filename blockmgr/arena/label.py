"""A self-test at attach: is what an executor has mapped really the pool's memory, and does it begin where it should?

The pattern stands right in front of a pool's first byte, in memory that belongs to no block. Its maker draws what it is
made of at random and tells every executor; whoever zeroes the memory writes it, last. A mapping of other memory, or one
that is shifted, is found before a single key is written through it.
"""

from __future__ import annotations

import hashlib

from blockmgr.arena.base import ArenaError

#: Bytes of a label.
LABEL_BYTES = 64


class LabelMismatch(ArenaError):
    """The mapped memory is not the memory that was announced."""


def label_of(label: bytes) -> bytes:
    """Return the pattern that belongs to a pool's label, `LABEL_BYTES` long."""
    return hashlib.blake2b(label, digest_size=LABEL_BYTES, person=b"pagehold label").digest()


def check_label(found: bytes, label: bytes) -> None:
    """Check that the bytes in front of a pool are its label.

    Raises:
        LabelMismatch: they are not.
    """
    if found != label_of(label):
        raise LabelMismatch(
            f"the label in front of the mapped memory is {found[:8].hex()}…, but the pool's is "
            f"{label_of(label)[:8].hex()}…: this is other memory, or begins elsewhere"
        )

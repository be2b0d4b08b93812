"""Pins: cached prefixes that an operator keeps from being evicted, for a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blockmgr.core.blocks import Blocks
from blockmgr.core.columns import Columns
from blockmgr.core.errors import InvalidMessage, NotFound, Precondition
from blockmgr.core.states import BlockState

LABEL_BYTES = 64
FOREVER = 0.0


@dataclass(frozen=True, slots=True)
class Pin:
    """One pin: its blocks, when it ends (seconds since 1970; 0: never) and what the operator calls it."""

    id: int
    blocks: tuple[int, ...]
    expires: float
    label: str


class Pins:
    """The pin columns, a row for each pinned block. A pin is a hold: it blocks freeing and is no reference."""

    def __init__(self, columns: Columns, blocks: Blocks) -> None:
        self._blocks = blocks
        self._serial = columns["pool.serial"]
        self._id, self._block, self._expires = (columns[f"pin.{n}"] for n in ("id", "block", "expires"))
        self._generation, self._label = columns["pin.generation"], columns["pin.label"]

    def rows(self) -> list[int]:
        """Rows in use."""
        return np.flatnonzero(self._id.flat).tolist()

    def blocks(self) -> list[int]:
        """Every pinned block."""
        return [self._block.get(row) for row in self.rows()]

    def add(self, blocks: Sequence[int], expires: float, label: str) -> int:
        """Pin sealed or cached blocks. Returns the pin's id. All or nothing."""
        if not blocks:
            raise InvalidMessage("blocks", "empty", "at least one block must be named")
        if len(label.encode()) > LABEL_BYTES:
            raise InvalidMessage("label", repr(label), f"at most {LABEL_BYTES} bytes are kept")
        for block in blocks:
            self._check(block)
        empty = np.flatnonzero(self._id.flat == 0)
        if len(empty) < len(blocks):
            raise Precondition(f"{len(blocks)} blocks are to be pinned, but only {len(empty)} more can be")
        id_ = self._serial.get(0) + 1
        self._serial.put(0, id_)
        for row, block in zip(empty.tolist(), blocks, strict=False):
            self._block.put(row, block)
            self._generation.put(row, self._blocks.generation.get(block))
            self._expires.put(row, expires)
            self._label.put(row, np.void(label.encode().ljust(LABEL_BYTES, b"\0")))
            self._id.put(row, id_)
            self._blocks.hold(block)
        return id_

    def _check(self, block: int) -> None:
        geometry = self._blocks.geometry
        if not 0 <= block < geometry.total_blocks:
            raise InvalidMessage("blocks", block, f"must lie in 0..{geometry.total_blocks - 1}")
        if self._blocks.state.get(block) not in (BlockState.SEALED, BlockState.CACHED):
            have = BlockState(self._blocks.state.get(block)).name
            raise Precondition(f"block {block} is {have}, but only SEALED and CACHED blocks can be pinned")
        if self._blocks.is_beyond(block):
            raise Precondition(f"block {block} lies beyond the pool's size and is being moved")

    def remove(self, id_: int) -> list[int]:
        """End a pin. Returns its blocks; ``NotFound`` if there is none of that id."""
        rows = [row for row in self.rows() if self._id.get(row) == id_]
        if not rows:
            raise NotFound(f"no pin has the id {id_}")
        blocks = [self._block.get(row) for row in rows]
        for row, block in zip(rows, blocks, strict=True):
            self._id.put(row, 0)
            self._blocks.unhold(block)
        return blocks

    def expired(self, now: float) -> list[int]:
        """Ids of the pins whose time is over."""
        over = (self._id.flat != 0) & (self._expires.flat != FOREVER) & (self._expires.flat <= now)
        return sorted(set(self._id.flat[over].tolist()))

    def list(self) -> list[Pin]:
        """Every pin."""
        found: dict[int, list[int]] = {}
        for row in self.rows():
            found.setdefault(self._id.get(row), []).append(row)
        return [
            Pin(
                id=id_,
                blocks=tuple(self._block.get(row) for row in rows),
                expires=float(self._expires.flat[rows[0]]),
                label=self._label.key(rows[0]).rstrip(b"\0").decode(errors="replace"),
            )
            for id_, rows in found.items()
        ]

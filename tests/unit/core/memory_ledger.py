"""A ledger in plain arrays: what it commits is there whole, and a manager may die just before or just after it."""

from typing import Protocol

import numpy as np

from blockmgr.core.columns import ELEMENTS, Array, Change, Ledger
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.schema import Layout, lay_out, pool_schema


class ManagerDied(Exception):
    """The manager is gone; what it had not committed is gone with it."""


class MortalLedger(Ledger, Protocol):
    """A ledger whose manager can be made to die: ``die`` set to "before" or "after" kills it about its next commit."""

    die: str

    @property
    def columns(self) -> list[Array]:
        """What is committed."""

    def revive(self) -> None:
        """A new manager takes it over."""


class MemoryLedger:
    """Committed columns in plain arrays; the manager dies just before or just after a commit."""

    def __init__(self, geometry: PoolGeometry) -> None:
        schema = pool_schema(geometry)
        self.layout: Layout = lay_out(schema)
        memory = np.zeros(self.layout.end, dtype=np.uint8)
        self._elements: dict[int, Array] = {width: memory.view(kind) for width, kind in ELEMENTS.items()}
        self.columns: list[Array] = [
            memory[offset : offset + spec.nbytes].view(spec.dtype)
            for spec, offset in zip(schema, self.layout.offsets, strict=True)
        ]
        self.die = ""
        self.touched = 0
        """Elements stored since it was set to 0."""

    def commit(self, changes: list[Change]) -> None:
        die, self.die = self.die, ""
        if die == "before":
            raise ManagerDied
        for change in changes:
            where = slice(change.start, change.start + len(change.values)) if change.indexes is None else change.indexes
            self._elements[change.width][where] = change.values
            self.touched += len(change.values)
        if die == "after":
            raise ManagerDied

    def revive(self) -> None:
        self.die = ""

    def stage(self, column: int, start: int, values: Array) -> None:
        self.columns[column][start : start + len(values)] = values

    def committed(self, column: int) -> Array:
        return self.columns[column]

    def load(self, column: int, into: Array) -> None:
        into[:] = self.columns[column]

    def discard(self, column: int, start: int, count: int) -> None:
        self.columns[column][start : start + count] = np.zeros(count, dtype=self.columns[column].dtype)

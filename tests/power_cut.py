"""Dying in the middle of a store: any part of it is done, and nothing after it happens."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from blockmgr.core.columns import Array, Indexes
from blockmgr.ledger import SharedMemory


class PowerCut(Exception):
    """Raised in the place of a store; whoever made it is dead from then on."""


class StoreCounter:
    """Counts stores, and at store number ``cut`` (from 0 on) does a random part of it and raises ``PowerCut``.

    The part is drawn from ``seed``, element by element; a word, which is one element, is stored or not.
    """

    def __init__(self, cut: int | None = None, seed: int = 0) -> None:
        self.cut = cut
        self.count = 0
        self._random = np.random.default_rng(seed)

    def __call__(self, target: Array, indexes: Indexes | None, values: Array) -> None:
        self.count += 1
        if self.count - 1 != self.cut:
            return
        # Also nothing and everything, which a coin for each of many elements would never give.
        chance = self._random.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        done = np.flatnonzero(self._random.random(len(values)) < chance)
        target[done if indexes is None else indexes[done]] = values[done]
        raise PowerCut(f"at store {self.cut}")


@contextmanager
def stores(cut: int | None = None, seed: int = 0) -> Iterator[StoreCounter]:
    """Count, and perhaps cut, every store into shared memory that this process makes inside the block."""
    counter = StoreCounter(cut, seed)
    SharedMemory.on_store = counter
    try:
        yield counter
    finally:
        SharedMemory.on_store = None

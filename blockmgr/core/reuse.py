"""The policy of reuse: which block is handed out next. Records nothing; may be rebuilt at any time from the columns.

Blocks with nothing worth keeping are reused last-in first-out, since their memory is the warmest. Cached blocks are
evicted least recently used. A released chain is given tail first, so its tail goes before its head and what remains is
always reachable from the root.
"""

from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


class Reuse:
    """The free list and the eviction order of one tier."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._evictable: OrderedDict[int, None] = OrderedDict()

    @property
    def free(self) -> int:
        """Blocks in the free list."""
        return len(self._free)

    @property
    def evictable(self) -> int:
        """Cached blocks that could be evicted now."""
        return len(self._evictable)

    @property
    def available(self) -> int:
        """Blocks that ``take`` could hand out now."""
        return len(self._free) + len(self._evictable)

    def may_evict(self, block: int) -> bool:
        """Whether the block is cached with nothing that holds it."""
        return block in self._evictable

    def give_free(self, blocks: Iterable[int]) -> None:
        """Take blocks into the free list; the last one given is the next one handed out."""
        self._free.extend(blocks)

    def give_cached(self, blocks: Iterable[int]) -> None:
        """Take cached blocks behind all others in the order of eviction, oldest first."""
        for block in blocks:
            self._evictable[block] = None

    def withdraw(self, block: int) -> bool:
        """Take a cached block out of the order of eviction, because it is used or held again."""
        return self._evictable.pop(block, 0) is None

    def cool(self, block: int) -> bool:
        """Make a cached block the first to be evicted. Returns whether it could be evicted at all."""
        if block not in self._evictable:
            return False
        self._evictable.move_to_end(block, last=False)
        return True

    def take(self, count: int) -> tuple[list[int], list[int]]:
        """Hand out ``count`` blocks: from the free list, then by eviction. Returns (free, evicted). Ask ``available`` first."""
        from_free = min(count, len(self._free))
        taken = self._free[len(self._free) - from_free :][::-1]
        del self._free[len(self._free) - from_free :]
        return taken, [self._evictable.popitem(last=False)[0] for _ in range(count - from_free)]

    def take_free(self, count: int) -> list[int]:
        """Hand out up to ``count`` blocks without evicting anything."""
        return self.take(min(count, len(self._free)))[0]

    def coldest(self, count: int) -> list[int]:
        """The next ``count`` blocks that would be evicted, in order; they stay where they are."""
        return [block for block, _ in zip(self._evictable, range(count), strict=False)]

    def shrink(self, limit: int) -> tuple[list[int], list[int]]:
        """Take every block from number ``limit`` on out of both orders. Returns (free, cached)."""
        free = [block for block in self._free if block >= limit]
        cached = [block for block in self._evictable if block >= limit]
        if free:
            self._free = [block for block in self._free if block < limit]
        for block in cached:
            del self._evictable[block]
        return free, cached

    def free_list(self) -> NDArray[np.int64]:
        """A copy of the free list, for checks."""
        return np.array(self._free, dtype=np.int64)

    def order(self) -> NDArray[np.int64]:
        """A copy of the order of eviction, for checks."""
        return np.fromiter(self._evictable, dtype=np.int64, count=len(self._evictable))

"""Time as the pool tells it: stamps that always rise and mean microseconds, so one column orders blocks and dates them."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from blockmgr.core.columns import Columns


class Clock:
    """Strictly rising stamps in microseconds since 1970; never two alike, whatever the system's clock does."""

    def __init__(self, columns: Columns, now: Callable[[], float] = time.time) -> None:
        self._last = columns["pool.clock"]
        self.now = now
        """The wall clock in seconds; tests give their own."""

    def stamps(self, count: int) -> NDArray[np.int64]:
        """The next ``count`` stamps."""
        first = max(self._last.get(0) + 1, int(self.now() * 1e6))
        self._last.put(0, first + count - 1)
        return np.arange(first, first + count, dtype=np.int64)

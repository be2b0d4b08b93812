"""Fences: a block given up is not given out before every step that may still touch it has completed.

When a block's last reference leaves, it joins a group that remembers, for each executor with work in flight, the last
step reported launched. The group opens when all of those have completed or their executors are proven dead. Step numbers
only rise, so groups open in the order in which they were closed and only the first needs looking at.

After a restart of the manager nothing is known about steps launched meanwhile: executors are then *unheard*, and a group
waits for an unheard executor's next report before it knows which step to wait for.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from blockmgr.core.columns import Columns, Indexes
from blockmgr.core.states import ExecutorState

WAITING_STATES = frozenset(map(int, (ExecutorState.STARTING, ExecutorState.LIVE, ExecutorState.FENCING)))


@dataclass(slots=True)
class FenceGroup:
    """Blocks given up together, and what they wait for: executor row → step, or None until that executor is heard."""

    number: int
    waits: dict[int, int | None]
    blocks: Indexes


class Fences:
    """The queue of groups. Derived: after a restart one group of all unreferenced blocks stands for the lost queue."""

    def __init__(self, columns: Columns) -> None:
        self._state = columns["executor.state"]
        self._launched = columns["executor.launched"]
        self._completed = columns["executor.completed"]
        self._groups: deque[FenceGroup] = deque()
        self._next = 1
        self.unheard: set[int] = set()

    def __len__(self) -> int:
        return sum(len(group.blocks) for group in self._groups)

    def groups(self) -> Iterator[FenceGroup]:
        """The closed groups, oldest first."""
        return iter(self._groups)

    def close(self, blocks: Indexes) -> int:
        """Put blocks behind a fence. Returns the group's number, or 0 if nothing in flight could touch them."""
        waits = self._waits()
        if not waits:
            return 0
        self._append(self._next, waits, blocks)
        return self._next - 1

    def close_again(self, number: int, blocks: Indexes) -> None:
        """Put blocks behind the fence that they had, after a transaction was undone. Numbers must rise.

        What the group waited for is not kept; all that is launched now is no less.
        """
        self._append(number, self._waits(), blocks)

    def _append(self, number: int, waits: dict[int, int | None], blocks: Indexes) -> None:
        self._groups.append(FenceGroup(number, waits, blocks))
        self._next = number + 1

    def _waits(self) -> dict[int, int | None]:
        waits: dict[int, int | None] = {}
        for row, executor in enumerate(self._state.flat.tolist()):
            if executor not in WAITING_STATES:
                continue
            if row in self.unheard:
                waits[row] = None
            elif self._launched.get(row) > self._completed.get(row):
                waits[row] = self._launched.get(row)
        return waits

    def hear(self, row: int) -> None:
        """An executor reported: groups that waited for word of it now wait for its last launched step."""
        if row in self.unheard:
            self.unheard.discard(row)
            launched = self._launched.get(row)
            for group in self._groups:
                if row in group.waits and group.waits[row] is None:
                    group.waits[row] = launched

    def bury(self, row: int) -> None:
        """An executor is proven dead: nobody waits for it any more."""
        self.unheard.discard(row)
        for group in self._groups:
            group.waits.pop(row, None)

    def opened(self) -> Iterator[FenceGroup]:
        """Take out the groups that nothing launched can touch any more, oldest first."""
        while self._groups and all(
            step is not None and step <= self._completed.get(row) for row, step in self._groups[0].waits.items()
        ):
            yield self._groups.popleft()

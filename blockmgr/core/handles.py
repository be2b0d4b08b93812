"""What lists of handles name: an executor speaks of the same sequences again and again, within a message and between them."""

from dataclasses import dataclass

import numpy as np

from blockmgr.core.columns import Array, Column, Indexes
from blockmgr.core.geometry import SLOT_BITS, SLOT_MASK

MOST = 64
"""Lists that are remembered at once."""


@dataclass(frozen=True, slots=True)
class Named:
    """The sequences that a list of handles names and that are the executor's who sent it; parallel, in the list's order."""

    slots: Indexes
    handles: Indexes
    table: Indexes
    """Where each one's table begins, in its column."""
    tokens: Indexes
    """Where each one's tokens begin, in their column; its log-probabilities in theirs too."""
    once: bool
    """Whether none is named twice."""
    stale: list[int]
    """Handles that are not the executor's, or no longer."""
    mine: np.ndarray | None
    """Which elements of the list these are; None: all."""

    def pick(self, values: Array) -> Array:
        """Those elements of an array parallel to the list that speak of these sequences."""
        return values if self.mine is None else values[self.mine]


class Handles:
    """Looks lists of handles up, and remembers what they name until a sequence comes, goes or changes hands."""

    def __init__(self, tenancy: Column, owner: Column, table: Column, tokens: Column) -> None:
        self._tenancy = tenancy
        self._owner = owner
        self._table_stride = table.stride
        self._tokens_stride = tokens.stride
        self._known: dict[tuple[int, bytes], Named] = {}

    def forget(self) -> None:
        """A tenancy or an owner has changed: what was looked up may not hold any more."""
        self._known.clear()

    def named(self, handles: Indexes, row: int) -> Named:
        """What a list names, as executor ``row`` may speak of it. One that is longer than there are slots repeats itself,
        or is nonsense: it is not remembered.
        """
        if len(handles) > len(self._tenancy.flat):
            return self._look_up(handles, row)
        key = (row, handles.tobytes())
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST:
                self._known.clear()
            found = self._known[key] = self._look_up(handles, row)
        return found

    def _look_up(self, handles: Indexes, row: int) -> Named:
        """Slots of a living executor are live, and a free slot has no owner; so its state need not be asked."""
        slots = np.minimum(handles & SLOT_MASK, len(self._tenancy.flat) - 1)
        mine = (self._tenancy.flat[slots] << SLOT_BITS | slots == handles) & (self._owner.flat[slots] == row)
        every = bool(mine.all())
        stale = [] if every else handles[~mine].tolist()
        # Copies: what is remembered must not change with the message's own arrays.
        live, slots = (handles.copy(), slots) if every else (handles[mine], slots[mine])
        return Named(
            slots=slots,
            handles=live,
            table=slots * self._table_stride,
            tokens=slots * self._tokens_stride,
            once=len(set(slots.tolist())) == len(slots),
            stale=stale,
            mine=None if every else mine,
        )

    def is_named(self, handle: int, row: int) -> bool:
        """Whether a handle names a sequence of executor ``row``."""
        slot = handle & SLOT_MASK
        return (
            slot < len(self._tenancy.flat)
            and self._tenancy.get(slot) << SLOT_BITS | slot == handle
            and self._owner.get(slot) == row
        )

"""Block tables of many sequences at once, as arrays."""

from dataclasses import dataclass

import numpy as np

from blockmgr.core.columns import Indexes
from blockmgr.core.state import PoolState
from blockmgr.core.states import SequenceState


@dataclass(slots=True)
class TableEntries:
    """The entries of some sequences' tables, one behind the other. A copy: may be read off the loop."""

    slots: Indexes
    lengths: Indexes
    """Entries of each sequence's table, as many as were copied."""
    place: Indexes
    """For each entry: whose it is, as a place in ``slots``."""
    index: Indexes
    """For each entry: its index in its table."""
    block: Indexes
    """For each entry: its ledger block number."""

    def of(self, place: int) -> Indexes:
        """One sequence's table."""
        first = int(self.lengths[:place].sum())
        return self.block[first : first + int(self.lengths[place])]

    def sum(self, chosen: np.ndarray) -> Indexes:
        """For each sequence: how many of its entries are chosen."""
        return np.bincount(self.place[chosen], minlength=len(self.slots))


def live_slots(state: PoolState) -> Indexes:
    """Slots in use, lowest first."""
    return np.flatnonzero(state.sequences.state.flat != SequenceState.FREE)


def entries_of(state: PoolState, slots: Indexes, first: Indexes | None = None) -> TableEntries:
    """Copy the tables of some slots, each whole or from an entry of its own on."""
    table = state.sequences.table
    start = np.zeros(len(slots), dtype=np.int64) if first is None else first
    lengths = np.maximum(state.sequences.blocks.flat[slots] - start, 0)
    place = np.repeat(np.arange(len(slots)), lengths)
    index = np.arange(len(place)) + np.repeat(start - (np.cumsum(lengths) - lengths), lengths)
    block = table.flat[np.repeat(slots * table.stride, lengths) + index].astype(np.int64)
    return TableEntries(slots, lengths, place, index, block)

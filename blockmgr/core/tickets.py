"""Copies that are ordered and not yet reported done.

A ticket lies in the row of its destination block: a destination has one pending copy at most. Until the ticket is done
its destination is in no table (state TARGET) and the table keeps the source; both are held, so neither can be freed or
handed out whatever becomes of the sequence. A source is always a block that a table names or that is cached, and a
destination never is: so a list of tickets never chains.
"""

import numpy as np

from blockmgr.core.blocks import Blocks
from blockmgr.core.columns import Columns
from blockmgr.core.geometry import slot_of
from blockmgr.core.messages import Ticket
from blockmgr.core.states import BlockState, TicketKind

ROW_BITS = 32


class Tickets:
    """The ticket columns, with each slot's pending tickets at hand."""

    def __init__(self, columns: Columns, blocks: Blocks) -> None:
        self.geometry = columns.geometry
        self._blocks = blocks
        self._serial = columns["pool.serial"]
        self.id, self.kind = columns["ticket.id"], columns["ticket.kind"]
        self.handle, self.index = columns["ticket.handle"], columns["ticket.index"]
        self.source, self.executor = columns["ticket.source"], columns["ticket.executor"]
        self.reset()

    def reset(self) -> None:
        """Forget everything derived; ``recovery`` fills it anew."""
        self.of_slot: dict[int, dict[int, int]] = {}
        """Slot → {table index: destination} of its pending tickets."""
        self.fresh: list[int] = []
        """Destinations of the tickets that the running message ordered, in order."""
        self.rows: set[int] = set()
        """Destinations of all pending tickets."""
        self.leaving: dict[int, int] = {}
        """Source → how many of its references leave when their tickets are done."""

    def order(
        self, kind: TicketKind, slot: int, handle: int, index: int, source: int, destination: int, row: int
    ) -> None:
        """Note a copy into ``destination``, which the caller took as TARGET. ``slot`` -1: it belongs to no sequence."""
        serial = self._serial.get(0) + 1
        self._serial.put(0, serial)
        self.id.put(destination, serial << ROW_BITS | destination)
        self.kind.put(destination, kind)
        self.handle.put(destination, handle)
        self.index.put(destination, index)
        self.source.put(destination, source)
        self.executor.put(destination, row)
        self.fresh.append(destination)
        self.remember(slot, index, source, destination)

    def remember(self, slot: int, index: int, source: int, destination: int) -> None:
        """Enter a pending ticket into what is derived, and hold its two blocks."""
        self.rows.add(destination)
        if slot >= 0:
            self.of_slot.setdefault(slot, {})[index] = destination
            self.leaving[source] = self.leaving.get(source, 0) + 1
        self._blocks.hold(source)
        self._blocks.hold(destination)

    def close(self, destination: int, slot: int) -> None:
        """The copy is done or given up: drop the holds. The caller has settled who names which block."""
        source, index = self.source.get(destination), self.index.get(destination)
        self.kind.put(destination, TicketKind.NONE)
        self.rows.discard(destination)
        if slot >= 0:
            self._let_go(slot, index, source)
        self._blocks.unhold(source)
        self._blocks.unhold(destination)

    def abandon(self, destination: int, slot: int) -> None:
        """Give up a copy that is done in vain or will never be done: the destination goes behind a fence."""
        self._blocks.give_up(np.array([destination], dtype=np.int64))
        self.close(destination, slot)

    def detach(self, slot: int, first: int = 0) -> None:
        """Table entries from ``first`` on go while copies are ordered: their blocks stay held until those are done."""
        for index, destination in [t for t in self.of_slot.get(slot, {}).items() if t[0] >= first]:
            source = self.source.get(destination)
            self._let_go(slot, index, source)
            self.handle.put(destination, 0)
            self.index.put(destination, -1)

    def _let_go(self, slot: int, index: int, source: int) -> None:
        pending = self.of_slot[slot]
        del pending[index]
        if not pending:
            del self.of_slot[slot]
        self.leaving[source] -= 1
        if not self.leaving[source]:
            del self.leaving[source]

    def pending(self, id_: int) -> int | None:
        """Destination of a pending ticket; None if it is done, was given up, or never was."""
        row = id_ & ((1 << ROW_BITS) - 1)
        return row if row in self.rows and self.id.get(row) == id_ else None

    def is_mine(self, id_: int, row: int) -> bool:
        """Whether a ticket is pending and was given to executor ``row``."""
        destination = self.pending(id_)
        return destination is not None and self.executor.get(destination) == row

    def slot_of(self, id_: int) -> int:
        """Slot of the sequence that a pending ticket belongs to; -1 if to none, or none any more."""
        destination = self.pending(id_)
        if destination is None or self.index.get(destination) < 0:
            return -1
        return slot_of(self.handle.get(destination))

    def effective_refs(self, block: int) -> int:
        """References of a block, not counting those that leave by a pending ticket."""
        return self._blocks.refs.get(block) - self.leaving.get(block, 0)

    def may_write(self, block: int) -> bool:
        """Whether a sequence without a ticket for it may write into the block: nobody else reads it, now or later."""
        return self._blocks.state.get(block) == BlockState.OWNED and self.effective_refs(block) == 1

    def describe(self, destination: int) -> Ticket:
        """The ticket as the executor is told of it, with block numbers of each tier's own."""
        return Ticket(
            id=self.id.get(destination),
            kind=TicketKind(self.kind.get(destination)),
            handle=self.handle.get(destination),
            index=self.index.get(destination),
            source=self._own_number(self.source.get(destination)),
            destination=self._own_number(destination),
        )

    def _own_number(self, block: int) -> int:
        return block - self.geometry.host_base if self.geometry.is_host(block) else block

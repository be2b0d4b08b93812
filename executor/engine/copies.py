"""Copies of blocks that the manager has ordered and not yet heard the end of."""

from blockmgr.core.messages import Ticket
from blockmgr.core.states import TicketKind
from executor.engine.assembly import PendingChanges
from executor.engine.device import Device
from executor.engine.sequence import Sequence
from executor.engine.step import Copy

TIERS = {
    TicketKind.SWAP_OUT: (False, True),
    TicketKind.DEMOTE: (False, True),
    TicketKind.SWAP_IN: (True, False),
}
"""Whether source and destination of a copy lie in the host tier, where one of them does."""

AWAY_AND_BACK = (TicketKind.SWAP_OUT, TicketKind.SWAP_IN)


class Copies:
    """Launches copies, and remembers whose they are until the manager knows that they are done."""

    def __init__(self) -> None:
        self.done: list[int] = []
        """Tickets whose copies have completed, to be reported."""
        self.demoting = 0
        """Copies of cached blocks under way, which belong to no sequence."""
        self._pending: dict[int, tuple[Sequence | None, Ticket]] = {}

    @property
    def are_settled(self) -> bool:
        """Whether nothing is under way, and the manager knows it."""
        return not self.done and not self._pending

    def are_done(self, sequence: Sequence, reported: list[int]) -> bool:
        """Whether no copy for a sequence is under way but those that are reported just now."""
        return all(owner is not sequence or id_ in reported for id_, (owner, _) in self._pending.items())

    def perform(
        self, tickets: list[Ticket], sequences: dict[int, Sequence], device: Device, changes: PendingChanges
    ) -> None:
        """Launch the copies that a reply orders; later steps use their destinations."""
        copies = []
        for ticket in tickets:
            sequence = sequences.get(ticket.handle)
            source_on_host, destination_on_host = TIERS.get(ticket.kind, (False, False))
            self._pending[ticket.id] = sequence, ticket
            self.demoting += ticket.kind == TicketKind.DEMOTE
            if sequence is not None and not destination_on_host and ticket.index >= 0:
                sequence.redirect(ticket.index, ticket.destination)
                changes.note(sequence.slot, [(ticket.index, ticket.destination)])
            copies.append(Copy(ticket.id, ticket.source, ticket.destination, source_on_host, destination_on_host))
        if copies:
            device.copy(copies)

    def forget(self, tickets: list[int]) -> list[Sequence]:
        """The manager knows of these copies: its tables name the destinations from now on.

        Returns the sequences whose move to the other tier is over by that.
        """
        moved = []
        for id_ in tickets:
            sequence, ticket = self._pending.pop(id_, (None, None))
            if ticket is None:
                continue
            self.demoting -= ticket.kind == TicketKind.DEMOTE
            if sequence is None:
                continue
            sequence.copied.pop(ticket.index, None)
            if id_ in sequence.moving:
                sequence.moving.discard(id_)
                if not sequence.moving:
                    moved.append(sequence)
        return moved


def tickets_of(sequence: Sequence, tickets: list[Ticket]) -> set[int]:
    """Those of the copies ordered that take a sequence to the other tier."""
    return {one.id for one in tickets if one.handle == sequence.handle and one.kind in AWAY_AND_BACK}

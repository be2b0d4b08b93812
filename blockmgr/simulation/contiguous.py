"""The baseline: one contiguous reservation for each request, as long as the longest sequence may get.

So served systems before paging (the PagedAttention paper, section 3.1): the output's length is not known beforehand, and
a tensor cannot grow where another one begins.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Reservation:
    """Slots ``start`` to ``start + length``, of which the first ``tokens`` are used."""

    start: int
    length: int
    tokens: int


class ContiguousPool:
    """A first-fit allocator of reservations over a run of slots, one slot a token."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.reservations: dict[str, Reservation] = {}
        self._order: list[str] = []

    def admit(self, name: str, tokens: int, length: int) -> bool:
        """Reserve ``length`` slots at the first gap that is long enough. Returns whether there was one."""
        if not 0 < tokens <= length:
            raise ValueError(f"tokens of {name} is {tokens}, but must lie in 1..{length}")
        end = 0
        for place, other in enumerate(self._order):
            gap = self.reservations[other].start - end
            if gap >= length:
                return self._reserve(name, place, Reservation(end, length, tokens))
            end = self.reservations[other].start + self.reservations[other].length
        if self.slots - end < length:
            return False
        return self._reserve(name, len(self._order), Reservation(end, length, tokens))

    def _reserve(self, name: str, place: int, reservation: Reservation) -> bool:
        self._order.insert(place, name)
        self.reservations[name] = reservation
        return True

    def grow(self, name: str, tokens: int) -> None:
        """Use ``tokens`` slots more of a reservation."""
        reservation = self.reservations[name]
        if reservation.tokens + tokens > reservation.length:
            raise ValueError(
                f"tokens of {name} is {reservation.tokens + tokens}, but {reservation.length} are reserved"
            )
        reservation.tokens += tokens

    def release(self, name: str) -> None:
        """Give a reservation back."""
        del self.reservations[name]
        self._order.remove(name)

    @property
    def reserved(self) -> int:
        """Slots of all reservations."""
        return sum(reservation.length for reservation in self.reservations.values())

    @property
    def tokens(self) -> int:
        """Slots that are used."""
        return sum(reservation.tokens for reservation in self.reservations.values())

"""Who makes room where blocks run out, in which way, and who comes back when.

Of all that waits for blocks, whatever its engine, one comes first: by priority, then by age. Whoever stands still for want of a
block makes the last of those behind it go, one at a time. So the first of all always gets on, and with it, in the end, all.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from blockmgr.core.messages import Reply, Want
from blockmgr.core.states import Refusal, Residency
from executor.engine.pace import Pace
from executor.engine.sequence import Sequence


class Way(StrEnum):
    """How a sequence makes room."""

    SWAP = "swap"
    """Its blocks are copied to the host tier, and back."""
    RECOMPUTE = "recompute"
    """Its blocks are given up, and what is gone of them is computed again."""


class Preemption:
    """Sequences that make room, from the choice until they are back. Owned by the engine's thread."""

    def __init__(self, way: Way | None = None, host_blocks: int = 0) -> None:
        """``way``: always this one, as far as it can be gone; None: the cheaper one."""
        self._way = way
        self.host_blocks = host_blocks
        """Blocks of the host tier."""
        self.leaving: dict[int, tuple[Sequence, Way]] = {}
        """Handle → who is to go, or is on its way to the host tier, and how."""
        self.away: dict[int, Sequence] = {}
        """Handle → who waits to come back."""
        self.counts: Counter[Way] = Counter()
        """Sequences that have gone, by way."""
        self.returned = 0
        """Sequences that have come back."""

    def forget(self, sequence: Sequence) -> None:
        """A sequence has ended."""
        self.leaving.pop(sequence.handle, None)
        self.away.pop(sequence.handle, None)

    # -- who goes ----------------------------------------------------------------------------------------------------

    def make_room(self, running: Iterable[Sequence], first: Want | None, reply: Reply, pace: Pace) -> Sequence | None:
        """Choose who makes room for ``first``, if anybody has to. Returns whom.

        Nobody does while others are on their way, or while what was given up is about to be free: that may be enough.
        """
        if first is None or self.leaving or reply.free_blocks + reply.fenced_blocks >= first.blocks:
            return None
        behind = [one for one in running if one.request.rank > first.rank and self._may_go(one)]
        if not behind:
            return None
        victim = max(behind, key=lambda one: one.request.rank)
        victim.parked = True
        self.leaving[victim.handle] = victim, self._choose_way(victim, pace)
        return victim

    def _may_go(self, sequence: Sequence) -> bool:
        """Whether a sequence holds blocks and may be made to go: one that came back may not before it has got on, unless it
        could not anyway, for want of a block or of what another computes.
        """
        if sequence.ending is not None or sequence.parked or not sequence.table or sequence.suspect:
            return False
        return sequence.has_advanced or sequence.stuck or bool(sequence.awaiting)

    def _choose_way(self, sequence: Sequence, pace: Pace) -> Way:
        if not self.host_blocks or self._way == Way.RECOMPUTE:
            return Way.RECOMPUTE
        if self._way == Way.SWAP or pace.swap_is_cheaper(len(sequence.table), sequence.launched):
            return Way.SWAP
        return Way.RECOMPUTE

    def departing(self, way: Way) -> list[Sequence]:
        """Who can go now in this way: nothing of it is in flight, and the manager knows all of it."""
        return [
            one
            for one, chosen in self.leaving.values()
            if chosen == way
            and one.residency == Residency.DEVICE
            and one.is_level
            and one.ending is None
            and not one.copied
        ]

    def refused(self, sequence: Sequence, refusal: Refusal) -> None:
        """The manager did not let it go. Where the host tier is full it is computed again; else it is tried again."""
        if refusal == Refusal.HOST_EXHAUSTED and sequence.handle in self.leaving:
            self.leaving[sequence.handle] = sequence, Way.RECOMPUTE

    def gone(self, sequence: Sequence, way: Way, copies: set[int]) -> None:
        """The manager let it go; a swap lasts until its copies are done."""
        self.counts[way] += 1
        sequence.leave(Residency.RELEASED if way == Way.RECOMPUTE else Residency.LEAVING)
        sequence.moving = copies
        if not copies:
            self._arrive(sequence)

    # -- who comes back ------------------------------------------------------------------------------------------------

    def first_away(self) -> Sequence | None:
        """Who comes back next."""
        waiting = [one for one in self.away.values() if one.ending is None and one.residency != Residency.RETURNING]
        return min(waiting, key=lambda one: one.request.rank, default=None)

    def returning(self, sequence: Sequence, copies: set[int]) -> None:
        """The manager lets it come back; that lasts until its copies are done."""
        released = sequence.residency == Residency.RELEASED
        sequence.residency, sequence.moving = Residency.RETURNING, copies
        # What was released starts at a block of its own; what was swapped may come back to a block that others read.
        sequence.frozen = not released
        if not copies:
            self.moved(sequence)

    def moved(self, sequence: Sequence) -> None:
        """All copies of a move are done, and the manager knows it."""
        if sequence.residency == Residency.LEAVING:
            self._arrive(sequence)
        elif sequence.residency == Residency.RETURNING:
            self.away.pop(sequence.handle, None)
            sequence.come_back()
            self.returned += 1

    def _arrive(self, sequence: Sequence) -> None:
        self.leaving.pop(sequence.handle, None)
        if sequence.residency == Residency.LEAVING:
            sequence.residency = Residency.HOST
        self.away[sequence.handle] = sequence

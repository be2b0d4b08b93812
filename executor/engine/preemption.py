"""Who makes room where blocks run out, in which way, and who comes back when.

Of all that waits for blocks, whatever its engine, one comes first: by priority, then by age. Whoever stands still for want of a
block makes the last of those behind it go, one request at a time. So the first of all always gets on, and with it, in the end,
all. The outputs of a request are one in this: none makes another of them go, and all go together.
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

    def make_room(self, running: Iterable[Sequence], first: Want | None, reply: Reply, pace: Pace) -> list[Sequence]:
        """Choose who makes room for ``first``, if anybody has to. Returns whom: all that is here of one request.

        Nobody does while others are on their way, or while what was given up is about to be free: that may be enough.
        """
        if first is None or self.leaving or reply.free_blocks + reply.fenced_blocks >= first.blocks:
            return []
        behind: dict[tuple[int, float, bytes], list[Sequence]] = {}
        for one in running:
            if one.request.rank > first.rank and one.ending is None:
                behind.setdefault(one.request.rank, []).append(one)
        last = max((rank for rank, kin in behind.items() if self._may_go(kin)), default=None)
        if last is None:
            return []
        victims = [one for one in behind[last] if not one.parked]
        way = self._choose_way(victims, pace)
        for victim in victims:
            victim.parked = True
            self.leaving[victim.handle] = victim, way
        return victims

    def _may_go(self, kin: list[Sequence]) -> bool:
        """Whether the sequences of a request hold blocks and may be made to go: those that came back may not before one has
        got on, unless one could not anyway, for want of a block, of what another computes, or of the rest of them.
        """
        here = [one for one in kin if not one.parked]
        if any(one.suspect for one in here) or not any(one.table for one in here):
            return False
        return len(here) < len(kin) or any(one.has_advanced or one.stuck or one.awaiting for one in here)

    def _choose_way(self, kin: list[Sequence], pace: Pace) -> Way:
        if not self.host_blocks or self._way == Way.RECOMPUTE:
            return Way.RECOMPUTE
        if len(kin) > 1 and kin[0].request.kept.no_store:
            # Blocks that are not to be found would be copied once for each, and be as many when they come back.
            return Way.RECOMPUTE
        blocks = len(set().union(*(one.table for one in kin)))
        tokens = sum(one.launched for one in kin) * blocks // max(sum(len(one.table) for one in kin), 1)
        if self._way == Way.SWAP or pace.swap_is_cheaper(blocks, tokens):
            return Way.SWAP
        return Way.RECOMPUTE

    def departing(self, way: Way) -> list[Sequence]:
        """Who can go now in this way: nothing of it is in flight, and the manager knows all of it.

        To the host tier one output of a request goes after the other: what they share is copied with the first, and found
        there by the others.
        """
        ready = [
            one
            for one, chosen in self.leaving.values()
            if chosen == way
            and one.residency == Residency.DEVICE
            and one.is_level
            and one.ending is None
            and not one.copied
        ]
        if way == Way.RECOMPUTE:
            return ready
        moving = {one.request.root for one, _ in self.leaving.values() if one.residency == Residency.LEAVING}
        return list({one.request.root: one for one in reversed(ready) if one.request.root not in moving}.values())[::-1]

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
        return min(waiting, key=lambda one: (one.request.rank, one.request.output), default=None)

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

"""Everything that an engine has taken on: what waits, what is being admitted, what runs."""

import time
from collections.abc import Callable, Iterator

from blockmgr.core.messages import Want
from blockmgr.core.states import FinishReason
from executor.engine.beam_groups import BeamGroups
from executor.engine.copies import Copies
from executor.engine.deadlines import Deadlines
from executor.engine.family import Families, end_all
from executor.engine.news import Accepted, News, Stream
from executor.engine.preemption import Preemption
from executor.engine.request import Limits, Request
from executor.engine.sequence import Sequence
from executor.engine.waiting import Waiting, WaitingRequests

AHEAD = 64
"""Blocks to be handed out next that are to hold nothing that the host tier lacks."""


class Work:
    """The engine's requests in all their states. Owned by the engine's thread.

    A request waits, then is asked for (its admission is in an unanswered turn), then it is a sequence, until the reply to
    the turn that ends it. ``news`` is what front doors have not been told yet.
    """

    def __init__(
        self,
        limits: Limits,
        max_running: int,
        max_waiting: int,
        preemption: Preemption | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.limits = limits
        self.max_running = max_running
        self.now = now
        self.waiting = WaitingRequests(max_waiting)
        self.asked: dict[bytes, Waiting] = {}
        self.sequences: dict[int, Sequence] = {}
        """Handle → sequence, in the order of admission."""
        self.by_uuid: dict[bytes, Sequence] = {}
        self.families = Families()
        self.beams = BeamGroups()
        self.preemption = preemption or Preemption()
        self.copies = Copies()
        self.free_blocks = limits.usable_blocks
        self.losable_blocks = 0
        """Of the free blocks, those that hold something cached."""
        self.blocked = False
        """Whether the last admission was refused for want of something that may come back."""
        self.short: set[int] = set()
        """Handles of sequences that did not get the blocks that they need next."""
        self.cached_tokens = 0
        """Tokens of prompts that came from the prefix cache, of all requests so far."""
        self.draining = False
        self.stopping = False
        self.solo: Sequence | None = None
        """The sequence that runs alone because executors died with it."""
        self.solo_known = 0
        """Handle of the one that the manager knows to run alone."""
        self.wanted: Want | None = None
        """What comes first of all that waits for blocks in other engines of the pool."""
        self.want_said: Want | None = None
        """What the others have been told of this one's wants."""
        self.passed: tuple[bytes, int] = (b"", 0)
        """Which of those was passed last by a request let in here, and how often."""
        self.news: list[News] = []
        self.deadlines = Deadlines()

    # -- what is known ---------------------------------------------------------------------------------------------------

    def knows(self, uuid: bytes) -> bool:
        """Whether a request waits or runs here."""
        return uuid in self.by_uuid or self.waiting_request(uuid) is not None

    def waiting_request(self, uuid: bytes) -> Request | None:
        """One that waits, or is asked for."""
        waiting = self.asked.get(uuid) or self.waiting.get(uuid)
        return None if waiting is None else waiting.request

    # -- what runs -------------------------------------------------------------------------------------------------------

    @property
    def places(self) -> int:
        """How many sequences more may be computed beside the others, those counted that are still to be forked."""
        if self.draining or self.stopping or self.solo:
            return 0
        asked = sum(waiting.request.outputs for waiting in self.asked.values())
        return self.max_running - len(self.sequences) - self.families.unborn - asked

    def take_demotion(self) -> int:
        """How many cached blocks are to be copied to the host tier, so that the next blocks to be handed out lose nothing.

        Not while sequences move, which is more urgent, or while such copies are under way.
        """
        if not self.preemption.host_blocks or self.preemption.leaving or self.preemption.away or self.copies.demoting:
            return 0
        return max(AHEAD - (self.free_blocks - self.losable_blocks), 0) if self.losable_blocks else 0

    @property
    def waits_for_blocks(self) -> bool:
        """Whether somebody waits to come back or to be let in."""
        return bool(self.preemption.away) or (len(self.waiting) > 0 and self.places > 0)

    @property
    def waits_for_manager(self) -> bool:
        """Whether somebody waits for what the manager refused for now, or for what another sequence computes."""
        waits = self.waits_for_blocks or bool(self.short) or self.families.wait or self.beams.wait
        return waits or any(one.awaiting for one in self.sequences.values())

    def take_up(self, sequence: Sequence) -> None:
        """A sequence that an earlier life has left goes on here. Once all are here: ``families.settle``."""
        self.add(sequence)
        if sequence.parked:
            self.preemption.away[sequence.handle] = sequence
        self.note_deadline(sequence.request)

    def bear(self, sequence: Sequence) -> None:
        """A sequence has come of a fork."""
        self.add(sequence)
        self.note_deadline(sequence.request)
        self.news.append(accepted(sequence))

    def add(self, sequence: Sequence) -> None:
        """A sequence is this engine's from now on."""
        self.sequences[sequence.handle] = sequence
        self.by_uuid[sequence.request.uuid] = sequence
        self.families.add(sequence)
        self.beams.add(sequence)

    def remove(self, sequence: Sequence) -> list[bytes]:
        """A sequence has ended, and the manager knows it. Returns the UUIDs of other outputs that will never come now."""
        del self.sequences[sequence.handle]
        del self.by_uuid[sequence.request.uuid]
        self.short.discard(sequence.handle)
        self.preemption.forget(sequence)
        if self.solo is sequence:
            self.solo = None
        return self.families.remove(sequence)

    def runnable(self, idle: bool) -> Iterator[Sequence]:
        """What may be in the next step: everything, or one alone. ``idle``: nothing is in flight."""
        going: list[Sequence] = []
        doubtful: Sequence | None = None
        for one in self.sequences.values():
            if one.ending is None:
                going.append(one)
                if one.suspect and self.solo is None and not one.parked:
                    self.solo = one
                if one.doubtful and doubtful is None and one.wants_to_run():
                    doubtful = one
        if self.solo is not None:
            # The manager has to know first: if this kills the executor, it is to be known by what.
            # Beams get on together or not at all.
            alone = self.families.kin(self.solo) if self.solo.is_beam else [self.solo]
            return iter(alone if self.solo_known == self.solo.handle else [])
        if doubtful is not None:
            return iter([doubtful] if idle else [])
        return iter(going)

    def end_family(self, sequence: Sequence, reason: FinishReason) -> None:
        """End a sequence, and with it all outputs of its request, for a reason from outside."""
        end_all(self.families.kin(sequence), reason)

    def note_deadline(self, request: Request) -> None:
        """Have a request end with what it has when its time is over."""
        known = len(self.sequences) + len(self.asked) + len(self.waiting)
        self.deadlines.note(request, known, self.knows)

    def clear(self, sequence: Sequence) -> None:
        """A suspect has made progress: it runs beside the others again."""
        sequence.suspect = False
        if self.solo is sequence:
            self.solo = None


def accepted(sequence: Sequence, to: Stream | None = None) -> Accepted:
    """Where a sequence stands, for one stream or for all."""
    return Accepted(
        sequence.request.uuid, sequence.handle, sequence.prompt, sequence.cached_tokens, sequence.recorded, to
    )

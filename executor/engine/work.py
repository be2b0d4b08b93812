"""Everything that an engine has taken on: what waits, what is being admitted, what runs."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import structlog

from blockmgr.core.messages import Want
from blockmgr.core.states import FinishReason
from executor.engine.beam_groups import BeamGroups
from executor.engine.copies import Copies
from executor.engine.deadlines import Deadlines
from executor.engine.family import Families, end_all, is_output
from executor.engine.news import Accepted, News, Refused, Stream, Unknown
from executor.engine.preemption import Preemption
from executor.engine.request import Limits, Request, RequestRefused
from executor.engine.sequence import Sequence
from executor.engine.waiting import Waiting, WaitingRequests
from pagehold.engine.v1 import submit_pb2

log = structlog.get_logger()

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

    # -- what front doors want -------------------------------------------------------------------------------------------

    def start(self, request: Request, stream: Stream) -> None:
        """Queue a request, or refuse it; one that is known is only told of again."""
        uuid = request.uuid
        if uuid in self.by_uuid:
            self._tell_again(self.by_uuid[uuid], stream)
        elif uuid in self.asked or self.waiting.get(uuid) is not None:
            return
        elif self.draining or self.stopping:
            self._refuse(uuid, submit_pb2.REFUSED_BY_DRAINING)
        elif self.waiting.is_full:
            limit = self.waiting.limit
            self.news.append(
                Refused(
                    uuid, by=submit_pb2.REFUSED_BY_QUEUE, needed=limit + 1, available=limit, detail="the queue is full"
                )
            )
        else:
            self._queue(request)

    def _queue(self, request: Request) -> None:
        try:
            request.check(self.limits, self.max_running)
        except RequestRefused as error:
            self.refuse(request, error)
        else:
            # Kept with it: what its age is must not depend on who works on it.
            request.kept.arrived = request.kept.arrived or self.now()
            self.waiting.add(Waiting(request, self.now()))
            self._note_deadline(request)

    def follow(self, uuid: bytes, stream: Stream) -> None:
        """Tell a stream where a request, or one of its outputs, stands; of one that still waits, or is to be forked, it hears
        when it is accepted.
        """
        if uuid in self.by_uuid:
            self._tell_again(self.by_uuid[uuid], stream)
        elif not (self._is_known(uuid) or is_output(uuid, self._waiting_request) or self.families.expecting(uuid)):
            self.news.append(Unknown(uuid, stream))

    def cancel(self, uuid: bytes) -> None:
        """End a request with all its outputs, wherever it stands. Unknown ones have ended already."""
        waiting = self.waiting.get(uuid)
        if waiting is not None:
            self.waiting.remove(waiting)
            self._refuse(uuid, submit_pb2.REFUSED_BY_CANCEL)
        elif uuid in self.asked:
            self.asked[uuid].cancelled = True
        elif uuid in self.by_uuid:
            self.end_family(self.by_uuid[uuid], FinishReason.CANCELLED)

    def end_family(self, sequence: Sequence, reason: FinishReason) -> None:
        """End a sequence, and with it all outputs of its request, for a reason from outside."""
        end_all(self.families.kin(sequence), reason)

    def refuse_waiting(self) -> None:
        """Nothing new is admitted: those who wait may try elsewhere."""
        for waiting in list(self.waiting):
            self.waiting.remove(waiting)
            self._refuse(waiting.request.uuid, submit_pb2.REFUSED_BY_DRAINING)

    def expire(self) -> float:
        """End what is past its deadline. Returns seconds until the next deadline, infinity if there is none."""
        now = self.now()
        for uuid in self.deadlines.take_passed(now):
            self._end_late(uuid)
        return self.deadlines.seconds_left(now)

    def _end_late(self, uuid: bytes) -> None:
        waiting = self.waiting.get(uuid)
        if waiting is not None:
            self.waiting.remove(waiting)
            self._refuse(uuid, submit_pb2.REFUSED_BY_DEADLINE)
        elif uuid in self.asked:
            self.asked[uuid].late = True
        elif uuid in self.by_uuid:
            self.by_uuid[uuid].end(FinishReason.DEADLINE)

    def _note_deadline(self, request: Request) -> None:
        known = len(self.sequences) + len(self.asked) + len(self.waiting)
        self.deadlines.note(request, known, self._is_known)

    def _is_known(self, uuid: bytes) -> bool:
        return uuid in self.by_uuid or self._waiting_request(uuid) is not None

    def _waiting_request(self, uuid: bytes) -> Request | None:
        waiting = self.asked.get(uuid) or self.waiting.get(uuid)
        return None if waiting is None else waiting.request

    def refuse(self, request: Request, error: RequestRefused) -> None:
        """Say why a request cannot be taken."""
        self.news.append(
            Refused(request.uuid, error.refusal, needed=error.needed, available=error.available, detail=str(error))
        )

    def _refuse(self, uuid: bytes, by: submit_pb2.RefusedBy) -> None:
        self.news.append(Refused(uuid, by=by))

    def _tell_again(self, sequence: Sequence, stream: Stream) -> None:
        self.news.append(accepted(sequence, stream))

    # -- what runs -------------------------------------------------------------------------------------------------------

    @property
    def places(self) -> int:
        """How many sequences more may be computed beside the others, those counted that are still to be forked."""
        if self.draining or self.stopping or self.solo:
            return 0
        asked = sum(waiting.request.outputs for waiting in self.asked.values())
        return self.max_running - len(self.sequences) - self.families.unborn - asked

    def take_size(self, usable_blocks: int) -> None:
        """The pool has so many blocks by now: refuse what waits and can never fit any more."""
        if usable_blocks in (0, self.limits.usable_blocks):
            return
        self.limits = replace(self.limits, usable_blocks=usable_blocks)
        for waiting in list(self.waiting):
            try:
                waiting.request.check(self.limits, self.max_running)
            except RequestRefused as error:
                self.waiting.remove(waiting)
                self.refuse(waiting.request, error)

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
        self._note_deadline(sequence.request)

    def bear(self, sequence: Sequence) -> None:
        """A sequence has come of a fork."""
        self.add(sequence)
        self._note_deadline(sequence.request)
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

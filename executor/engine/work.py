"""Everything that an engine has taken on: what waits, what is being admitted, what runs."""

import time
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

import structlog

from blockmgr.core.messages import Ticket
from blockmgr.core.states import FinishReason, TicketKind
from executor.engine.assembly import PendingChanges
from executor.engine.device import Device
from executor.engine.news import Accepted, News, Refused, Stream, Unknown
from executor.engine.request import Limits, Request, RequestRefused
from executor.engine.sequence import Sequence
from executor.engine.step import Copy
from executor.engine.waiting import Commitments, Waiting, WaitingRequests
from pagehold.engine.v1 import submit_pb2

log = structlog.get_logger()

TIERS = {
    TicketKind.SWAP_OUT: (False, True),
    TicketKind.DEMOTE: (False, True),
    TicketKind.SWAP_IN: (True, False),
}
"""Whether source and destination of a copy lie in the host tier, where one of them does."""


FEW = 64
"""Deadlines that may be kept though nobody has them any more."""


class Work:
    """The engine's requests in all their states. Owned by the engine's thread.

    A request waits, then is asked for (its admission is in an unanswered turn), then it is a sequence, until the reply to
    the turn that ends it. ``news`` is what front doors have not been told yet.
    """

    def __init__(
        self, limits: Limits, max_running: int, max_waiting: int, now: Callable[[], float] = time.time
    ) -> None:
        self.limits = limits
        self.max_running = max_running
        self.now = now
        self.waiting = WaitingRequests(max_waiting)
        self.asked: dict[bytes, Waiting] = {}
        self.sequences: dict[int, Sequence] = {}
        """Handle → sequence, in the order of admission."""
        self.by_uuid: dict[bytes, Sequence] = {}
        self.commitments = Commitments(limits.usable_blocks)
        self.free_blocks = limits.usable_blocks
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
        self.copied: list[int] = []
        """Tickets whose copies have completed, to be reported."""
        self.tickets: dict[int, tuple[Sequence | None, int]] = {}
        self.news: list[News] = []
        self._deadlines: list[tuple[float, bytes]] = []
        """A heap of deadlines, those of some requests that have ended included."""

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
            request.check(self.limits)
        except RequestRefused as error:
            self.refuse(request, error)
        else:
            self.waiting.add(Waiting(request, self.now()))
            self._note_deadline(request)

    def follow(self, uuid: bytes, stream: Stream) -> None:
        """Tell a stream where a request stands; of one that still waits, it hears when it is accepted."""
        if uuid in self.by_uuid:
            self._tell_again(self.by_uuid[uuid], stream)
        elif uuid not in self.asked and self.waiting.get(uuid) is None:
            self.news.append(Unknown(uuid, stream))

    def cancel(self, uuid: bytes) -> None:
        """End a request, wherever it stands. Unknown ones have ended already."""
        waiting = self.waiting.get(uuid)
        if waiting is not None:
            self.waiting.remove(waiting)
            self._refuse(uuid, submit_pb2.REFUSED_BY_CANCEL)
        elif uuid in self.asked:
            self.asked[uuid].cancelled = True
        elif uuid in self.by_uuid:
            self.by_uuid[uuid].end(FinishReason.CANCELLED)

    def refuse_waiting(self) -> None:
        """Nothing new is admitted: those who wait may try elsewhere."""
        for waiting in list(self.waiting):
            self.waiting.remove(waiting)
            self._refuse(waiting.request.uuid, submit_pb2.REFUSED_BY_DRAINING)

    def expire(self) -> float:
        """End what is past its deadline. Returns seconds until the next deadline, infinity if there is none."""
        now = self.now()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, uuid = heappop(self._deadlines)
            self._end_late(uuid)
        return self._deadlines[0][0] - now if self._deadlines else float("inf")

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
        if request.deadline is None:
            return
        heappush(self._deadlines, (request.deadline, request.uuid))
        if len(self._deadlines) > 2 * (len(self.sequences) + len(self.asked) + len(self.waiting)) + FEW:
            self._deadlines = [entry for entry in self._deadlines if self._is_known(entry[1])]
            heapify(self._deadlines)

    def _is_known(self, uuid: bytes) -> bool:
        return uuid in self.by_uuid or uuid in self.asked or self.waiting.get(uuid) is not None

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

    def take_waiting(self, most_tokens: float) -> Waiting | None:
        """Take the next request that fits beside all that runs, even if each gets as long as it may, to ask for it."""

        def fits(request: Request) -> bool:
            return len(request.prompt) <= most_tokens and self.commitments.fits(request.blocks(self.limits))

        waiting = self.waiting.take(fits)
        if waiting is not None:
            self.asked[waiting.request.uuid] = waiting
            self.commitments.hold(waiting.request.uuid, waiting.request.blocks(self.limits))
        return waiting

    @property
    def admits(self) -> bool:
        """Whether any admission is worth a try."""
        running = len(self.sequences) + len(self.asked)
        return not (self.draining or self.stopping or self.solo) and running < self.max_running

    @property
    def waits_for_manager(self) -> bool:
        """Whether somebody waits for what the manager refused for now, or for what another sequence computes."""
        blocked = self.blocked and len(self.waiting) > 0
        return blocked or bool(self.short) or any(one.awaiting for one in self.sequences.values())

    def take_up(self, sequence: Sequence) -> None:
        """A sequence that an earlier life has left goes on here."""
        self.add(sequence)
        self._note_deadline(sequence.request)

    def add(self, sequence: Sequence) -> None:
        """A sequence is this engine's from now on."""
        self.sequences[sequence.handle] = sequence
        self.by_uuid[sequence.request.uuid] = sequence
        self.commitments.hold(sequence.request.uuid, sequence.request.blocks(self.limits))

    def remove(self, sequence: Sequence) -> None:
        """A sequence has ended, and the manager knows it."""
        del self.sequences[sequence.handle]
        del self.by_uuid[sequence.request.uuid]
        self.short.discard(sequence.handle)
        self.commitments.release(sequence.request.uuid)
        if self.solo is sequence:
            self.solo = None

    def runnable(self, idle: bool) -> Iterator[Sequence]:
        """What may be in the next step: everything, or one alone. ``idle``: nothing is in flight."""
        going: list[Sequence] = []
        doubtful: Sequence | None = None
        for one in self.sequences.values():
            if one.ending is None:
                going.append(one)
                if one.suspect and self.solo is None:
                    self.solo = one
                if one.doubtful and doubtful is None and one.wants_to_run():
                    doubtful = one
        if self.solo is not None:
            # The manager has to know first: if this kills the executor, it is to be known by what.
            return iter([self.solo] if self.solo_known == self.solo.handle else [])
        if doubtful is not None:
            return iter([doubtful] if idle else [])
        return iter(going)

    def clear(self, sequence: Sequence) -> None:
        """A suspect has made progress: it runs beside the others again."""
        sequence.suspect = False
        if self.solo is sequence:
            self.solo = None

    # -- copies ----------------------------------------------------------------------------------------------------------

    def perform(self, tickets: list[Ticket], device: Device, changes: PendingChanges) -> None:
        """Launch the copies that a reply orders; later steps use their destinations."""
        copies = []
        for ticket in tickets:
            sequence = self.sequences.get(ticket.handle)
            source_on_host, destination_on_host = TIERS.get(ticket.kind, (False, False))
            self.tickets[ticket.id] = (sequence, ticket.index)
            if sequence is not None and not destination_on_host and ticket.index >= 0:
                sequence.redirect(ticket.index, ticket.destination)
                changes.note(sequence.slot, [(ticket.index, ticket.destination)])
            copies.append(Copy(ticket.id, ticket.source, ticket.destination, source_on_host, destination_on_host))
        if copies:
            device.copy(copies)

    def forget_copies(self, tickets: list[int]) -> None:
        """The manager knows of these copies: its tables name the destinations from now on."""
        for ticket in tickets:
            sequence, index = self.tickets.pop(ticket, (None, -1))
            if sequence is not None:
                sequence.copied.pop(index, None)


def accepted(sequence: Sequence, to: Stream | None = None) -> Accepted:
    """Where a sequence stands, for one stream or for all."""
    return Accepted(
        sequence.request.uuid, sequence.handle, sequence.prompt, sequence.cached_tokens, sequence.recorded, to
    )

"""One output of a generation, delivered to one client: its tokens as they are recorded, their text, and its end."""

import asyncio
from collections.abc import AsyncGenerator
from collections.abc import Sequence as List

import structlog

from executor.frontend.door import Door
from executor.frontend.endings import end_reason_of, raise_if_lost
from executor.frontend.hanging_up import end_at, go_on_alone, hang_up, release
from executor.frontend.models import Model
from executor.frontend.output import OutputText
from executor.frontend.recorded import RecordedTokens
from executor.frontend.sequence import Sequence
from executor.frontend.stopwatch import Arrival, Stopwatch
from pagehold.inference.v1 import generation_pb2

LONGEST_DELTA = 4096
"""Tokens of one message, so that it stays far below what clients take."""

FEW = 64
"""Tokens that are made text on the event loop; more go to a thread."""

log = structlog.get_logger()
Event = generation_pb2.GenerationEvent


class Bell(asyncio.Event):
    """Set when something is new of one output, and sets what all outputs of a generation are waited for by."""

    def __init__(self, of_all: asyncio.Event) -> None:
        super().__init__()
        self._of_all = of_all
        self.set()

    def set(self) -> None:
        """Something is new."""
        super().set()
        self._of_all.set()


class OutputStream:
    """Delivers one sequence. Tokens are read from the ledger whenever its ``bell`` is set, as many as there are by then, so
    that a slow client gets fewer and larger messages. Whoever makes one calls ``leave`` in the end.
    """

    def __init__(
        self,
        door: Door,
        sequence: Sequence,
        model: Model,
        news: asyncio.Event,
        arrived: Arrival | None,
        attachment: int,
        from_token: int,
    ) -> None:
        """Deliver from token ``from_token`` on. ``attachment``: the number under which a hang-up counts. ``news`` is set
        with the bell.
        """
        self.sequence = sequence
        self.bell = Bell(news)
        self._door, self._attachment, self._from_token = door, attachment, from_token
        request = sequence.request
        self._index = request.output
        self._text = OutputText(
            model.tokenizer, request.stop, request.parameters.end_ids, request.parameters.min_tokens
        )
        self._recorded = RecordedTokens(door, sequence)
        self.watch = Stopwatch(door.metrics, arrived, first=not self._index)
        self._last_id = -1
        self._reason = generation_pb2.END_REASON_UNSPECIFIED
        self.is_finished = False
        """Whether its end was delivered."""
        sequence.deliveries += 1
        sequence.listeners.add(self.bell)

    @property
    def tokens(self) -> int:
        """Tokens taken so far."""
        return self._text.tokens

    @property
    def is_left_alone(self) -> bool:
        """Whether it goes on though nobody here has had the end of it."""
        return not self.sequence.is_over and self._reason == generation_pb2.END_REASON_UNSPECIFIED

    async def news(self) -> AsyncGenerator[Event, None]:
        """(Delta)* of what is new, and Finished with the last of it. Raises what keeps it from being delivered."""
        sequence = self.sequence
        # Before the tokens are read: when it has ended, they are all there.
        end, over = sequence.end, sequence.is_over
        while len(ids := await self._recorded.after(self.tokens, end, most := self._most())):
            if (delta := await self._delta(ids)) is not None:
                yield Event(delta=delta)
            if self._text.stop is not None:
                yield self._finish()
                return
            if len(ids) < most:
                # That was all: of more there will be news, and each look at the ledger is paid for every token.
                break
        if over:
            raise_if_lost(sequence, self.tokens)
            if (delta := self._rest()) is not None:
                yield Event(delta=delta)
            self._reason = generation_pb2.END_REASON_STOP if self._text.stop is not None else end_reason_of(end)
            yield self._finish()

    # -- tokens ------------------------------------------------------------------------------------------------------

    def _most(self) -> int:
        """Tokens to take at once. What comes before the token to begin with is taken on its own, and not sent."""
        before = self._from_token - self.tokens
        return min(before, LONGEST_DELTA) if before > 0 else LONGEST_DELTA

    async def _delta(self, ids: List[int]) -> generation_pb2.Delta | None:
        first = self.tokens
        few = len(ids) <= FEW
        text = self._text.push(ids) if few else await self._door.threads.run(self._text.push, ids)
        taken = ids[: self.tokens - first]
        self._last_id = taken[-1]
        if self._text.stop is not None:
            self._reason = generation_pb2.END_REASON_STOP
            self._end_here()
        if first < self._from_token:
            return None
        self.watch.sent(len(taken))
        return generation_pb2.Delta(output=self._index, first_token=first, ids=taken, text=text)

    def _rest(self) -> generation_pb2.Delta | None:
        """Text that was held back until the end, in a message without ids."""
        text = self._text.flush()
        return generation_pb2.Delta(output=self._index, first_token=self.tokens, text=text) if text else None

    # -- the end -----------------------------------------------------------------------------------------------------

    def _end_here(self) -> None:
        """The text ends at a stop string: the sequence is told to, unless it has ended already."""
        if not self.sequence.is_over:
            length = self.sequence.prompt_tokens + self.tokens
            self._door.in_background(end_at(self._door, self.sequence, length))

    def _finish(self) -> Event:
        sequence = self.sequence
        finished = generation_pb2.Finished(
            output=self._index,
            reason=self._reason,
            usage=generation_pb2.Usage(
                prompt_tokens=sequence.prompt_tokens,
                cached_tokens=(sequence.first or sequence).cached_tokens or 0,
                output_tokens=self.tokens,
            ),
            timings=self.watch.timings(),
        )
        if self._text.stop is not None:
            finished.stop = self._text.stop
        elif self._stopped_at_id():
            finished.stop_token_id = self._last_id
        reason = generation_pb2.EndReason.Name(self._reason).removeprefix("END_REASON_").lower()
        self._door.metrics.requests.labels(reason).inc()
        self.watch.ended()
        self.log("finished", reason)
        self.is_finished = True
        return Event(finished=finished)

    def _stopped_at_id(self) -> bool:
        """Whether it ended at a token that the caller named, rather than at an end of sequence."""
        is_stop = self._reason == generation_pb2.END_REASON_STOP
        return is_stop and self._last_id in self.sequence.request.stop_token_ids

    def log(self, what: str, reason: str, **more: str) -> None:
        """Log how it stands."""
        timings = self.watch.timings()
        log.info(
            what,
            id=self.sequence.id,
            output=self._index,
            request_id=self.sequence.request.request_id,
            reason=reason,
            prompt_tokens=self.sequence.prompt_tokens,
            output_tokens=self.tokens,
            first_token=round(timings.first_token, 4),
            total=round(timings.total, 4),
            **more,
        )

    def leave(self, detached: bool) -> None:
        """Its client has all of it, or is gone, or is told that it is lost. ``detached``: it goes on in any case."""
        sequence, door = self.sequence, self._door
        sequence.listeners.discard(self.bell)
        sequence.deliveries -= 1
        if sequence.is_over:
            door.registry.remove(sequence)
            if sequence.given_up and not detached:
                # Whoever comes back for it would compute what nobody waits for.
                door.in_background(hang_up(door, sequence, self._attachment))
        elif not self.is_left_alone:
            release(door, sequence)
        elif not door.is_leaving:
            gone = go_on_alone(door, sequence) if detached else hang_up(door, sequence, self._attachment)
            door.in_background(gone)

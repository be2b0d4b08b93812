"""One generation, delivered to one client: from acceptance over recorded tokens to its end."""

import asyncio
from collections.abc import AsyncGenerator
from collections.abc import Sequence as List

import structlog

from executor.frontend import parameters
from executor.frontend.door import Door
from executor.frontend.endings import end_reason_of, raise_if_lost
from executor.frontend.hanging_up import end_at, go_on_alone, hang_up, release
from executor.frontend.models import Model
from executor.frontend.output import OutputText
from executor.frontend.recorded import RecordedTokens
from executor.frontend.refusals import error_of
from executor.frontend.sequence import Sequence
from executor.frontend.statuses import reason_of
from executor.frontend.stopwatch import Arrival, Stopwatch
from pagehold.engine.v1 import submit_pb2
from pagehold.inference.v1 import generation_pb2

LONGEST_DELTA = 4096
"""Tokens of one message, so that it stays far below what clients take."""

FEW = 64
"""Tokens that are made text on the event loop; more go to a thread."""

log = structlog.get_logger()
Event = generation_pb2.GenerationEvent


class Generation:
    """Delivers one sequence to one client.

    Tokens are read from the ledger whenever something woke it, as many as there are by then, so that a slow client gets
    fewer and larger messages. Whoever iterates ``events`` must close it: a client that is gone ends its generation.
    """

    def __init__(
        self,
        door: Door,
        sequence: Sequence,
        model: Model,
        *,
        arrived: Arrival | None = None,
        attachment: int = 0,
        detached: bool = False,
        from_token: int = 0,
    ) -> None:
        """Deliver from output token ``from_token`` on. ``attachment``: the number under which a hang-up counts.

        ``arrived`` is when the request came; None: it was accepted before, and somebody attaches.
        """
        self._door, self._sequence, self._model = door, sequence, model
        self._attachment, self._detached, self._from_token = attachment, detached, from_token
        request = sequence.request
        self._output = OutputText(
            model.tokenizer, request.stop, request.parameters.end_ids, request.parameters.min_tokens
        )
        self._recorded = RecordedTokens(door, sequence)
        self._news = asyncio.Event()
        self._is_new = arrived is not None
        self._watch = Stopwatch(door.metrics, arrived)
        self._computed = 0
        self._last_id = -1
        self._failed = False
        self._reason = generation_pb2.END_REASON_UNSPECIFIED
        sequence.deliveries += 1
        sequence.listeners.add(self._news)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Started (Progress)* (Delta)* Finished. Raises what keeps it from being delivered to its end."""
        try:
            await self._await_acceptance()
            yield Event(started=self._started())
            async for event in self._deliver():
                yield event
            yield Event(finished=self._finished())
        except Exception as error:
            self._failed = True
            self._log("failed", reason_of(error), error=str(error))
            raise
        finally:
            self._leave()

    # -- acceptance --------------------------------------------------------------------------------------------------

    async def _await_acceptance(self) -> None:
        """Wait until it is in the ledger, and what of its prompt was cached is known if anybody knows it."""
        sequence = self._sequence
        while not self._is_settled():
            self._news.clear()
            await self._news.wait()
        if sequence.failure is not None:
            raise sequence.failure
        if sequence.refused is not None and sequence.refused.by != submit_pb2.REFUSED_BY_DEADLINE:
            raise error_of(sequence, sequence.refused)
        self._watch.accepted()

    def _is_settled(self) -> bool:
        sequence = self._sequence
        known = sequence.cached_tokens is not None or sequence.unsure_since is not None
        return sequence.is_over or (sequence.accepted and known)

    def _started(self) -> generation_pb2.Started:
        sequence, request = self._sequence, self._sequence.request
        if self._is_new:
            self._door.metrics.count_tokens("prompt", sequence.prompt_tokens)
            self._door.metrics.count_tokens("cached", sequence.cached_tokens or 0)
        return generation_pb2.Started(
            id=sequence.id,
            request_id=request.request_id or None,
            model=request.model,
            prompt_tokens=sequence.prompt_tokens,
            cached_tokens=sequence.cached_tokens or 0,
            sampling=parameters.sampling_of(request),
            stopping=parameters.stopping_of(request),
            cache=parameters.cache_of(request),
            priority=request.priority,
        )

    # -- tokens ------------------------------------------------------------------------------------------------------

    async def _deliver(self) -> AsyncGenerator[Event, None]:
        sequence = self._sequence
        while True:
            self._news.clear()
            # Before the tokens are read: when it has ended, they are all there.
            end, over = sequence.end, sequence.is_over
            if (progress := self._progress()) is not None:
                yield Event(progress=progress)
            while len(ids := await self._recorded.after(self._output.tokens, end, most := self._most())):
                if (delta := await self._delta(ids)) is not None:
                    yield Event(delta=delta)
                if self._output.stop is not None:
                    return
                if len(ids) < most:
                    # That was all: of more there will be news, and each look at the ledger is paid for every token.
                    break
            if over:
                raise_if_lost(sequence, self._output.tokens)
                if (delta := self._rest()) is not None:
                    yield Event(delta=delta)
                self._reason = generation_pb2.END_REASON_STOP if self._output.stop is not None else end_reason_of(end)
                return
            await self._news.wait()

    def _progress(self) -> generation_pb2.Progress | None:
        computed, prompt = self._sequence.computed, self._sequence.prompt_tokens
        if computed == self._computed or self._output.tokens or self._sequence.tokens > prompt:
            return None
        self._computed = computed
        return generation_pb2.Progress(computed_tokens=computed, prompt_tokens=prompt)

    def _most(self) -> int:
        """Tokens to take at once. What comes before the token to begin with is taken on its own, and not sent."""
        before = self._from_token - self._output.tokens
        return min(before, LONGEST_DELTA) if before > 0 else LONGEST_DELTA

    async def _delta(self, ids: List[int]) -> generation_pb2.Delta | None:
        first = self._output.tokens
        few = len(ids) <= FEW
        text = self._output.push(ids) if few else await self._door.threads.run(self._output.push, ids)
        taken = ids[: self._output.tokens - first]
        self._last_id = taken[-1]
        if self._output.stop is not None:
            self._reason = generation_pb2.END_REASON_STOP
            self._end_here()
        if first < self._from_token:
            return None
        self._watch.sent(len(taken))
        return generation_pb2.Delta(output=0, first_token=first, ids=taken, text=text)

    def _rest(self) -> generation_pb2.Delta | None:
        """Text that was held back until the end, in a message without ids."""
        text = self._output.flush()
        return generation_pb2.Delta(output=0, first_token=self._output.tokens, text=text) if text else None

    # -- the end -----------------------------------------------------------------------------------------------------

    def _end_here(self) -> None:
        """The text ends at a stop string: the sequence is told to, unless it has ended already."""
        if not self._sequence.is_over:
            length = self._sequence.prompt_tokens + self._output.tokens
            self._door.in_background(end_at(self._door, self._sequence, length))

    def _finished(self) -> generation_pb2.Finished:
        sequence = self._sequence
        finished = generation_pb2.Finished(
            output=0,
            reason=self._reason,
            usage=generation_pb2.Usage(
                prompt_tokens=sequence.prompt_tokens,
                cached_tokens=sequence.cached_tokens or 0,
                output_tokens=self._output.tokens,
            ),
            timings=self._watch.timings(),
        )
        if self._output.stop is not None:
            finished.stop = self._output.stop
        elif self._stopped_at_id():
            finished.stop_token_id = self._last_id
        reason = generation_pb2.EndReason.Name(self._reason).removeprefix("END_REASON_").lower()
        self._door.metrics.requests.labels(reason).inc()
        self._watch.ended()
        self._log("finished", reason)
        return finished

    def _stopped_at_id(self) -> bool:
        """Whether it ended at a token that the caller named, rather than at an end of sequence."""
        is_stop = self._reason == generation_pb2.END_REASON_STOP
        return is_stop and self._last_id in self._sequence.request.stop_token_ids

    def _log(self, what: str, reason: str, **more: str) -> None:
        timings = self._watch.timings()
        log.info(
            what,
            id=self._sequence.id,
            request_id=self._sequence.request.request_id,
            reason=reason,
            prompt_tokens=self._sequence.prompt_tokens,
            output_tokens=self._output.tokens,
            first_token=round(timings.first_token, 4),
            total=round(timings.total, 4),
            **more,
        )

    def _leave(self) -> None:
        """Its client has all of it, or is gone, or is told that it is lost."""
        sequence, door = self._sequence, self._door
        sequence.listeners.discard(self._news)
        sequence.deliveries -= 1
        if sequence.is_over:
            door.registry.remove(sequence)
            if sequence.given_up and not self._detached:
                # Whoever comes back for it would compute what nobody waits for.
                door.in_background(hang_up(door, sequence, self._attachment))
        elif self._reason != generation_pb2.END_REASON_UNSPECIFIED:
            release(door, sequence)
        elif not door.is_leaving:
            self._hang_up()

    def _hang_up(self) -> None:
        door, sequence = self._door, self._sequence
        if not self._failed:  # which is counted as what it failed with
            door.metrics.requests.labels("hung_up").inc()
        if self._detached:
            door.in_background(go_on_alone(door, sequence))
        else:
            door.in_background(hang_up(door, sequence, self._attachment))

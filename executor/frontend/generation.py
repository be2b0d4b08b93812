"""One generation, delivered to one client: from acceptance over the tokens of its outputs to the end of each."""

import asyncio
from collections.abc import AsyncGenerator
from collections.abc import Sequence as List

from executor.frontend import parameters
from executor.frontend.door import Door
from executor.frontend.models import Model
from executor.frontend.output_stream import Event, OutputStream
from executor.frontend.refusals import error_of
from executor.frontend.sequence import Sequence
from executor.frontend.statuses import reason_of
from executor.frontend.stopwatch import Arrival
from pagehold.engine.v1 import submit_pb2
from pagehold.inference.v1 import generation_pb2


class Generation:
    """Delivers the outputs of one request to one client, each as it comes.

    Whoever iterates ``events`` must close it: a client that is gone ends its generation.
    """

    def __init__(
        self,
        door: Door,
        sequences: List[Sequence],
        model: Model,
        *,
        arrived: Arrival | None = None,
        attachments: List[int] = (),
        detached: bool = False,
        from_token: int = 0,
    ) -> None:
        """Deliver sequences, the first output first, each from token ``from_token`` on.

        ``attachments``: the numbers under which a hang-up counts, 0 where there are none. ``arrived`` is when the request
        came; None: it was accepted before, and somebody attaches.
        """
        self._door, self._detached = door, detached
        self._first = sequences[0]
        self._is_new = arrived is not None
        self._news = asyncio.Event()
        self._computed = 0
        self._failed = False
        numbers = attachments or [0] * len(sequences)
        self._outputs = [
            OutputStream(door, sequence, model, self._news, arrived, number, from_token)
            for sequence, number in zip(sequences, numbers, strict=True)
        ]

    async def events(self) -> AsyncGenerator[Event, None]:
        """Started (Progress)* (Delta)* (Finished)+. Raises what keeps it from being delivered to its end."""
        try:
            await self._await_acceptance()
            yield Event(started=self._started())
            async for event in self._deliver():
                yield event
        except Exception as error:
            self._failed = True
            self._outputs[0].log("failed", reason_of(error), error=str(error))
            raise
        finally:
            self._leave()

    # -- acceptance --------------------------------------------------------------------------------------------------

    async def _await_acceptance(self) -> None:
        """Wait until it is in the ledger, and what of its prompt was cached is known if anybody knows it."""
        first = self._first
        while not self._is_settled():
            self._news.clear()
            await self._news.wait()
        if first.failure is not None:
            raise first.failure
        if first.refused is not None and first.refused.by != submit_pb2.REFUSED_BY_DEADLINE:
            raise error_of(first, first.refused)
        for output in self._outputs:
            if first.refused is not None:
                output.sequence.go_with_first()
            output.watch.accepted()
            output.bell.set()

    def _is_settled(self) -> bool:
        first = self._first
        known = first.cached_tokens is not None or first.unsure_since is not None
        return first.is_over or (first.accepted and known)

    def _started(self) -> generation_pb2.Started:
        first, request = self._first, self._first.request
        if self._is_new:
            self._door.metrics.count_tokens("prompt", first.prompt_tokens)
            self._door.metrics.count_tokens("cached", first.cached_tokens or 0)
        return generation_pb2.Started(
            id=first.id,
            request_id=request.request_id or None,
            model=request.model,
            prompt_tokens=first.prompt_tokens,
            cached_tokens=first.cached_tokens or 0,
            sampling=parameters.sampling_of(request),
            stopping=parameters.stopping_of(request),
            cache=parameters.cache_of(request),
            priority=request.priority,
            seeds=parameters.seeds_of(request),
            beam_search=parameters.beam_search_of(request),
        )

    # -- outputs -----------------------------------------------------------------------------------------------------

    async def _deliver(self) -> AsyncGenerator[Event, None]:
        """What is new of each output, until all have ended."""
        while True:
            self._news.clear()
            if (progress := self._progress()) is not None:
                yield Event(progress=progress)
            going = [output for output in self._outputs if not output.is_finished]
            for output in [one for one in going if one.bell.is_set()]:
                output.bell.clear()
                async for event in output.news():
                    yield event
            if all(output.is_finished for output in going):
                return
            await self._news.wait()

    def _progress(self) -> generation_pb2.Progress | None:
        computed, prompt = self._first.computed, self._first.prompt_tokens
        if computed == self._computed or self._outputs[0].tokens or self._first.tokens > prompt:
            return None
        self._computed = computed
        return generation_pb2.Progress(computed_tokens=computed, prompt_tokens=prompt)

    # -- the end -----------------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Its client has all of it, or is gone, or is told that it is lost."""
        is_hang_up = not self._door.is_leaving and any(output.is_left_alone for output in self._outputs)
        if is_hang_up and not self._failed:  # which is counted as what it failed with
            self._door.metrics.requests.labels("hung_up").inc()
        for output in self._outputs:
            output.leave(self._detached)

"""A beam search, delivered to one client: how far it has come while it goes on, and what it has found in the end."""

from collections.abc import AsyncGenerator
from typing import Any

from executor.found_outputs import found_uuids, is_search, kept_request
from executor.frontend.door import Door
from executor.frontend.endings import raise_if_lost
from executor.frontend.errors import GenerationLost
from executor.frontend.generation import Generation
from executor.frontend.models import Model
from executor.frontend.output_stream import Event, OutputStream
from executor.frontend.sequence import End, Sequence
from pagehold.common.v1 import states_pb2
from pagehold.engine.v1 import request_pb2
from pagehold.inference.v1 import generation_pb2

CUT_SHORT = (states_pb2.FINISH_REASON_CANCELLED, states_pb2.FINISH_REASON_DEADLINE)
"""Ends at which there may be fewer outputs than were asked for: the others have no token."""


class SearchGeneration(Generation):
    """Delivers a search. Its sequence is the first beam, of which nothing is delivered: beams change places until the end."""

    def __init__(self, door: Door, sequences: list[Sequence], model: Model, **how: Any) -> None:
        """As ``Generation``; ``sequences`` is the first beam alone."""
        super().__init__(door, sequences, model, **how)
        self._model, self._arrived, self._from_token = model, how.get("arrived"), how.get("from_token", 0)
        self._said = 0

    async def _deliver(self) -> AsyncGenerator[Event, None]:
        first = self._first
        while not first.is_over:
            self._news.clear()
            if (progress := self._progress()) is not None:
                yield Event(progress=progress)
            await self._news.wait()
        raise_if_lost(first, first.output_tokens)
        for sequence, score in [await self._found(place) for place in range(first.request.outputs)]:
            stream = OutputStream(
                self._door, sequence, self._model, self._news, self._arrived, attachment=0, from_token=self._from_token
            )
            # All of them waited, and were computed, together.
            stream.watch = self._outputs[0].watch
            self._outputs.append(stream)
            async for event in stream.news():
                if score is not None and event.HasField("finished"):
                    event.finished.score = score
                yield event

    def _progress(self) -> generation_pb2.Progress | None:
        """How far the prompt is computed, and then how far the beams have come."""
        first = self._first
        if not first.output_tokens:
            return super()._progress()
        if first.output_tokens == self._said:
            return None
        self._said, prompt = first.output_tokens, first.prompt_tokens
        return generation_pb2.Progress(computed_tokens=prompt, prompt_tokens=prompt, beam_tokens=self._said)

    async def _found(self, place: int) -> tuple[Sequence, float | None]:
        """An output, and what it is ranked by; one without tokens where the search was cut short before it had any.

        Raises GenerationLost if it is no longer kept.
        """
        first = self._first
        uuid = found_uuids(first.uuid, first.request)[place]
        kept = kept_request(first.request, first.uuid, request_pb2.BEAM_ROLE_FOUND, place)
        sequence = Sequence(uuid, first.pool, kept, first.prompt_tokens, first=first)
        found = await self._door.manager.look_up(first.pool, uuid=uuid)
        if found is not None and found.WhichOneof("found") == "finished":
            sequence.finish(End.of(found.finished))
            return sequence, found.finished.score
        reason = states_pb2.FINISH_REASON_DEADLINE if first.end is None else first.end.reason
        if reason not in CUT_SHORT:
            raise GenerationLost(first.output_tokens)
        sequence.finish(End(reason, first.prompt_tokens, first.prompt_tokens, ()))
        return sequence, None


def generation_of(door: Door, sequences: list[Sequence], model: Model, **how: Any) -> Generation:
    """Deliver a request, whichever kind it is; see ``Generation``."""
    kind = SearchGeneration if is_search(sequences[0].request) else Generation
    return kind(door, sequences, model, **how)

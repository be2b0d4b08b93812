"""Exactly once: what has been delivered of a generation, and what an event adds to it.

A stream that breaks is opened again *from the token that it began at*, and what was delivered before is dropped: ids by
their index, text by its number of characters. Nothing less would do: ids may come ahead of their text (a piece that may
begin a stop string is held back), so a client cannot know at which token the missing text begins. It need not: the text
of an output is the same whoever replays it, however it is cut into deltas, and a replay costs no computing.

What is dropped is compared with what was delivered, so a server that would not replay the same is found out.
"""

from dataclasses import dataclass, field, replace

import grpc

from pagehold.client.errors import BadStream
from pagehold.client.events import Completion, Delta, Event, Finished, Output, Progress, Started


@dataclass(slots=True)
class _Delivered:
    """What has been delivered of one output: its ids from token ``first`` on, and its text.

    ``replayed`` is the number of characters that the attempt at hand has sent; while it is less than what was
    delivered, they are known ones.
    """

    first: int
    ids: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    characters: int = 0
    replayed: int = 0
    finished: Finished | None = None

    @property
    def next_token(self) -> int:
        """Index of the token that is delivered next."""
        return self.first + len(self.ids)

    def text(self) -> str:
        """The text so far."""
        self.pieces[:] = ["".join(self.pieces)]
        return self.pieces[0]


class Transcript:
    """What has been delivered of one generation. ``first_token`` is the token that it begins at.

    ``deliveries`` counts the events that were delivered. Raises ``BadStream`` where a server leaves out tokens, or
    replays others than it sent before.
    """

    def __init__(self, first_token: int = 0) -> None:
        self.started: Started | None = None
        self.deliveries = 0
        self._first_token = first_token
        self._come = (0, 0)
        """Tokens of beams, and of the prompt, that progress has told of."""
        self._outputs: dict[int, _Delivered] = {}

    @property
    def complete(self) -> bool:
        """Whether every output has ended."""
        ended = [output.finished is not None for output in self._outputs.values()]
        return all(ended) and len(ended) >= self._expected

    @property
    def _expected(self) -> int:
        """How many outputs there are to be."""
        return (self.started and self.started.sampling.n) or 1

    @property
    def tokens(self) -> int:
        """Tokens delivered, of all outputs."""
        return sum(len(output.ids) for output in self._outputs.values())

    def ids(self, output: int = 0) -> tuple[int, ...]:
        """The ids delivered of an output."""
        return tuple(self._outputs[output].ids) if output in self._outputs else ()

    def text(self, output: int = 0) -> str:
        """The text delivered of an output."""
        return self._outputs[output].text() if output in self._outputs else ""

    def begin_attempt(self) -> None:
        """What is heard from now on comes from the first token on again."""
        for output in self._outputs.values():
            output.replayed = 0

    def add(self, event: Event) -> Event | None:
        """What of an event was not delivered before, counted as delivered now; None: nothing."""
        if isinstance(event, Delta):
            news: Event | None = self._add_delta(event)
        elif isinstance(event, Finished):
            news = self._add_finished(event)
        elif isinstance(event, Started):
            news = self._add_started(event)
        else:
            news = self._add_progress(event)
        self.deliveries += news is not None
        return news

    def completion(self) -> Completion:
        """The whole, once it is complete."""
        if self.started is None:
            raise _fault("the server ended a generation that it never began")
        outputs = tuple(
            Output(index, tuple(output.ids), output.text(), output.finished)
            for index, output in sorted(self._outputs.items())
            if output.finished is not None
        )
        return Completion(self.started, outputs)

    def _output(self, index: int) -> _Delivered:
        return self._outputs.setdefault(index, _Delivered(self._first_token))

    def _add_started(self, started: Started) -> Started | None:
        if self.started is None:
            self.started = started
            return started
        if self.started.id != started.id:
            raise _fault(f"the server answered with request {started.id} instead of {self.started.id}")
        return None

    def _add_progress(self, progress: Progress) -> Progress | None:
        come = (progress.beam_tokens, progress.computed_tokens)
        if come <= self._come or self._outputs:
            return None
        self._come = come
        return progress

    def _add_delta(self, delta: Delta) -> Delta | None:
        output = self._output(delta.output)
        ids, text = self._new_ids(output, delta), self._new_text(output, delta.text)
        if not ids and not text:
            return None
        news = replace(delta, first_token=output.next_token, ids=ids, text=text)
        output.ids += ids
        if text:
            output.pieces.append(text)
            output.characters += len(text)
        return news

    @staticmethod
    def _new_ids(output: _Delivered, delta: Delta) -> tuple[int, ...]:
        """Those ids of a delta that were not delivered before."""
        known = output.next_token - delta.first_token
        start = delta.first_token - output.first
        if delta.ids and (known < 0 or start < 0):
            raise _fault(f"the server sent token {delta.first_token} where {output.next_token} was next")
        overlap = max(0, min(known, len(delta.ids)))
        if list(delta.ids[:overlap]) != output.ids[start : start + overlap]:
            raise _fault(f"the server sent other tokens from {delta.first_token} on than before")
        return delta.ids[overlap:]

    @staticmethod
    def _new_text(output: _Delivered, text: str) -> str:
        """That part of a delta's text that was not delivered before."""
        start = output.replayed
        output.replayed += len(text)
        overlap = min(output.characters - start, len(text))
        if overlap and text[:overlap] != output.text()[start : start + overlap]:
            raise _fault(f"the server sent other text from character {start} on than before")
        return text[overlap:]

    def _add_finished(self, finished: Finished) -> Finished | None:
        output = self._output(finished.output)
        if output.finished is not None:
            return None
        if finished.usage.output_tokens > output.next_token:
            raise _fault(f"the server sent {output.next_token} of {finished.usage.output_tokens} tokens")
        output.finished = finished
        return finished


def _fault(text: str) -> BadStream:
    return BadStream(text, grpc.StatusCode.INTERNAL)

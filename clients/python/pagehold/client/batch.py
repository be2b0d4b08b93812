"""A batch: several generations on one stream, and each on a stream of its own where that one breaks."""

from collections.abc import Sequence

import grpc

from pagehold.client.calls import pause_after
from pagehold.client.effects import Open, Pause, Procedure, Read, Together
from pagehold.client.errors import PageholdError, Unavailable, from_item
from pagehold.client.events import Completion
from pagehold.client.generation import Generation
from pagehold.client.persistence import BackOff, Deadline, Persistence
from pagehold.inference.v1 import generation_pb2


class Batch:
    """A batch of requests. ``retry_overload``: what a busy server refused is asked again, within the deadline."""

    def __init__(
        self,
        requests: Sequence[generation_pb2.GenerateRequest],
        persistence: Persistence,
        deadline: Deadline,
        *,
        retry_overload: bool = False,
    ) -> None:
        self._request = generation_pb2.BatchGenerateRequest(requests=requests)
        self._persistence = persistence
        self._deadline = deadline
        self._retry_overload = retry_overload
        self._items = [
            Generation(request, persistence, deadline, retry_overload=retry_overload) for request in requests
        ]
        self._failures: dict[int, PageholdError] = {}

    def run(self) -> Procedure[list[Completion | PageholdError]]:
        """What became of each request, in their order. Raises what the call as a whole was refused with."""
        failure = yield from self._read_all()
        # Archived generations are kept for a while only: the rest is taken up at once, not one after another.
        unfinished = {
            place: self._finish(item, self._failures.get(place, failure))
            for place, item in enumerate(self._items)
            if not item.transcript.complete
        }
        ends = dict(zip(unfinished, (yield Together(tuple(unfinished.values()))), strict=True)) if unfinished else {}
        return [
            ends[place] if place in ends else item.transcript.completion() for place, item in enumerate(self._items)
        ]

    def _read_all(self) -> Procedure[PageholdError]:
        """Read the one stream to its end; what it ended with, for those that it left unfinished."""
        back_off = BackOff(self._persistence)
        while True:
            heard = False
            try:
                for item in self._items:
                    item.begin_attempt()
                yield Open("BatchGenerate", self._request, self._deadline.left())
                while (message := (yield Read())) is not None:
                    heard = True
                    self._take(message)
                return Unavailable("the server ended the stream early", grpc.StatusCode.UNAVAILABLE)
            except PageholdError as failure:
                self._persistence.answered |= bool(failure.reason)
                if heard:
                    return failure
                pause = pause_after(failure, back_off, self._deadline, overload=self._retry_overload)
            yield Pause(pause)

    def _take(self, message: generation_pb2.BatchGenerateResponse) -> None:
        if message.item >= len(self._items):
            return
        if message.WhichOneof("content") == "failure":
            self._persistence.answered = True
            self._failures[message.item] = from_item(message.failure)
        elif message.item not in self._failures:
            try:
                self._items[message.item].take(message.event)
            except PageholdError as error:  # what one item was sent cannot be right; the others are none the worse
                self._failures[message.item] = error

    @staticmethod
    def _finish(item: Generation, failure: PageholdError) -> Procedure[Completion]:
        yield from item.recover(failure)
        yield from item.follow()
        return item.transcript.completion()

"""Carries out procedures without a server and without time, but for what a test says."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import grpc

from pagehold.client.effects import Deliver, Invoke, Open, Pause, Procedure, Read, Stepper
from pagehold.client.errors import PageholdError, Unavailable
from pagehold.client.events import Event
from pagehold.client.generation import Generation
from pagehold.client.persistence import Deadline, Persistence
from pagehold.inference.v1 import generation_pb2, requests_pb2
from tests.unit.client.answers import Answer, Attempt

BROKEN = Unavailable("Socket closed", grpc.StatusCode.UNAVAILABLE)


class Wire:
    """Carries out a procedure without a server: its calls go as ``attempts`` say, and no time passes but in pauses."""

    def __init__(self, answer: Answer, attempts: list[Attempt]) -> None:
        self.now = 0.0
        self.calls: list[Open] = []
        self.cancelled: list[dict[str, str]] = []
        self.broken = BROKEN
        self._answer = answer
        self._attempts = iter(attempts)
        self._attempt = Attempt()
        self._stream: Iterator[generation_pb2.GenerationEvent] = iter(())

    def generation(self, request: Any, seconds: float | None = None) -> Generation:
        persistence = Persistence(5.0, 60.0, clock=lambda: self.now, draw=lambda: 1.0)
        return Generation(request, persistence, Deadline(seconds, persistence))

    def run(self, procedure: Procedure[None]) -> list[Event]:
        stepper, delivered = Stepper(procedure), []
        while (effect := stepper.step()) is not None:
            if isinstance(effect, Deliver):
                delivered.append(effect.event)
                continue
            try:
                stepper.answer(self._perform(effect))
            except PageholdError as error:
                stepper.fail(error)
        return delivered

    def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Pause):
            self.now += effect.seconds
        elif isinstance(effect, Invoke):
            kind = effect.request.WhichOneof("key")
            self.cancelled.append({kind: getattr(effect.request, kind)})
            return requests_pb2.CancelResponse(cancelled=True)
        elif isinstance(effect, Open):
            self.calls.append(effect)
            self._attempt = next(self._attempts)
            from_token = effect.request.from_token if effect.method == "Attach" else 0
            events = self._answer.events(self._attempt.cuts, from_token)
            wanted = (one for one in events if self._attempt.with_progress or one.WhichOneof("content") != "progress")
            self._stream = islice(wanted, self._attempt.breaks_after)
        else:
            assert isinstance(effect, Read)
            return self._read()
        return None

    def _read(self) -> generation_pb2.GenerateResponse | None:
        event = next(self._stream, None)
        if event is not None:
            return generation_pb2.GenerateResponse(event=event)
        if self._attempt.breaks_after is not None:
            raise BROKEN
        return None

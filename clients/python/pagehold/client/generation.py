"""One generation from its request to its end, through any number of connections.

```
            ┌── UNAVAILABLE ──┐                        ┌──── broken ────┐
            ▼                 │                        ▼                │
  Generate(request_id) ───────┴── Started ──► deliver what is new ──────┴──► OK ──► whole
            │ ▲                      ▲
 ALREADY_   │ │ NOT_FOUND            │
 EXISTS on  │ │ (not accepted yet)   │
 a retry    ▼ │                      │
         Attach(request_id) ─────────┘         broken, once Started: Attach(id), from the same first token
```

A request keeps its name through all attempts, so that nothing runs twice.
"""

from dataclasses import replace

import grpc

from pagehold.client.calls import is_break, pause_after
from pagehold.client.decoding import event_of
from pagehold.client.effects import Deliver, Invoke, Open, Pause, Procedure, Read
from pagehold.client.errors import (
    AlreadyExists,
    BadStream,
    Cancelled,
    DeadlineExceeded,
    Details,
    GenerationLost,
    NotFound,
    Overloaded,
    PageholdError,
    Unavailable,
)
from pagehold.client.events import Delta, Event, Finished, Started, Timings
from pagehold.client.persistence import BackOff, Deadline, Persistence
from pagehold.client.transcript import Transcript
from pagehold.inference.v1 import generation_pb2, requests_pb2

CANCEL_SECONDS = 2.0
"""How long the word that a generation is no longer wanted may take where its connection is gone."""


class Generation:
    """A generation: ``wanted`` asks for a new one, or for the events of one that exists.

    ``transcript`` has what was delivered; ``attempts`` counts the calls that were made for it. ``retry_overload``: a
    server that is too busy to accept it is asked again, within the deadline.
    """

    def __init__(
        self,
        wanted: generation_pb2.GenerateRequest | generation_pb2.AttachRequest,
        persistence: Persistence,
        deadline: Deadline,
        *,
        retry_overload: bool = False,
    ) -> None:
        self.attempts = 0
        self.new = isinstance(wanted, generation_pb2.GenerateRequest)
        self.transcript = Transcript(0 if isinstance(wanted, generation_pb2.GenerateRequest) else wanted.from_token)
        self._wanted = wanted
        self._persistence = persistence
        self._deadline = deadline
        self._retry_overload = retry_overload
        self._back_off = BackOff(persistence)
        self._attaching = not self.new
        self._failed = False
        self._deliveries = 0
        self._arrived = persistence.clock()
        self._started: float | None = None
        self._first_token: float | None = None

    @property
    def key(self) -> dict[str, str]:
        """What names it to a server: its id once that is known, else what the caller calls it."""
        if self.transcript.started is not None:
            return {"id": self.transcript.started.id}
        if isinstance(self._wanted, generation_pb2.AttachRequest) and self._wanted.WhichOneof("key") == "id":
            return {"id": self._wanted.id}
        return {"request_id": self._wanted.request_id}

    @property
    def ends_with_its_call(self) -> bool:
        """Whether hanging up is sure to end it: its first call is open, and it is not detached."""
        return self.new and not self._failed and not self._wanted.detached

    # -- its way -----------------------------------------------------------------------------------------------------

    def follow(self) -> Procedure[None]:
        """Deliver every event once, in order, until the generation has ended. Raises ``PageholdError``."""
        while True:
            try:
                yield self._opening()
                while (message := (yield Read())) is not None:
                    if (news := self.take(message.event)) is not None:
                        yield Deliver(news)
                failure: PageholdError = Unavailable("the server ended the stream early", grpc.StatusCode.UNAVAILABLE)
            except PageholdError as error:
                failure = error
            if self.transcript.complete and not isinstance(failure, BadStream):
                return
            yield from self.recover(failure)

    def recover(self, failure: PageholdError) -> Procedure[None]:
        """Wait until the next attempt. Raises what cannot be recovered from."""
        late = isinstance(failure, DeadlineExceeded) and self._deadline.seconds is not None
        told = late and self.ends_with_its_call
        self._failed = True
        if not late:
            yield Pause(self._pause_after(failure))
        if late or self._deadline.passed:
            if self.new and not told and not self._wanted.detached:
                yield from end(self.key)
            raise self._too_late() from failure

    def begin_attempt(self) -> None:
        """A call is made for it, whose events come from the first token on."""
        self.attempts += 1
        self.transcript.begin_attempt()

    def take(self, message: generation_pb2.GenerationEvent) -> Event | None:
        """What of an event is new to the caller. Raises ``BadStream``."""
        self._persistence.answered = True
        event = event_of(message)
        if isinstance(event, Finished) and self.attempts > 1:
            event = replace(event, timings=self._own_timings())
        news = None if event is None else self.transcript.add(event)
        if isinstance(news, Started):
            self._started = self._persistence.clock()
        elif isinstance(news, Delta) and self._first_token is None:
            self._first_token = self._persistence.clock()
        return news

    def _opening(self) -> Open:
        self.begin_attempt()
        left = self._deadline.left()
        if not self._attaching or not isinstance(self._wanted, generation_pb2.GenerateRequest):
            return Open("Generate" if self.new else "Attach", self._wanted, left)
        attach = generation_pb2.AttachRequest()
        for field, name in self.key.items():
            setattr(attach, field, name)
        if self._wanted.HasField("detached"):
            attach.detached = self._wanted.detached
        return Open("Attach", attach, left)

    # -- what a failure means ----------------------------------------------------------------------------------------

    def _pause_after(self, failure: PageholdError) -> float:
        """Seconds until the next attempt. Raises what cannot be recovered from."""
        self._persistence.answered |= bool(failure.reason)
        if self.transcript.deliveries > self._deliveries:
            self._deliveries = self.transcript.deliveries
            self._back_off.succeeded()
        if self.transcript.started is None:
            return self._pause_before_started(failure)
        return self._pause_once_started(failure)

    def _pause_before_started(self, failure: PageholdError) -> float:
        if self._attaching and self.new and isinstance(failure, NotFound):
            self._attaching = False  # it is known by name and not accepted: it may still be, or have been forgotten
        elif not self._attaching and self.attempts > 1 and isinstance(failure, AlreadyExists):
            self._attaching = True  # an earlier attempt arrived
        else:
            return pause_after(failure, self._back_off, self._deadline, overload=self._retry_overload)
        return self._pause_or_give_up(failure)

    def _pause_once_started(self, failure: PageholdError) -> float:
        self._attaching = True
        if isinstance(failure, NotFound):
            raise self._forgotten() from failure
        # The generation goes on behind a server that is too busy to replay it, and behind an end of the call that is
        # nobody's word on it.
        nobodys = not failure.reason and isinstance(failure, Cancelled | DeadlineExceeded)
        if not (nobodys or isinstance(failure, Overloaded) or is_break(failure)):
            raise failure
        return self._pause_or_give_up(failure)

    def _pause_or_give_up(self, failure: PageholdError) -> float:
        pause = self._back_off.pause(failure.retry_after)
        if pause is None:
            raise self._given_up(failure) from failure
        left = self._deadline.left()
        return pause if left is None else min(pause, left)

    # -- how it ends badly -------------------------------------------------------------------------------------------

    def _too_late(self) -> DeadlineExceeded:
        text = f"not finished within {self._deadline.seconds:g} s, after {self._so_far}"
        return DeadlineExceeded(text, grpc.StatusCode.DEADLINE_EXCEEDED, self._where())

    def _forgotten(self) -> GenerationLost:
        text = f"the connection broke after {self._so_far}, and the server does not know the request any more"
        return GenerationLost(text, grpc.StatusCode.UNAVAILABLE, self._where())

    def _given_up(self, failure: PageholdError) -> PageholdError:
        if self.transcript.started is None:
            return failure
        text = (
            f"the connection broke after {self._so_far}, and none could be made for "
            f"{self._persistence.limit:g} s; attach to {self.transcript.started.id} to go on ({failure})"
        )
        return Unavailable(text, failure.code, self._where())

    @property
    def _tokens(self) -> int:
        return self.transcript.tokens

    @property
    def _so_far(self) -> str:
        return f"{self._tokens} token{'s' * (self._tokens != 1)}"

    def _where(self) -> Details:
        return Details(metadata={"tokens": str(self._tokens), **self.key})

    def _own_timings(self) -> Timings:
        now = self._persistence.clock()
        first = None if self._first_token is None else self._first_token - self._arrived
        return Timings((self._started or now) - self._arrived, first, now - self._arrived)


def end(key: dict[str, str]) -> Procedure[bool]:
    """End a request in one short attempt; whether a server said that it does."""
    try:
        answer = yield Invoke("Cancel", requests_pb2.CancelRequest(**key), CANCEL_SECONDS)
    except PageholdError:
        return False
    return bool(answer.cancelled)

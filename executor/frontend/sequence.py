"""A request as a door knows it, from its submission to its end."""

import asyncio
import time
from collections.abc import Sequence as List
from dataclasses import dataclass, field
from uuid import UUID

from executor.frontend.errors import GenerationLost
from executor.outputs import output_of, root_of, uuid_of
from pagehold.blockmgr.v1 import sequence_pb2
from pagehold.common.v1 import states_pb2
from pagehold.engine.v1 import request_pb2, submit_pb2


@dataclass(frozen=True, slots=True)
class End:
    """How a sequence ended. ``tokens`` that count, prompt included; ``tail`` are those from ``tail_start`` on.

    Fewer ``tokens`` than were delivered mean that nothing more is to be delivered.
    """

    reason: states_pb2.FinishReason
    tokens: int
    tail_start: int
    tail: List[int]
    error_id: str = ""

    @classmethod
    def of(cls, finished: sequence_pb2.FinishedSequence) -> "End":
        """From what the manager keeps of it."""
        return cls(finished.reason, finished.final_length, 0, finished.ids)


@dataclass(eq=False, slots=True)
class Sequence:
    """What is known of one request. The engine's link and the recovery write it, deliveries read it; all on the loop.

    ``start`` is the message that starts it at an engine, a serialised ``engine.v1.Start``, kept as long as it may have
    to be started again; None: others started it, it is followed.
    """

    uuid: bytes
    pool: str
    request: request_pb2.Request
    prompt_tokens: int
    start: bytes | None = None
    handle: int = 0
    """0: not accepted yet, as far as is known here."""
    cached_tokens: int | None = None
    """Of the prompt, from the prefix cache. None: no engine has said it here."""
    tokens: int = 0
    """Recorded, prompt included, as far as was told."""
    computed: int = 0
    """Tokens of the prompt computed, as far as was told."""
    accepted: bool = False
    refused: submit_pb2.Refused | None = None
    end: End | None = None
    failure: Exception | None = None
    """Why nothing more of it will be heard here."""
    given_up: bool = False
    """Its engine stayed away too long. It may live on all the same."""
    unsure_since: float | None = None
    """When its engine was lost or did not know it, on the monotonic clock. None: all is well."""
    disowned: bool = False
    """Its engine says that it was accepted elsewhere or has ended: the manager has to be asked."""
    first: "Sequence | None" = None
    """The first output of its request, from which it is forked. None: it is the first."""
    deliveries: int = 0
    """How many deliver it."""
    listeners: set[asyncio.Event] = field(default_factory=set)

    @classmethod
    def other_output(cls, first: "Sequence", output: int) -> "Sequence":
        """Another output of a request, which is there once it is forked from the first one."""
        request = output_of(first.request, first.uuid, output)
        return cls(uuid_of(first.uuid, output), first.pool, request, first.prompt_tokens, first=first)

    @property
    def id(self) -> str:
        """The server's id of the request, as callers and logs know it."""
        return str(UUID(bytes=root_of(self.request, self.uuid)))

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be heard of it."""
        return self.end is not None or self.failure is not None or self.refused is not None

    @property
    def output_tokens(self) -> int:
        """Tokens of output recorded, as far as was told."""
        return max(self.tokens - self.prompt_tokens, 0)

    def go_with_first(self) -> bool:
        """Nobody knows it to be there: if the first output has ended, it will never be forked. Returns whether it has."""
        first = self.first
        if first is None or self.accepted or not first.is_over:
            return False
        if first.failure is not None:
            self.fail(first.failure)
        elif first.end is None:
            self.refused = first.refused
            self.wake()
        elif first.end.tokens > first.prompt_tokens:
            # It was forked before the first output got a token; what became of it nobody knows any more.
            self.fail(GenerationLost(0))
        else:
            self.finish(End(first.end.reason, self.prompt_tokens, self.prompt_tokens, (), first.end.error_id))
        return True

    def wake(self) -> None:
        """Tell whoever delivers it that something is new."""
        for listener in self.listeners:
            listener.set()

    def accept(self, accepted: submit_pb2.Accepted) -> None:
        """It is in the ledger, under this handle."""
        if self.cached_tokens is None:
            self.cached_tokens = accepted.cached_tokens
        self.handle = accepted.handle
        self.tokens = max(self.tokens, accepted.tokens)
        self.accepted, self.unsure_since, self.disowned = True, None, False
        self.wake()

    def record(self, tokens: int) -> None:
        """So many tokens are recorded."""
        self.tokens = max(self.tokens, tokens)
        self.wake()

    def compute(self, tokens: int) -> None:
        """So many tokens of the prompt are computed."""
        self.computed = max(self.computed, tokens)
        self.wake()

    def finish(self, end: End) -> None:
        """It has ended."""
        self.end, self.unsure_since = end, None
        self.wake()

    def refuse(self, refused: submit_pb2.Refused) -> None:
        """It was not accepted; or it was, and where it is now the manager knows."""
        if refused.refusal == states_pb2.REFUSAL_DUPLICATE or self.accepted:
            self.disowned = True
            self.doubt()
        else:
            self.refused = refused
            self.wake()

    def fail(self, failure: Exception) -> None:
        """Nothing more will be heard of it here."""
        self.failure = failure
        self.wake()

    def give_up(self, failure: Exception) -> None:
        """Its engine stayed away too long: nothing more is waited for."""
        self.given_up = True
        self.fail(failure)

    def trust(self) -> None:
        """Its engine is there again and is told of it. Until it is accepted there is nothing to be unsure of."""
        if not self.accepted and not self.disowned:
            self.unsure_since = None

    def doubt(self) -> None:
        """Its engine is gone or does not know it. What was recorded and not announced can be read from now on."""
        if self.unsure_since is None:
            self.unsure_since = time.monotonic()
        self.wake()

"""What a scripted engine says of a prompt, and what it knows of the sequence that comes of it."""

import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from blockmgr.core.messages import Admission, Admitted
from blockmgr.core.states import FinishReason, SequenceFlags
from blockmgr.service.codec.enums import FINISH_REASONS, REFUSALS
from pagehold.engine.v1 import request_pb2, submit_pb2


@dataclass
class Answer:
    """What is said of a prompt: output ids, and how it ends. ``reason`` None: it never does by itself."""

    ids: Sequence[int]
    reason: FinishReason | None = FinishReason.LENGTH
    computing: Sequence[int] = ()
    """How far the prompt is told to be computed before the first token."""


@dataclass
class Work:
    """A sequence in the engine."""

    uuid: bytes
    prompt: int
    request: request_pb2.Request
    answer: Answer
    handle: int = 0
    cached: int = 0
    recorded: int = 0
    told: int = 0
    """Tokens, prompt included, that streams know of."""
    arrived: float = field(default_factory=time.time)

    @property
    def most(self) -> int:
        """Tokens of output at most."""
        return min(len(self.answer.ids), self.request.parameters.max_tokens)

    def accepted(self) -> submit_pb2.Accepted:
        """How doors hear that it is in the ledger."""
        return submit_pb2.Accepted(
            uuid=self.uuid,
            handle=self.handle,
            prompt_tokens=self.prompt,
            cached_tokens=self.cached,
            tokens=self.prompt + self.recorded,
        )

    def ended(self, reason: FinishReason) -> submit_pb2.Ended:
        """How they hear of its end, with the tokens that they have not been told of."""
        return submit_pb2.Ended(
            uuid=self.uuid,
            reason=FINISH_REASONS.to_wire[reason],
            tokens=self.prompt + self.recorded,
            tail_start=self.told,
            tail=self.answer.ids[self.told - self.prompt : self.recorded],
            error_id="e-1" if reason == FinishReason.INTERNAL else "",
        )


class Stream:
    """What one door hears."""

    def __init__(self) -> None:
        self.responses: queue.SimpleQueue[submit_pb2.SubmitResponse | None] = queue.SimpleQueue()
        self.follows: set[bytes] = set()


def refused(admitted: Admitted) -> submit_pb2.Refused:
    """The manager's refusal, as doors hear it."""
    return submit_pb2.Refused(
        uuid=admitted.uuid,
        refusal=REFUSALS.to_wire[admitted.refusal],
        needed=admitted.needed,
        available=admitted.available,
        detail=admitted.detail,
    )


def admission(start: submit_pb2.Start) -> Admission:
    """What the manager is asked for."""
    request = start.request
    flags = SequenceFlags.BYPASS if request.bypass_cache else SequenceFlags.NONE
    most = len(start.prompt) + request.parameters.max_tokens
    return Admission(
        uuid=start.uuid,
        prompt=np.array(start.prompt, dtype=np.int32),
        max_length=most,
        salt=request.cache_salt.encode(),
        flags=flags,
        priority=request.priority,
        caller=start.caller or bytes(16),
        body=start.body or bytes(16),
        request=request.SerializeToString(),
    )

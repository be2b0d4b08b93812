"""A request as the engine works on it: what a front door sent, or what an earlier life left in the ledger."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from blockmgr.core.messages import Admission
from blockmgr.core.states import Refusal, SequenceFlags
from executor.found_outputs import MOST_CANDIDATES, MOST_PENALTY, MOST_WIDTH, is_search, kept_request
from executor.outputs import MOST_OUTPUTS, count_of, output_of, root_of, uuid_of
from pagehold.engine.v1 import request_pb2, submit_pb2

ID_BYTES = 16
NOBODY = bytes(ID_BYTES)


class RequestRefused(Exception):
    """A request that can never be right here; ``refusal`` says in which way, the text names field, value and limit."""

    def __init__(self, refusal: Refusal, detail: str, needed: int = 0, available: int = 0) -> None:
        super().__init__(detail)
        self.refusal = refusal
        self.needed = needed
        self.available = available


@dataclass(frozen=True, slots=True)
class Limits:
    """What an engine can take on."""

    max_length: int
    """Tokens of prompt and output together."""
    vocabulary: int
    """Ids below this can be computed."""
    usable_blocks: int
    """Blocks of the pool without the null block."""
    tokens_per_block: int
    request_bytes: int = 1 << 16
    """Bytes of a request that are kept with a sequence."""
    slots: int = 1 << 16
    """Rows for sequences in the pool's ledger."""

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold so many tokens."""
        return -(-tokens // self.tokens_per_block)


@dataclass(frozen=True)
class Request:
    """One request. ``prompt`` holds its ids, int32; ``kept`` everything else, as it is kept in the ledger."""

    uuid: bytes
    prompt: NDArray[np.int32]
    kept: request_pb2.Request
    caller: bytes = NOBODY
    body: bytes = NOBODY

    @classmethod
    def of(cls, start: submit_pb2.Start) -> "Request":
        """What a front door sent."""
        prompt = np.array(start.prompt, dtype=np.int32)
        return cls(start.uuid, prompt, start.request, start.caller or NOBODY, start.body or NOBODY)

    @classmethod
    def from_ledger(cls, uuid: bytes, prompt: NDArray[np.int32], kept: bytes) -> "Request":
        """What an earlier life left. Raises ``google.protobuf.message.DecodeError`` for what is no request."""
        return cls(uuid, prompt, request_pb2.Request.FromString(kept))

    @property
    def parameters(self) -> request_pb2.Parameters:
        """How its output is computed."""
        return self.kept.parameters

    @cached_property
    def outputs(self) -> int:
        """How many outputs it has."""
        return count_of(self.kept)

    @cached_property
    def slots(self) -> int:
        """Rows of the ledger that it may come to need: those of a search, for its beams, as many outputs that have ended,
        and as many that are found.
        """
        return self.outputs * (3 if is_search(self.kept) else 1)

    @property
    def output(self) -> int:
        """Which of them this is."""
        return self.kept.output

    @cached_property
    def root(self) -> bytes:
        """UUID of the first of them."""
        return root_of(self.kept, self.uuid)

    def sibling(self, output: int) -> "Request":
        """Another of its outputs, not the first. Only of the first."""
        return Request(uuid_of(self.uuid, output), self.prompt, output_of(self.kept, self.uuid, output))

    @cached_property
    def longest(self) -> int:
        """Tokens of prompt and output at most."""
        return len(self.prompt) + self.parameters.max_tokens

    @cached_property
    def end_ids(self) -> frozenset[int]:
        """Ids at which the output ends."""
        return frozenset(self.parameters.end_ids)

    @cached_property
    def unmasked_from(self) -> int:
        """Position from which on ``end_ids`` may be chosen."""
        return len(self.prompt) + self.parameters.min_tokens

    @cached_property
    def seed(self) -> int:
        """The seed as a signed number, as torch has them."""
        seed = self.parameters.seed
        return seed - (1 << 64) if seed >> 63 else seed

    @cached_property
    def rank(self) -> tuple[int, float, bytes]:
        """What requests are ordered by where there is not room for all: smaller ones come first, in every engine alike.

        All outputs of a request have the same.
        """
        return -self.kept.priority, self.kept.arrived, self.root

    @property
    def deadline(self) -> float | None:
        """When it ends with what it has, in seconds since 1970; None: never."""
        return self.parameters.deadline if self.parameters.HasField("deadline") else None

    def blocks(self, limits: Limits) -> int:
        """Blocks that it may come to need, with all its outputs: the last token is never fed."""
        return self.blocks_of_all(limits.blocks_for(self.longest - 1), limits)

    def blocks_of_all(self, each: int, limits: Limits) -> int:
        """Blocks that all outputs need where one alone needs ``each``."""
        return each + (self.outputs - 1) * (each - self.shared_blocks(limits))

    def shared_blocks(self, limits: Limits) -> int:
        """Blocks that its outputs share: those that are full with all of the prompt but its last token."""
        return (len(self.prompt) - 1) // limits.tokens_per_block if self.outputs > 1 else 0

    def check(self, limits: Limits, max_running: int = MOST_OUTPUTS) -> None:
        """Raise ``RequestRefused`` for what an engine that computes so many sequences at once can never compute."""
        for name, value in (("uuid", self.uuid), ("caller", self.caller), ("body", self.body)):
            if len(value) != ID_BYTES or (name == "uuid" and not any(value)):
                zero = ", not all zero" if name == "uuid" else ""
                raise _invalid(f"{name} is {value.hex() or 'empty'}; it must have {ID_BYTES} bytes{zero}")
        if not len(self.prompt):
            raise _invalid("prompt is empty; it must have at least one token")
        low, high = int(self.prompt.min()), int(self.prompt.max())
        if low < 0 or high >= limits.vocabulary:
            raise _invalid(f"prompt holds the id {low if low < 0 else high}; ids are 0 to {limits.vocabulary - 1}")
        self._check_parameters(limits)
        self._check_outputs(limits, min(max_running, MOST_OUTPUTS))
        if is_search(self.kept):
            self._check_search(limits)
        if self.longest > limits.max_length:
            detail = (
                f"prompt and max_tokens together are {self.longest} tokens; at most {limits.max_length} are possible"
            )
            raise RequestRefused(Refusal.TOO_LONG, detail, self.longest, limits.max_length)
        needed = self.blocks(limits)
        if needed > limits.usable_blocks:
            detail = f"{needed} blocks are needed at the longest; the pool has {limits.usable_blocks}"
            raise RequestRefused(Refusal.NEVER_FITS, detail, needed, limits.usable_blocks)

    def _check_parameters(self, limits: Limits) -> None:
        parameters = self.parameters
        if parameters.max_tokens < 1:
            raise _invalid("parameters.max_tokens is 0; it must be at least 1")
        if parameters.min_tokens > parameters.max_tokens:
            raise _invalid(
                f"parameters.min_tokens is {parameters.min_tokens}; it must be at most max_tokens, "
                f"{parameters.max_tokens}"
            )
        wrong = next((one for one in parameters.end_ids if one >= limits.vocabulary), None)
        if wrong is not None:
            raise _invalid(f"parameters.end_ids holds {wrong}; ids are 0 to {limits.vocabulary - 1}")

    def _check_outputs(self, limits: Limits, most: int) -> None:
        if self.output or self.kept.root:
            raise _invalid(
                f"output is {self.output}, and root {self.kept.root.hex() or 'empty'}; only the first is asked for"
            )
        if self.outputs > most:
            raise _invalid(f"outputs is {self.outputs}; at most {most} are computed at once")
        if self.slots > limits.slots:
            raise _invalid(f"outputs is {self.outputs}, which takes {self.slots} slots; the pool has {limits.slots}")
        if self.outputs > 1 and (size := self.sibling(1).kept.ByteSize()) > limits.request_bytes:
            raise _invalid(f"request has {size} bytes for each of its outputs; at most {limits.request_bytes} are kept")

    def _check_search(self, limits: Limits) -> None:
        beams, candidates = self.kept.beams, self.outputs + len(self.end_ids)
        if beams.role:
            raise _invalid(f"beams.role is {beams.role}; only the first beam is asked for")
        if self.outputs > MOST_WIDTH:
            raise _invalid(f"outputs is {self.outputs}; a beam search has at most {MOST_WIDTH} beams")
        if not abs(beams.length_penalty) <= MOST_PENALTY:
            low, high = -MOST_PENALTY, MOST_PENALTY
            raise _invalid(f"beams.length_penalty is {beams.length_penalty}; it must lie in {low}..{high}")
        size = kept_request(self.kept, self.uuid, request_pb2.BEAM_ROLE_FOUND, self.outputs).ByteSize()
        if size > limits.request_bytes:
            raise _invalid(f"request has {size} bytes for each output found; at most {limits.request_bytes} are kept")
        most = min(MOST_CANDIDATES, limits.vocabulary)
        if candidates > most:
            raise _invalid(
                f"outputs and parameters.end_ids are {candidates} together; a beam search takes at most {most}"
            )

    def admission(self, reserve: int, salt: bytes) -> Admission:
        """What asks the manager for a slot, and for blocks for the first ``reserve`` tokens."""
        flags = SequenceFlags.NONE
        if self.kept.bypass_cache:
            flags |= SequenceFlags.BYPASS
        if self.kept.no_store:
            flags |= SequenceFlags.NO_STORE
        return Admission(
            uuid=self.uuid,
            prompt=self.prompt,
            reserve=min(reserve, len(self.prompt)),
            max_length=self.longest,
            salt=salt,
            flags=flags,
            priority=self.kept.priority,
            caller=self.caller,
            body=self.body,
            request=self.kept.SerializeToString(),
        )


def _invalid(detail: str) -> RequestRefused:
    return RequestRefused(Refusal.INVALID, detail)

"""What an engine has to tell front doors: values that pass from its thread to the service's."""

from dataclasses import dataclass, field

from blockmgr.core.states import FinishReason, Refusal
from pagehold.engine.v1 import submit_pb2

Stream = int
"""Number of a front door's stream."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request is in the ledger. ``to``: the stream that asked again, or None for all that follow it."""

    uuid: bytes
    handle: int
    prompt_tokens: int
    cached_tokens: int
    tokens: int
    to: Stream | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A request is not accepted: why, by the manager or by the engine, and the numbers that do not fit."""

    uuid: bytes
    refusal: Refusal = Refusal.NONE
    by: "submit_pb2.RefusedBy" = submit_pb2.REFUSED_BY_UNSPECIFIED
    needed: int = 0
    available: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The ledger holds so many tokens of a sequence."""

    uuid: bytes
    handle: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Computing:
    """So many tokens of a prompt are computed."""

    uuid: bytes
    handle: int
    computed: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A sequence has ended, and its row is gone. ``ids`` are all its tokens that count."""

    uuid: bytes
    handle: int
    reason: FinishReason
    ids: list[int] = field(repr=False)
    error_id: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """What is followed is nothing that the engine works on. ``to``: the stream that has just asked, or None for all that
    follow it.
    """

    uuid: bytes
    to: Stream | None = None


News = Accepted | Refused | Recorded | Computing | Ended | Unknown


@dataclass(frozen=True, slots=True)
class Load:
    """How busy an engine is; see ``Load`` of the contract."""

    running: int = 0
    waiting: int = 0
    blocks: int = 0
    free_blocks: int = 0
    draining: bool = False
    round: float = 0.0
    """When the engine's loop went round last, monotonic seconds."""

"""Errors of the inference client: one type for each thing that a caller can do about it, made in one place.

A failed call carries a gRPC status and, from pagehold, `google.rpc` details; ``from_call`` turns both into a type of
this module, ``from_item`` does the same with an item of a batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from pagehold.common.v1 import errors_pb2
from pagehold.inference.v1 import generation_pb2

PUSHBACK = "grpc-retry-pushback-ms"
TOO_LARGE = "larger than max"
"""What gRPC itself says about a message above the limit of bytes."""


@dataclass(frozen=True, slots=True)
class Details:
    """What a status says beyond its code and text. ``retry_after`` is in seconds; None: the server named no time."""

    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    violations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    retry_after: float | None = None


class PageholdError(Exception):
    """A call failed; the text is one line for people.

    ``code`` is gRPC's; ``reason`` the name of a ``common.v1.ErrorReason``, or "" where the failure is not the server's
    own word; ``metadata`` the names and numbers that the text speaks of; ``violations`` what is wrong, by field or
    subject; ``retry_after`` the seconds after which the server wants to be asked again, if it named them.
    """

    def __init__(self, text: str, code: grpc.StatusCode, details: Details | None = None) -> None:
        details = details or Details()
        unsaid = [
            f"{name}: {'; '.join(said)}"
            for name, said in details.violations.items()
            if name not in text and not all(one in text for one in said)
        ]
        super().__init__(f"{text}: {'; '.join(unsaid)}" if unsaid else text)
        self.code = code
        self.reason = details.reason
        self.metadata = dict(details.metadata)
        self.violations = dict(details.violations)
        self.retry_after = details.retry_after


class InvalidRequest(PageholdError):
    """The request is wrong: ``violations`` has every field that is, with its value and limit. Change it."""


class NotFound(PageholdError):
    """The model or the request does not exist, or no longer."""


class AlreadyExists(PageholdError):
    """A request of that ``request_id`` is in flight: attach to it, or take another name."""


class PreconditionFailed(PageholdError):
    """Right in form, impossible in the present state; ``violations`` says what stands in the way."""


class NeverFits(PreconditionFailed):
    """The request needs more blocks than the whole pool has: ``needed`` and ``available``. Ask for less."""

    @property
    def needed(self) -> int:
        """Blocks that the request needs; 0 where the server did not say."""
        return int(self.metadata.get("needed", 0))

    @property
    def available(self) -> int:
        """Blocks that the pool has; 0 where the server did not say."""
        return int(self.metadata.get("available", 0))


class OutOfRange(PageholdError):
    """A token to start from that is not there."""


class Overloaded(PageholdError):
    """The server has as much to do as it admits. The same call may succeed after ``retry_after`` seconds."""


class Unavailable(PageholdError):
    """No server answers, or it is loading, draining or without its engine. The same call may succeed later."""


class GenerationLost(Unavailable):
    """The generation was accepted and cannot be continued. What has arrived of it is right; ask anew for the rest."""

    @property
    def tokens(self) -> int:
        """Tokens of output that were recorded, or, where the server no longer knows, that arrived."""
        return int(self.metadata.get("tokens", 0))


class Cancelled(PageholdError):
    """The call was cancelled, by this caller or by another."""


class DeadlineExceeded(PageholdError):
    """The call's ``timeout`` is over. A generation has been ended, unless it is detached."""


class NotRead(PageholdError):
    """The stream was left unread for so long that the server ended it, and with it the generation, unless it is detached."""


class Conflict(PageholdError):
    """What the call takes for granted has changed meanwhile. Look again, then decide anew."""


class DataLoss(PageholdError):
    """The server found its own data damaged. Somebody has to look."""


class ServerFault(PageholdError):
    """A fault of the server; its log says more under ``error_id``."""

    @property
    def error_id(self) -> str:
        """What the server logged it under; "" where it did not say."""
        return self.metadata.get("error_id", "")


class BadStream(ServerFault):
    """What the server sent cannot be right: it left tokens out, or replayed others than it had sent before."""


class Unsupported(PageholdError):
    """What answers is no inference server, or one of another version."""


_OF_CODE: dict[grpc.StatusCode, type[PageholdError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: PreconditionFailed,
    grpc.StatusCode.OUT_OF_RANGE: OutOfRange,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.ABORTED: Conflict,
    grpc.StatusCode.DATA_LOSS: DataLoss,
    grpc.StatusCode.INTERNAL: ServerFault,
    grpc.StatusCode.UNKNOWN: ServerFault,
    grpc.StatusCode.UNIMPLEMENTED: Unsupported,
}
_OF_REASON: dict[str, type[PageholdError]] = {
    "ERROR_REASON_NEVER_FITS": NeverFits,
    "ERROR_REASON_GENERATION_LOST": GenerationLost,
    "ERROR_REASON_NOT_READ": NotRead,
}
_OF_NUMBER = {code.value[0]: code for code in grpc.StatusCode}


def from_call(error: Any, address: str) -> PageholdError:
    """What went wrong, from a failed call to the server at ``address``."""
    code, text = error.code(), " ".join((error.details() or "").split())
    details = _details_of(error)
    if not details.reason and code == grpc.StatusCode.UNAVAILABLE:
        text = f"no server answers at {address} ({text.rpartition(': ')[2]})"
    elif not details.reason and code == grpc.StatusCode.UNIMPLEMENTED:
        text = f"what answers at {address} is no inference server, or one of another version ({text})"
    return _make(code, text, details)


def from_item(failure: generation_pb2.ItemFailure) -> PageholdError:
    """What went wrong with one item of a batch."""
    known = errors_pb2.ErrorReason.DESCRIPTOR.values_by_number.get(failure.reason)
    reason = known.name if known is not None and failure.reason else ""
    code = _OF_NUMBER.get(failure.code, grpc.StatusCode.UNKNOWN)
    return _make(code, failure.message, Details(reason=reason, metadata=dict(failure.metadata)))


def _make(code: grpc.StatusCode, text: str, details: Details) -> PageholdError:
    """An error of the type that its reason, or else its code, stands for."""
    kind = _OF_REASON.get(details.reason) or _OF_CODE.get(code, PageholdError)
    if not details.reason and code == grpc.StatusCode.RESOURCE_EXHAUSTED and TOO_LARGE in text:
        kind = InvalidRequest  # it will never be taken, however often it is tried
    return kind(text or code.name, code, details)


def _details_of(error: Any) -> Details:
    pushback = _pushback_of(error)
    try:
        status = rpc_status.from_call(error)
    except (ValueError, DecodeError):  # details of another status than the call's: not the server's
        status = None
    reason, metadata, violations, retry_after = "", {}, dict[str, tuple[str, ...]](), pushback
    for detail in status.details if status is not None else ():
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            reason, metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(retry):
            retry_after = max(pushback or 0.0, retry.retry_delay.ToNanoseconds() / 1e9)
        else:
            violations |= _violations_of(detail)
    return Details(reason, metadata, violations, retry_after)


def _violations_of(detail: Any) -> dict[str, tuple[str, ...]]:
    """Violations by field (of a BadRequest) or subject (of a PreconditionFailure)."""
    bad, failure = error_details_pb2.BadRequest(), error_details_pb2.PreconditionFailure()
    pairs: list[tuple[str, str]] = []
    if detail.Unpack(bad):
        pairs = [(one.field, one.description) for one in bad.field_violations]
    elif detail.Unpack(failure):
        pairs = [(one.subject, one.description) for one in failure.violations]
    found: dict[str, tuple[str, ...]] = {}
    for name, description in pairs:
        found[name] = (*found.get(name, ()), description)
    return found


def _pushback_of(error: Any) -> float | None:
    """Seconds of the trailer that says when to try again; None where there is none, or it forbids trying."""
    for key, value in error.trailing_metadata() or ():
        if key == PUSHBACK and str(value).isdecimal():
            return int(value) / 1000
    return None

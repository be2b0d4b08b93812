"""The one place where errors become gRPC status.

Every failed call ends with a status whose details hold an ``ErrorInfo`` with a reason of ``common.v1.ErrorReason``, and
what else the contract promises for that reason. An error that nobody foresaw is a fault: the caller gets an id, and the
log has the rest under it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar
from uuid import uuid4

import grpc
import structlog
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message as ProtoMessage
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from blockmgr.arena.base import ArenaError
from blockmgr.core.errors import (
    AlreadyExists,
    BlockManagerError,
    IdentityMismatch,
    InvalidMessage,
    LedgerCorrupt,
    MessageOutOfOrder,
    NotFound,
    PoolExhausted,
    Precondition,
    StaleEpoch,
)
from pagehold.common.v1 import errors_pb2 as reasons

DOMAIN = "pagehold"
LONGEST_MESSAGE = 1024
"""Bytes of a status message. With its details it must stay below the 8 KiB that gRPC allows metadata by default."""
LONGEST_VALUE = 256
"""Bytes of one name or value in the details."""

Answer = TypeVar("Answer")
log = structlog.get_logger()


class NotServing(BlockManagerError):
    """The manager is starting or stopping; the same call may succeed later, perhaps with its successor."""


class DescriptorsWanted(NotServing):
    """The manager came up without its memory and waits for executors to give back the descriptors that they hold."""


class TooManyCalls(BlockManagerError):
    """As many calls or streams of a kind are open as are admitted."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{limit} {what} are open, and no more are admitted")
        self.limit = limit


class ChangedMeanwhile(BlockManagerError):
    """What a request takes for granted is not so any more. It changed nothing."""

    def __init__(self, what: str, expected: object, have: object) -> None:
        super().__init__(f"{what} is {have}, but {expected} was expected")
        self.expected = expected
        self.have = have


class OutOfRange(BlockManagerError):
    """A place in a list or in time that is not reached yet, or not kept any more."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of error means to a caller. ``retry_seconds``: when to try the same call again; None: do not."""

    code: grpc.StatusCode
    reason: reasons.ErrorReason
    retry_seconds: float | None = None


# The first whose type fits counts: a subclass stands before its base.
KINDS: tuple[tuple[type[Exception], Kind], ...] = (
    (InvalidMessage, Kind(grpc.StatusCode.INVALID_ARGUMENT, reasons.ERROR_REASON_INVALID_FIELD)),
    (StaleEpoch, Kind(grpc.StatusCode.ABORTED, reasons.ERROR_REASON_STALE_EPOCH)),
    (MessageOutOfOrder, Kind(grpc.StatusCode.ABORTED, reasons.ERROR_REASON_MESSAGE_OUT_OF_ORDER)),
    (ChangedMeanwhile, Kind(grpc.StatusCode.ABORTED, reasons.ERROR_REASON_CHANGED_MEANWHILE)),
    (PoolExhausted, Kind(grpc.StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_POOL_EXHAUSTED, 0.1)),
    (TooManyCalls, Kind(grpc.StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_TOO_MANY_CALLS, 1.0)),
    (ArenaError, Kind(grpc.StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_OUT_OF_MEMORY)),
    (NotFound, Kind(grpc.StatusCode.NOT_FOUND, reasons.ERROR_REASON_NOT_FOUND)),
    (AlreadyExists, Kind(grpc.StatusCode.ALREADY_EXISTS, reasons.ERROR_REASON_ALREADY_EXISTS)),
    (IdentityMismatch, Kind(grpc.StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_IDENTITY_MISMATCH)),
    (Precondition, Kind(grpc.StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_PRECONDITION)),
    (OutOfRange, Kind(grpc.StatusCode.OUT_OF_RANGE, reasons.ERROR_REASON_OUT_OF_RANGE)),
    (DescriptorsWanted, Kind(grpc.StatusCode.UNAVAILABLE, reasons.ERROR_REASON_DESCRIPTORS_WANTED, 0.2)),
    (NotServing, Kind(grpc.StatusCode.UNAVAILABLE, reasons.ERROR_REASON_NOT_SERVING, 0.5)),
    (LedgerCorrupt, Kind(grpc.StatusCode.DATA_LOSS, reasons.ERROR_REASON_LEDGER_CORRUPT)),
)
FAULT = Kind(grpc.StatusCode.INTERNAL, reasons.ERROR_REASON_INTERNAL)


def to_status(error: Exception) -> tuple[grpc.StatusCode, status_pb2.Status]:
    """The code and the rich status of an error. A fault is logged, and the status holds nothing of it but an id."""
    kind = _kind_of(error)
    if kind is FAULT:
        error_id = uuid4().hex
        log.error("fault", error_id=error_id, exc_info=error)
        text, metadata = f"a fault of the manager; its log says more under {error_id}", {"error_id": error_id}
    else:
        text = clip(str(error), LONGEST_MESSAGE)
        metadata = {name: clip(str(value), LONGEST_VALUE) for name, value in vars(error).items()}
    status = status_pb2.Status(code=kind.code.value[0], message=text)
    reason = reasons.ErrorReason.Name(kind.reason)
    _attach(status, error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata))
    _attach_more(status, error, kind, text)
    return kind.code, status


def _attach_more(status: status_pb2.Status, error: Exception, kind: Kind, text: str) -> None:
    """Details that the contract promises for some reasons only."""
    if isinstance(error, InvalidMessage):
        value, limit = clip(str(error.value), LONGEST_VALUE), clip(error.limit, LONGEST_VALUE)
        bad = error_details_pb2.BadRequest()
        bad.field_violations.add(field=clip(error.field, LONGEST_VALUE), description=f"is {value}, but {limit}")
        _attach(status, bad)
    if isinstance(error, Precondition):
        failure = error_details_pb2.PreconditionFailure()
        subject = "identity" if isinstance(error, IdentityMismatch) else "state"
        failure.violations.add(type=reasons.ErrorReason.Name(kind.reason), subject=subject, description=text)
        _attach(status, failure)
    if kind.retry_seconds is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(int(kind.retry_seconds * 1e9))
        _attach(status, retry)


def _attach(status: status_pb2.Status, detail: ProtoMessage) -> None:
    packed = AnyMessage()
    packed.Pack(detail)
    status.details.append(packed)


def clip(text: str, limit: int) -> str:
    """At most ``limit`` bytes of a text in UTF-8; where something is left out, it ends in an ellipsis."""
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode(errors="ignore") + "…"


def _kind_of(error: Exception) -> Kind:
    return next((kind for type_, kind in KINDS if isinstance(error, type_)), FAULT)


async def abort(context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> NoReturn:
    """End the call with the status of an error. An abort that gRPC already knows of goes through as it is."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    code, rich = to_status(error)
    trailers = tuple(rpc_status.to_status(rich).trailing_metadata)
    delay = _kind_of(error).retry_seconds
    if delay is not None:
        trailers += (("grpc-retry-pushback-ms", str(int(delay * 1000))),)
    await context.abort(code, rich.message, trailers)


async def guarded(context: grpc.aio.ServicerContext[Any, Any], call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Await a unary handler's work; what it raises ends the call with its status."""
    try:
        return await call()
    except Exception as error:
        await abort(context, error)


async def guarded_stream(
    context: grpc.aio.ServicerContext[Any, Any], answers: AsyncGenerator[Answer, None]
) -> AsyncGenerator[Answer, None]:
    """Pass on a streaming handler's answers; what it raises ends the stream with its status.

    The handler's generator is closed with the stream, so its ``finally`` runs as soon as the client is gone.
    """
    try:
        async with aclosing(answers):
            async for answer in answers:
                yield answer
    except Exception as error:
        await abort(context, error)

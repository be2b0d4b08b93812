"""The one place where errors of a front door become gRPC status, with the details that the contract promises."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar
from uuid import uuid4

import grpc
import structlog
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message as ProtoMessage
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from blockmgr.core.errors import InvalidMessage
from blockmgr.service.errors import DOMAIN, LONGEST_VALUE, clip
from executor.frontend import errors
from pagehold.common.v1 import errors_pb2 as reasons
from pagehold.inference.v1 import generation_pb2

MOST_VIOLATIONS = 20
LONGEST_MESSAGE, LONGEST_FIELD, LONGEST_DESCRIPTION = 512, 64, 160
"""Bytes of the parts of a status, which together stay below the 8 KiB that gRPC allows metadata by default."""

Answer = TypeVar("Answer")
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of error means to a caller. ``retry_seconds``: when to try the same call again; None: do not."""

    code: grpc.StatusCode
    reason: reasons.ErrorReason
    retry_seconds: float | None = None


KINDS: tuple[tuple[type[Exception], Kind], ...] = (
    (errors.InvalidRequest, Kind(grpc.StatusCode.INVALID_ARGUMENT, reasons.ERROR_REASON_INVALID_FIELD)),
    (errors.NotFound, Kind(grpc.StatusCode.NOT_FOUND, reasons.ERROR_REASON_NOT_FOUND)),
    (errors.AlreadyExists, Kind(grpc.StatusCode.ALREADY_EXISTS, reasons.ERROR_REASON_ALREADY_EXISTS)),
    (errors.Unsuitable, Kind(grpc.StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_PRECONDITION)),
    (errors.NeverFits, Kind(grpc.StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_NEVER_FITS)),
    (errors.PoolExhausted, Kind(grpc.StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_POOL_EXHAUSTED, 1.0)),
    (errors.QueueFull, Kind(grpc.StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_QUEUE_FULL, 0.5)),
    (errors.OutOfRange, Kind(grpc.StatusCode.OUT_OF_RANGE, reasons.ERROR_REASON_OUT_OF_RANGE)),
    (errors.NotServing, Kind(grpc.StatusCode.UNAVAILABLE, reasons.ERROR_REASON_NOT_SERVING, 0.5)),
    (errors.GenerationLost, Kind(grpc.StatusCode.UNAVAILABLE, reasons.ERROR_REASON_GENERATION_LOST, 1.0)),
    (errors.Cancelled, Kind(grpc.StatusCode.CANCELLED, reasons.ERROR_REASON_UNSPECIFIED)),
    (errors.EngineFault, Kind(grpc.StatusCode.INTERNAL, reasons.ERROR_REASON_INTERNAL)),
)
FAULT = Kind(grpc.StatusCode.INTERNAL, reasons.ERROR_REASON_INTERNAL)


def foreseen(error: Exception) -> Exception:
    """The error itself if callers may meet it; else what they are told of a fault, which the log has under an id."""
    if isinstance(error, InvalidMessage):
        return errors.InvalidRequest.of(error.field, f"is {error.value}, but {error.limit}")
    if isinstance(error, errors.FrontDoorError):
        return error
    error_id = uuid4().hex
    log.error("fault", error_id=error_id, exc_info=error)
    return _Fault(error_id)


class _Fault(errors.FrontDoorError):
    """A fault of the door's own."""

    def __init__(self, error_id: str) -> None:
        super().__init__(f"a fault of the front door; its log says more under {error_id}")
        self.error_id = error_id


def kind_of(error: Exception) -> Kind:
    """What an error means to a caller."""
    return next((kind for type_, kind in KINDS if isinstance(error, type_)), FAULT)


def reason_of(error: Exception) -> str:
    """The reason of an error as metrics and logs name it."""
    return reasons.ErrorReason.Name(kind_of(error).reason).removeprefix("ERROR_REASON_").lower()


def to_status(error: Exception) -> status_pb2.Status:
    """The rich status of a foreseen error."""
    kind, text = kind_of(error), clip(str(error), LONGEST_MESSAGE)
    status = status_pb2.Status(code=kind.code.value[0], message=text)
    reason = reasons.ErrorReason.Name(kind.reason)
    _attach(status, error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata_of(error)))
    if isinstance(error, errors.InvalidRequest):
        _attach(status, _bad_request(error))
    if kind.code == grpc.StatusCode.FAILED_PRECONDITION:
        failure = error_details_pb2.PreconditionFailure()
        failure.violations.add(type=reason, subject="request", description=text)
        _attach(status, failure)
    if kind.retry_seconds is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(int(kind.retry_seconds * 1e9))
        _attach(status, retry)
    return status


def metadata_of(error: Exception) -> dict[str, str]:
    """The numbers and names that an error's text speaks of."""
    public = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    return {name: clip(str(value), LONGEST_VALUE) for name, value in public.items()}


def _bad_request(error: errors.InvalidRequest) -> error_details_pb2.BadRequest:
    bad = error_details_pb2.BadRequest()
    for one in error.violations[:MOST_VIOLATIONS]:
        field, description = clip(one.field, LONGEST_FIELD), clip(one.description, LONGEST_DESCRIPTION)
        bad.field_violations.add(field=field, description=description)
    return bad


def _attach(status: status_pb2.Status, detail: ProtoMessage) -> None:
    packed = AnyMessage()
    packed.Pack(detail)
    status.details.append(packed)


def to_item_failure(error: Exception) -> generation_pb2.ItemFailure:
    """What an error means to one item of a batch."""
    error = foreseen(error)
    kind = kind_of(error)
    return generation_pb2.ItemFailure(
        code=kind.code.value[0],
        reason=kind.reason,
        message=clip(str(error), LONGEST_MESSAGE),
        metadata=metadata_of(error),
    )


async def abort(context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> NoReturn:
    """End the call with the status of an error. An abort that gRPC already knows of goes through as it is."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    error = foreseen(error)
    rich = to_status(error)
    trailers = tuple(rpc_status.to_status(rich).trailing_metadata)
    kind = kind_of(error)
    if kind.code == grpc.StatusCode.RESOURCE_EXHAUSTED and kind.retry_seconds is not None:
        trailers += (("grpc-retry-pushback-ms", str(int(kind.retry_seconds * 1000))),)
    await context.abort(kind.code, rich.message, trailers)


async def guarded(context: grpc.aio.ServicerContext[Any, Any], call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Await a handler's work; what it raises ends the call with its status."""
    try:
        return await call()
    except Exception as error:
        await abort(context, error)

"""What each error of a front door means to its callers: the one place where they become gRPC status."""

import grpc

from blockmgr.service.statuses import LONGEST_MESSAGE, Kind, StatusTable, clip, metadata_of
from executor.frontend import errors
from pagehold.common.v1 import errors_pb2 as reasons
from pagehold.inference.v1 import generation_pb2

KINDS: tuple[tuple[type[Exception], Kind], ...] = (
    (errors.InvalidRequest, Kind(grpc.StatusCode.INVALID_ARGUMENT, reasons.ERROR_REASON_INVALID_FIELD)),
    (errors.NotFound, Kind(grpc.StatusCode.NOT_FOUND, reasons.ERROR_REASON_NOT_FOUND)),
    (errors.AlreadyExists, Kind(grpc.StatusCode.ALREADY_EXISTS, reasons.ERROR_REASON_ALREADY_EXISTS)),
    (
        errors.Unsuitable,
        Kind(grpc.StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_PRECONDITION, subject="request"),
    ),
    (errors.NeverFits, Kind(grpc.StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_NEVER_FITS, subject="request")),
    (errors.PoolExhausted, Kind(grpc.StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_POOL_EXHAUSTED, 1.0)),
    (errors.QueueFull, Kind(grpc.StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_QUEUE_FULL, 0.5)),
    (errors.OutOfRange, Kind(grpc.StatusCode.OUT_OF_RANGE, reasons.ERROR_REASON_OUT_OF_RANGE)),
    (errors.NotServing, Kind(grpc.StatusCode.UNAVAILABLE, reasons.ERROR_REASON_NOT_SERVING, 0.5)),
    (errors.GenerationLost, Kind(grpc.StatusCode.UNAVAILABLE, reasons.ERROR_REASON_GENERATION_LOST, 1.0)),
    (errors.NotRead, Kind(grpc.StatusCode.ABORTED, reasons.ERROR_REASON_NOT_READ)),
    (errors.Cancelled, Kind(grpc.StatusCode.CANCELLED, reasons.ERROR_REASON_UNSPECIFIED)),
    (errors.EngineFault, Kind(grpc.StatusCode.INTERNAL, reasons.ERROR_REASON_INTERNAL)),
)

TABLE = StatusTable("the front door", KINDS)
guarded, reason_of = TABLE.guarded, TABLE.reason_of


def to_item_failure(error: Exception) -> generation_pb2.ItemFailure:
    """What an error means to one item of a batch."""
    error = TABLE.foreseen(error)
    kind = TABLE.kind_of(error)
    return generation_pb2.ItemFailure(
        code=kind.code.value[0],
        reason=kind.reason,
        message=clip(str(error), LONGEST_MESSAGE),
        metadata=metadata_of(error),
    )

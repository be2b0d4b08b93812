"""Errors of the manager's service, and what each means to its callers: the one place where they become gRPC status."""

import grpc

from blockmgr.arena.base import ArenaError, ArenaUnavailable, NoSuchGpu
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
from blockmgr.service.statuses import Kind, StatusTable
from pagehold.common.v1 import errors_pb2 as reasons


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


# The first whose type fits counts: a subclass stands before its base.
KINDS: tuple[tuple[type[Exception], Kind], ...] = (
    (InvalidMessage, Kind(grpc.StatusCode.INVALID_ARGUMENT, reasons.ERROR_REASON_INVALID_FIELD)),
    (StaleEpoch, Kind(grpc.StatusCode.ABORTED, reasons.ERROR_REASON_STALE_EPOCH)),
    (MessageOutOfOrder, Kind(grpc.StatusCode.ABORTED, reasons.ERROR_REASON_MESSAGE_OUT_OF_ORDER)),
    (ChangedMeanwhile, Kind(grpc.StatusCode.ABORTED, reasons.ERROR_REASON_CHANGED_MEANWHILE)),
    (PoolExhausted, Kind(grpc.StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_POOL_EXHAUSTED, 0.1)),
    (TooManyCalls, Kind(grpc.StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_TOO_MANY_CALLS, 1.0)),
    (NoSuchGpu, Kind(grpc.StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_PRECONDITION)),
    (ArenaUnavailable, Kind(grpc.StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_PRECONDITION)),
    (ArenaError, Kind(grpc.StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_OUT_OF_MEMORY)),
    (NotFound, Kind(grpc.StatusCode.NOT_FOUND, reasons.ERROR_REASON_NOT_FOUND)),
    (AlreadyExists, Kind(grpc.StatusCode.ALREADY_EXISTS, reasons.ERROR_REASON_ALREADY_EXISTS)),
    (
        IdentityMismatch,
        Kind(grpc.StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_IDENTITY_MISMATCH, subject="identity"),
    ),
    (Precondition, Kind(grpc.StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_PRECONDITION)),
    (OutOfRange, Kind(grpc.StatusCode.OUT_OF_RANGE, reasons.ERROR_REASON_OUT_OF_RANGE)),
    (DescriptorsWanted, Kind(grpc.StatusCode.UNAVAILABLE, reasons.ERROR_REASON_DESCRIPTORS_WANTED, 0.2)),
    (NotServing, Kind(grpc.StatusCode.UNAVAILABLE, reasons.ERROR_REASON_NOT_SERVING, 0.5)),
    (LedgerCorrupt, Kind(grpc.StatusCode.DATA_LOSS, reasons.ERROR_REASON_LEDGER_CORRUPT)),
)

TABLE = StatusTable("the manager", KINDS)
abort, guarded, guarded_stream = TABLE.abort, TABLE.guarded, TABLE.guarded_stream

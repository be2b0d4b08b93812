"""Every error reaches the caller with the code, reason and details that the contract promises."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import grpc
import pytest
import structlog
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from blockmgr.arena.base import ArenaError, ArenaUnavailable
from blockmgr.core.errors import (
    AlreadyExists,
    IdentityMismatch,
    InvalidMessage,
    LedgerCorrupt,
    MessageOutOfOrder,
    NotFound,
    PoolExhausted,
    Precondition,
    StaleEpoch,
)
from blockmgr.service.errors import (
    KINDS,
    TABLE,
    ChangedMeanwhile,
    DescriptorsWanted,
    NotServing,
    OutOfRange,
    TooManyCalls,
    guarded,
    guarded_stream,
)
from pagehold.common.v1 import errors_pb2

Code = grpc.StatusCode

CASES = [
    (InvalidMessage("ids[3]", -1, "ids must not be negative"), Code.INVALID_ARGUMENT, "INVALID_FIELD"),
    (StaleEpoch(3, 4), Code.ABORTED, "STALE_EPOCH"),
    (MessageOutOfOrder(9, 4), Code.ABORTED, "MESSAGE_OUT_OF_ORDER"),
    (ChangedMeanwhile("generation of block 4", 7, 8), Code.ABORTED, "CHANGED_MEANWHILE"),
    (PoolExhausted(9, 4), Code.RESOURCE_EXHAUSTED, "POOL_EXHAUSTED"),
    (TooManyCalls("sessions", 64), Code.RESOURCE_EXHAUSTED, "TOO_MANY_CALLS"),
    (ArenaUnavailable("there is no CUDA driver"), Code.FAILED_PRECONDITION, "PRECONDITION"),
    (ArenaError("pool: no 4096 bytes of memory"), Code.RESOURCE_EXHAUSTED, "OUT_OF_MEMORY"),
    (NotFound("no pool is called x"), Code.NOT_FOUND, "NOT_FOUND"),
    (AlreadyExists("an executor named x is alive"), Code.ALREADY_EXISTS, "ALREADY_EXISTS"),
    (IdentityMismatch("shape", "aa", "bb"), Code.FAILED_PRECONDITION, "IDENTITY_MISMATCH"),
    (Precondition("block 4 is pinned"), Code.FAILED_PRECONDITION, "PRECONDITION"),
    (OutOfRange("revision is 9, but 4 is the last"), Code.OUT_OF_RANGE, "OUT_OF_RANGE"),
    (NotServing("the manager is stopping"), Code.UNAVAILABLE, "NOT_SERVING"),
    (DescriptorsWanted("the pool's memory is not here"), Code.UNAVAILABLE, "DESCRIPTORS_WANTED"),
    (LedgerCorrupt("slot 3 names block 99 of 64"), Code.DATA_LOSS, "LEDGER_CORRUPT"),
    (ZeroDivisionError("a secret"), Code.INTERNAL, "INTERNAL"),
]


def detail(status: status_pb2.Status, kind: Any) -> Any:
    """The status's detail of one kind, or None."""
    for packed in status.details:
        if packed.Is(kind.DESCRIPTOR):
            found = kind()
            packed.Unpack(found)
            return found
    return None


@pytest.mark.parametrize(("error", "code", "reason"), CASES, ids=[reason for _, _, reason in CASES])
def test_an_error_has_its_code_and_reason(error: Exception, code: grpc.StatusCode, reason: str) -> None:
    status = TABLE.to_status(error)
    info = detail(status, error_details_pb2.ErrorInfo)
    assert status.code == code.value[0]
    assert info.reason == f"ERROR_REASON_{reason}"
    assert info.domain == "pagehold"


OF_INFERENCE = (
    errors_pb2.ERROR_REASON_QUEUE_FULL,
    errors_pb2.ERROR_REASON_NEVER_FITS,
    errors_pb2.ERROR_REASON_GENERATION_LOST,
    errors_pb2.ERROR_REASON_NOT_READ,
)
"""Reasons that only those who serve generations give."""


def test_every_reason_of_the_contract_is_used() -> None:
    used = {kind.reason for _, kind in KINDS}
    assert used | {*OF_INFERENCE, 0, errors_pb2.ERROR_REASON_INTERNAL} == set(errors_pb2.ErrorReason.values())


def test_a_wrong_field_is_named_with_value_and_limit() -> None:
    status = TABLE.to_status(InvalidMessage("reserve", 99, "must lie in 0..64"))
    (violation,) = detail(status, error_details_pb2.BadRequest).field_violations
    assert violation.field == "reserve"
    assert violation.description == "is 99, but must lie in 0..64"


def test_both_digests_of_a_mismatch_are_named() -> None:
    status = TABLE.to_status(IdentityMismatch("shape", "aa", "bb"))
    assert detail(status, error_details_pb2.ErrorInfo).metadata == {"have": "aa", "offered": "bb"}
    (violation,) = detail(status, error_details_pb2.PreconditionFailure).violations
    assert "aa" in violation.description


@pytest.mark.parametrize(
    ("error", "retried"),
    [(PoolExhausted(9, 4), True), (NotServing("stopping"), True), (NotFound("no such pool"), False)],
)
def test_only_what_can_succeed_later_is_to_be_retried(error: Exception, retried: bool) -> None:
    status = TABLE.to_status(error)
    retry = detail(status, error_details_pb2.RetryInfo)
    assert (retry is not None) == retried


def test_a_fault_is_logged_under_the_id_that_the_caller_gets() -> None:
    with structlog.testing.capture_logs() as logged:
        status = TABLE.to_status(ZeroDivisionError("a secret"))
    error_id = detail(status, error_details_pb2.ErrorInfo).metadata["error_id"]
    assert [entry["error_id"] for entry in logged] == [error_id]
    assert error_id in status.message
    assert "secret" not in str(status)


@pytest.mark.parametrize(
    "error", [InvalidMessage("x" * 9000, "é" * 9000, "z" * 9000), IdentityMismatch("€" * 9000, "€" * 9000, "é" * 9000)]
)
def test_a_long_error_fits_into_metadata(error: Exception) -> None:
    status = TABLE.to_status(error)
    # Non-ASCII bytes travel as three characters in the message, and the details in base64.
    assert 3 * len(status.message.encode()) + len(status.SerializeToString()) * 4 / 3 < 8000
    assert status.message.endswith("…")


async def call(work: Callable[[Any], Awaitable[bytes]], stream: bool = False) -> list[bytes]:
    """What a client gets from a server whose one method does ``work`` under guard."""

    async def unary(_: bytes, context: Any) -> bytes:
        return await guarded(context, lambda: work(context))

    async def answers(context: Any) -> AsyncGenerator[bytes, None]:
        yield b"first"
        yield await work(context)

    async def streaming(_: bytes, context: Any) -> AsyncGenerator[bytes, None]:
        async for answer in guarded_stream(context, answers(context)):
            yield answer

    methods = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Stream": grpc.unary_stream_rpc_method_handler(streaming),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            if stream:
                return [answer async for answer in channel.unary_stream("/test.Test/Stream", None, None)(b"")]
            return [await channel.unary_unary("/test.Test/Unary", None, None)(b"")]
    finally:
        await server.stop(None)


def failing(error: Exception) -> Callable[[Any], Awaitable[bytes]]:
    async def work(_: Any) -> bytes:
        raise error

    return work


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("error", "code", "reason"), CASES, ids=[reason for _, _, reason in CASES])
def test_a_client_sees_status_and_details(error: Exception, code: grpc.StatusCode, reason: str, stream: bool) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        asyncio.run(call(failing(error), stream))
    status = rpc_status.from_call(caught.value)  # type: ignore[arg-type]
    assert caught.value.code() == code
    assert status is not None
    assert detail(status, error_details_pb2.ErrorInfo).reason == f"ERROR_REASON_{reason}"


def test_a_client_of_a_full_pool_is_told_when_to_try_again() -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        asyncio.run(call(failing(PoolExhausted(9, 4))))
    trailers: Any = caught.value.trailing_metadata()
    assert dict(trailers)["grpc-retry-pushback-ms"] == "100"


def test_a_client_sees_the_whole_of_a_long_error_and_not_resource_exhausted() -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        asyncio.run(call(failing(InvalidMessage("x" * 9000, "é" * 9000, "€" * 9000))))
    assert caught.value.code() == Code.INVALID_ARGUMENT


def test_an_abort_by_the_handler_itself_goes_through() -> None:
    async def work(context: Any) -> bytes:
        await context.abort(Code.UNAUTHENTICATED, "who are you")
        return b""

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        asyncio.run(call(work))
    assert caught.value.code() == Code.UNAUTHENTICATED


def test_answers_pass_unchanged() -> None:
    async def work(_: Any) -> bytes:
        return b"second"

    assert asyncio.run(call(work)) == [b"second"]
    assert asyncio.run(call(work, stream=True)) == [b"first", b"second"]

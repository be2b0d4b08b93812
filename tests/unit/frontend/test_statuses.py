"""Errors as gRPC status: code, reason, and the details that go with it."""

from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from executor.frontend import errors
from executor.frontend.statuses import KINDS, TABLE, to_item_failure
from pagehold.common.v1 import errors_pb2

METADATA_LIMIT = 8192


def details(status: status_pb2.Status) -> dict[str, Any]:
    kinds = ("ErrorInfo", "BadRequest", "PreconditionFailure", "RetryInfo")
    found = {}
    for detail in status.details:
        for kind in kinds:
            message = getattr(error_details_pb2, kind)()
            if detail.Is(message.DESCRIPTOR):
                detail.Unpack(message)
                found[kind] = message
    return found


CASES: Sequence[tuple[Exception, grpc.StatusCode, str, set[str], dict[str, str]]] = [
    (errors.InvalidRequest.of("a.b", "is 1, but must be 2"), grpc.StatusCode.INVALID_ARGUMENT,
     "INVALID_FIELD", {"BadRequest"}, {}),
    (errors.NotFound("no"), grpc.StatusCode.NOT_FOUND, "NOT_FOUND", set(), {}),
    (errors.AlreadyExists("no"), grpc.StatusCode.ALREADY_EXISTS, "ALREADY_EXISTS", set(), {}),
    (errors.Unsuitable("no"), grpc.StatusCode.FAILED_PRECONDITION, "PRECONDITION", {"PreconditionFailure"}, {}),
    (errors.NeverFits(9, 4), grpc.StatusCode.FAILED_PRECONDITION, "NEVER_FITS", {"PreconditionFailure"},
     {"needed": "9", "available": "4"}),
    (errors.PoolExhausted(9, 4), grpc.StatusCode.RESOURCE_EXHAUSTED, "POOL_EXHAUSTED", {"RetryInfo"},
     {"needed": "9", "available": "4"}),
    (errors.QueueFull(8, "here"), grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL", {"RetryInfo"}, {"limit": "8"}),
    (errors.OutOfRange(7, 3), grpc.StatusCode.OUT_OF_RANGE, "OUT_OF_RANGE", set(),
     {"from_token": "7", "tokens": "3"}),
    (errors.NotServing("no"), grpc.StatusCode.UNAVAILABLE, "NOT_SERVING", {"RetryInfo"}, {}),
    (errors.GenerationLost(5), grpc.StatusCode.UNAVAILABLE, "GENERATION_LOST", {"RetryInfo"}, {"tokens": "5"}),
    (errors.NotRead(2.5), grpc.StatusCode.ABORTED, "NOT_READ", set(), {"seconds": "2.5"}),
    (errors.Cancelled("no"), grpc.StatusCode.CANCELLED, "UNSPECIFIED", set(), {}),
    (errors.EngineFault("abc"), grpc.StatusCode.INTERNAL, "INTERNAL", set(), {"error_id": "abc"}),
]  # fmt: skip


@pytest.mark.parametrize(("error", "code", "reason", "more", "metadata"), CASES, ids=lambda value: type(value).__name__)
def test_each_error_has_its_code_reason_and_details(
    error: Exception, code: grpc.StatusCode, reason: str, more: set[str], metadata: dict[str, str]
) -> None:
    status = TABLE.to_status(error)
    found = details(status)
    assert status.code == code.value[0]
    assert set(found) == {"ErrorInfo"} | more
    assert (found["ErrorInfo"].reason, found["ErrorInfo"].domain) == (f"ERROR_REASON_{reason}", "pagehold")
    assert dict(found["ErrorInfo"].metadata) == metadata


def test_every_kind_of_error_is_tested_here() -> None:
    assert {type(case[0]) for case in CASES} == {kind for kind, _ in KINDS}


def test_a_fault_says_no_more_than_an_id() -> None:
    status = TABLE.to_status(ZeroDivisionError("secret"))
    assert status.code == grpc.StatusCode.INTERNAL.value[0]
    info = details(status)["ErrorInfo"]
    assert "secret" not in str(status)
    assert info.metadata["error_id"] in status.message


def test_the_longest_status_fits_into_metadata() -> None:
    violations = [errors.Violation(f"field[{number}]" * 20, "is wróng " * 200) for number in range(500)]
    status = TABLE.to_status(errors.InvalidRequest(violations))
    # As gRPC sends it: a byte of the message that is not ASCII as three, and the details in base64.
    assert 3 * len(status.message.encode()) + len(status.SerializeToString()) * 4 / 3 < METADATA_LIMIT
    assert len(details(status)["BadRequest"].field_violations) == 20


def test_an_item_of_a_batch_fails_as_its_own_call_would() -> None:
    failure = to_item_failure(errors.NeverFits(9, 4))
    assert (failure.code, failure.reason) == (9, errors_pb2.ERROR_REASON_NEVER_FITS)
    assert dict(failure.metadata) == {"needed": "9", "available": "4"}

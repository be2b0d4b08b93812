"""Every failure of the error table becomes a type of its own, with its details."""

from collections import deque
from collections.abc import Callable

import grpc
import pytest
from google.rpc import error_details_pb2

from pagehold import client as pagehold
from pagehold.client import errors
from pagehold.inference.v1 import generation_pb2
from tests.unit.client.callers import Caller
from tests.unit.client.scripted_service import ScriptedService
from tests.unit.client.steps import Refusal

Code = grpc.StatusCode
TABLE = [
    (Code.INVALID_ARGUMENT, "INVALID_FIELD", pagehold.InvalidRequest),
    (Code.NOT_FOUND, "NOT_FOUND", pagehold.NotFound),
    (Code.ALREADY_EXISTS, "ALREADY_EXISTS", pagehold.AlreadyExists),
    (Code.FAILED_PRECONDITION, "PRECONDITION", pagehold.PreconditionFailed),
    (Code.FAILED_PRECONDITION, "NEVER_FITS", pagehold.NeverFits),
    (Code.OUT_OF_RANGE, "OUT_OF_RANGE", pagehold.OutOfRange),
    (Code.RESOURCE_EXHAUSTED, "QUEUE_FULL", pagehold.Overloaded),
    (Code.RESOURCE_EXHAUSTED, "POOL_EXHAUSTED", pagehold.Overloaded),
    (Code.UNAVAILABLE, "GENERATION_LOST", pagehold.GenerationLost),
    (Code.CANCELLED, "UNSPECIFIED", pagehold.Cancelled),
    (Code.ABORTED, "NOT_READ", pagehold.NotRead),
    (Code.ABORTED, "STALE_EPOCH", pagehold.Conflict),
    (Code.DATA_LOSS, "LEDGER_CORRUPT", pagehold.DataLoss),
    (Code.INTERNAL, "INTERNAL", pagehold.ServerFault),
    (Code.UNIMPLEMENTED, "", pagehold.Unsupported),
    (Code.PERMISSION_DENIED, "", pagehold.PageholdError),
]


def refusal_of(code: grpc.StatusCode, reason: str, **more: object) -> Refusal:
    return Refusal(code, reason and f"ERROR_REASON_{reason}", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("code", "reason", "kind"), TABLE)
def test_a_status_becomes_a_type(
    caller: Caller, service: ScriptedService, code: grpc.StatusCode, reason: str, kind: type[pagehold.PageholdError]
) -> None:
    refusal = refusal_of(code, reason, text="why\nit is so", metadata={"limit": "8"} if reason else {})
    provocations: tuple[Callable[[], object], ...] = (lambda: caller.generate("x"), lambda: caller.load())
    for provoke in provocations:
        service.script, service.unary["GetLoad"] = deque([refusal]), deque([refusal])
        with pytest.raises(kind, match="why it is so") as raised:
            provoke()
        assert type(raised.value) is kind
        assert (raised.value.code, raised.value.reason) == (code, refusal.reason)
        assert raised.value.metadata == ({"limit": "8"} if reason else {})


def test_all_wrong_fields_are_named_at_once(caller: Caller, service: ScriptedService) -> None:
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="sampling.top_p", description="is 2, but above 0 to 1")
    bad.field_violations.add(field="stopping.stop", description="has 17, but at most 16")
    bad.field_violations.add(field="stopping.stop", description="one is empty")
    service.script += [refusal_of(Code.INVALID_ARGUMENT, "INVALID_FIELD", text="2 fields are wrong", details=(bad,))]
    with pytest.raises(pagehold.InvalidRequest) as raised:
        caller.generate("x")
    assert raised.value.violations == {
        "sampling.top_p": ("is 2, but above 0 to 1",),
        "stopping.stop": ("has 17, but at most 16", "one is empty"),
    }
    assert str(raised.value) == (
        "2 fields are wrong: sampling.top_p: is 2, but above 0 to 1; "
        "stopping.stop: has 17, but at most 16; one is empty"
    )


def test_what_the_text_says_already_is_not_said_again(caller: Caller, service: ScriptedService) -> None:
    text, failure = "the model has no chat template", error_details_pb2.PreconditionFailure()
    failure.violations.add(type="PRECONDITION", subject="request", description=text)
    service.script += [refusal_of(Code.FAILED_PRECONDITION, "PRECONDITION", text=text, details=(failure,))]
    with pytest.raises(pagehold.PreconditionFailed) as raised:
        caller.generate("x")
    assert str(raised.value) == text
    assert raised.value.violations == {"request": (text,)}


def test_what_never_fits_has_both_numbers(caller: Caller, service: ScriptedService) -> None:
    failure = error_details_pb2.PreconditionFailure()
    failure.violations.add(type="ERROR_REASON_NEVER_FITS", subject="pool", description="5 blocks, 4 there are")
    numbers = {"needed": "5", "available": "4"}
    service.script += [refusal_of(Code.FAILED_PRECONDITION, "NEVER_FITS", metadata=numbers, details=(failure,))]
    with pytest.raises(pagehold.NeverFits) as raised:
        caller.generate("x")
    assert (raised.value.needed, raised.value.available) == (5, 4)
    assert raised.value.violations == {"pool": ("5 blocks, 4 there are",)}


@pytest.mark.parametrize(("trailer", "seconds"), [("", 0.25), ("2000", 2.0), ("-1", 0.25)])
def test_the_longer_of_both_pauses_counts(
    caller: Caller, service: ScriptedService, trailer: str, seconds: float
) -> None:
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(250)
    trailers = (("grpc-retry-pushback-ms", trailer),) if trailer else ()
    service.script += [refusal_of(Code.RESOURCE_EXHAUSTED, "QUEUE_FULL", details=(retry,), trailers=trailers)]
    with pytest.raises(pagehold.Overloaded) as raised:
        caller.generate("x")
    assert raised.value.retry_after == seconds


def test_a_message_that_is_too_large_is_the_callers_fault(caller: Caller) -> None:
    with pytest.raises(pagehold.InvalidRequest, match="larger than max"):
        caller.generate("x" * (16 << 20))


def test_an_item_of_a_batch_fails_with_the_same_types() -> None:
    item = generation_pb2.ItemFailure(code=9, reason=18, message="too large", metadata={"needed": "5"})  # type: ignore[arg-type]
    error = errors.from_item(item)
    assert isinstance(error, pagehold.NeverFits)
    assert (str(error), error.needed, error.reason) == ("too large", 5, "ERROR_REASON_NEVER_FITS")


def test_an_item_with_numbers_nobody_knows_is_an_error_still() -> None:
    error = errors.from_item(generation_pb2.ItemFailure(code=99, reason=9999))  # type: ignore[arg-type]
    assert (error.code, error.reason) == (Code.UNKNOWN, "")


def test_all_errors_have_one_base() -> None:
    assert len({kind for _, _, kind in TABLE}) == 15
    assert all(issubclass(kind, pagehold.PageholdError) for _, _, kind in TABLE)

"""Errors as gRPC status with rich details: what the servers of all parts have in common. Each has a table of its own.

Every failed call ends with a status whose details hold an ``ErrorInfo`` with a reason of ``common.v1.ErrorReason``, and
what else the contract promises for that reason. An error that nobody foresaw is a fault: the caller gets an id, and the
log has the rest under it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
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

from blockmgr.core.errors import InvalidMessage
from pagehold.common.v1 import errors_pb2 as reasons

DOMAIN = "pagehold"
PUSHBACK = "grpc-retry-pushback-ms"
"""Trailer that says in milliseconds what RetryInfo says; gRPC's own retries heed it."""

LONGEST_MESSAGE, LONGEST_VALUE, LONGEST_FIELD, LONGEST_DESCRIPTION = 768, 256, 64, 512
MOST_VIOLATIONS, VIOLATIONS_BYTES = 20, 3000
"""The parts of a status in bytes. All of it must stay below the 8 KiB that gRPC allows metadata by default, where a
message that is not ASCII takes three times its size, and details take a third more than theirs.
"""

Answer = TypeVar("Answer")
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of error means to a caller. ``retry_seconds``: when to try the same call again; None: do not.

    ``subject``: what a FAILED_PRECONDITION is about.
    """

    code: grpc.StatusCode
    reason: reasons.ErrorReason
    retry_seconds: float | None = None
    subject: str = "state"


FAULT = Kind(grpc.StatusCode.INTERNAL, reasons.ERROR_REASON_INTERNAL)
Kinds = Sequence[tuple[type[Exception], Kind]]
Context = grpc.aio.ServicerContext[Any, Any]


class Fault(Exception):
    """What callers are told of an error that nobody foresaw."""

    def __init__(self, server: str, error_id: str) -> None:
        super().__init__(f"a fault of {server}; its log says more under {error_id}")
        self.error_id = error_id


class StatusTable:
    """The errors that callers of one server can meet.

    What an error's text speaks of are its attributes, those with a leading underscore left out; an error of wrong fields
    that is no ``InvalidMessage`` has ``violations`` besides: pairs of a field's path and what is wrong with it.
    """

    def __init__(self, server: str, kinds: Kinds) -> None:
        """For ``server``, as people call it. Of ``kinds`` the first whose type fits counts: a subclass stands first."""
        self._server, self._kinds = server, kinds

    def foreseen(self, error: Exception) -> Exception:
        """The error itself if callers may meet it; else what they are told of a fault, which is logged under an id."""
        if self.kind_of(error) is not FAULT or isinstance(error, Fault):
            return error
        error_id = uuid4().hex
        log.error("fault", error_id=error_id, exc_info=error)
        return Fault(self._server, error_id)

    def kind_of(self, error: Exception) -> Kind:
        """What an error means to a caller."""
        return next((kind for type_, kind in self._kinds if isinstance(error, type_)), FAULT)

    def reason_of(self, error: Exception) -> str:
        """The reason of an error as metrics and logs name it."""
        return _name_of(self.kind_of(error)).removeprefix("ERROR_REASON_").lower()

    def to_status(self, error: Exception) -> status_pb2.Status:
        """The rich status of an error."""
        error = self.foreseen(error)
        kind, text = self.kind_of(error), clip(str(error), LONGEST_MESSAGE)
        status = status_pb2.Status(code=kind.code.value[0], message=text)
        info = error_details_pb2.ErrorInfo(reason=_name_of(kind), domain=DOMAIN, metadata=metadata_of(error))
        _attach(status, info)
        if violations := violations_of(error):
            _attach(status, _bad_request(violations))
        if kind.code == grpc.StatusCode.FAILED_PRECONDITION:
            failure = error_details_pb2.PreconditionFailure()
            failure.violations.add(type=info.reason, subject=kind.subject, description=text)
            _attach(status, failure)
        if kind.retry_seconds is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromNanoseconds(int(kind.retry_seconds * 1e9))
            _attach(status, retry)
        return status

    async def abort(self, context: Context, error: Exception) -> NoReturn:
        """End the call with the status of an error. An abort that gRPC already knows of goes through as it is."""
        if isinstance(error, grpc.aio.AbortError):
            raise error
        kind, rich = self.kind_of(error), self.to_status(error)
        trailers = tuple(rpc_status.to_status(rich).trailing_metadata)
        if kind.retry_seconds is not None:
            trailers += ((PUSHBACK, str(int(kind.retry_seconds * 1000))),)
        await context.abort(kind.code, rich.message, trailers)

    async def guarded(self, context: Context, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Await a handler's work; what it raises ends the call with its status."""
        try:
            return await call()
        except Exception as error:
            await self.abort(context, error)

    async def guarded_stream(
        self, context: Context, answers: AsyncGenerator[Answer, None]
    ) -> AsyncGenerator[Answer, None]:
        """Pass on a streaming handler's answers; what it raises ends the stream with its status.

        The handler's generator is closed with the stream, so its ``finally`` runs as soon as the client is gone.
        """
        try:
            async with aclosing(answers):
                async for answer in answers:
                    yield answer
        except Exception as error:
            await self.abort(context, error)


def metadata_of(error: Exception) -> dict[str, str]:
    """The numbers and names that an error's text speaks of."""
    public = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    return {name: clip(str(value), LONGEST_VALUE) for name, value in public.items()}


def violations_of(error: Exception) -> Sequence[tuple[str, str]]:
    """The wrong fields that an error speaks of, each with its path and what is wrong with it."""
    if isinstance(error, InvalidMessage):
        return [(error.field, f"is {clip(str(error.value), LONGEST_VALUE)}, but {clip(error.limit, LONGEST_VALUE)}")]
    return getattr(error, "violations", ())


def clip(text: str, limit: int) -> str:
    """At most ``limit`` bytes of a text in UTF-8; where something is left out, it ends in an ellipsis."""
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode(errors="ignore") + "…"


def _bad_request(violations: Sequence[tuple[str, str]]) -> error_details_pb2.BadRequest:
    """The first ones, as long as there is room for each."""
    shown = violations[:MOST_VIOLATIONS]
    room = VIOLATIONS_BYTES // len(shown)
    bad = error_details_pb2.BadRequest()
    for path, wrong in shown:
        field = clip(path, LONGEST_FIELD)
        description = clip(wrong, min(LONGEST_DESCRIPTION, room - len(field.encode())))
        bad.field_violations.add(field=field, description=description)
    return bad


def _attach(status: status_pb2.Status, detail: ProtoMessage) -> None:
    packed = AnyMessage()
    packed.Pack(detail)
    status.details.append(packed)


def _name_of(kind: Kind) -> str:
    return reasons.ErrorReason.Name(kind.reason)

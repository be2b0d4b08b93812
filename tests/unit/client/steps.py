"""How a call to the scripted service goes: well, to a break, to a refusal, or to a standstill."""

from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from tests.unit.client.answers import Attempt

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A status, with details."""

    code: grpc.StatusCode
    reason: str = ""
    text: str = "no"
    metadata: dict[str, str] = field(default_factory=dict)
    details: tuple[Message, ...] = ()
    trailers: tuple[tuple[str, str], ...] = ()

    async def send(self, context: Context) -> None:
        """End a call with it."""
        if not self.reason:
            await context.abort(self.code, self.text, self.trailers)
        status = status_pb2.Status(code=self.code.value[0], message=self.text)
        info = error_details_pb2.ErrorInfo(reason=self.reason, domain="pagehold", metadata=self.metadata)
        for detail in (info, *self.details):
            packed = AnyMessage()
            packed.Pack(detail)
            status.details.append(packed)
        rich = rpc_status.to_status(status)
        await context.abort(rich.code, rich.details, (*rich.trailing_metadata, *self.trailers))


@dataclass(frozen=True, slots=True)
class Broken:
    """An attempt that ends with a refusal after so many events."""

    after: int
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Held:
    """An attempt that stands still after so many events, until it is released or hung up."""

    after: int


BREAK = Refusal(grpc.StatusCode.UNAVAILABLE, text="Socket closed")
Step = Attempt | Refusal | Broken | Held

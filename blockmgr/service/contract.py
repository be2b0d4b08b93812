"""Services added to a server as their contracts describe them.

Unlike the code generated from the contracts, what cannot be read as a request does not end the call here, where gRPC
would say no more than that something unexpected happened: the handler gets it as an error to raise, like any other.
"""

from collections.abc import Callable, Collection
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from blockmgr.core.errors import InvalidMessage


def add_service(
    server: grpc.aio.Server,
    service: ServiceDescriptor,
    handler: Callable[[str], Callable[..., Any]],
    raw: Collection[str] = (),
    read: Callable[[type[ProtoMessage]], Callable[[bytes], Any]] | None = None,
    reading: Collection[str] = (),
) -> None:
    """Add a service. ``handler`` gives what serves a method of that name; one of ``raw`` answers with bytes as they are.

    ``read`` makes what a handler gets of a request's bytes; absent: ``reader``. A method of ``reading``, which streams its
    answer, gets no request and reads it from the context: gRPC itself would wait for ever for one that never comes.
    """
    read = read or reader
    handlers = {}
    for method in service.methods:
        handlers[method.name] = _maker(method, method.name in reading)(
            handler(method.name),
            request_deserializer=read(GetMessageClass(method.input_type)),
            response_serializer=None if method.name in raw else GetMessageClass(method.output_type).SerializeToString,
        )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))


def _maker(method: MethodDescriptor, is_reading: bool) -> Callable[..., Any]:
    if method.client_streaming or is_reading:
        return grpc.stream_stream_rpc_method_handler
    return grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler


def reader(kind: type[ProtoMessage]) -> Callable[[bytes], ProtoMessage | InvalidMessage]:
    """What reads requests of a kind. It never raises: the handler gets the error, and passes it to ``readable``."""

    def read(data: bytes) -> ProtoMessage | InvalidMessage:
        try:
            return kind.FromString(data)
        except DecodeError:
            return InvalidMessage(
                "request", f"{len(data)} bytes", f"they cannot be read as {kind.DESCRIPTOR.full_name}"
            )

    return read


def readable(request: Any) -> Any:
    """The request, if it is one. Raises ``InvalidMessage`` where it could not be read."""
    if isinstance(request, InvalidMessage):
        raise request
    return request

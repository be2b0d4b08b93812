"""The sockets of a door: one for clients, which doors share, and one for operators, which is this door's own."""

import os
from pathlib import Path

import grpc
from grpc_channelz.v1 import channelz
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from blockmgr.service.pending import PENDING_OPTIONS
from executor.frontend.readiness import Readiness
from executor.frontend.service import InferenceServicer, add_to_server
from executor.frontend.wire import MESSAGE_BYTES
from pagehold.inference.v1 import inference_service_pb2

SERVICE: str = inference_service_pb2.DESCRIPTOR.services_by_name["InferenceService"].full_name

OPTIONS = [
    *PENDING_OPTIONS,
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    # Several doors share a port; the kernel spreads connections over them.
    ("grpc.so_reuseport", 1),
    # Clients may ping while nothing else moves, as in a long prefill.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
    ("grpc.http2.max_ping_strikes", 0),
    # A client that is gone without a word would hold its blocks for ever.
    ("grpc.keepalive_time_ms", 20000),
    ("grpc.keepalive_timeout_ms", 10000),
    ("grpc.http2.ping_timeout_ms", 10000),
]


def client_server(servicer: InferenceServicer, readiness: Readiness) -> grpc.aio.Server:
    """A server for clients, without an address."""
    server = grpc.aio.server(options=OPTIONS)
    _add(server, servicer, readiness)
    return server


def operator_server(servicer: InferenceServicer, readiness: Readiness, socket: Path) -> grpc.aio.Server:
    """A server with the same services and channelz on a socket of the door's own, mode 0600, in place of any left there.

    Raises OSError or RuntimeError where it cannot be bound.
    """
    server = grpc.aio.server(options=OPTIONS)
    _add(server, servicer, readiness)
    channelz.add_channelz_servicer(server)  # type: ignore[arg-type]
    socket.unlink(missing_ok=True)
    mask = os.umask(0o177)
    try:
        server.add_insecure_port(f"unix:{socket}")
    finally:
        os.umask(mask)
    return server


def _add(server: grpc.aio.Server, servicer: InferenceServicer, readiness: Readiness) -> None:
    add_to_server(servicer, server)
    health_pb2_grpc.add_HealthServicer_to_server(readiness.servicer, server)
    reflection.enable_server_reflection([SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME], server)

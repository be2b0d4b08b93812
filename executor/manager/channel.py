"""The gRPC channel to the manager, and what its errors say."""

from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

MESSAGE_BYTES = 16 << 20


CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    # A manager is back within a fraction of a second; a shared sub-channel in back-off would not notice.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
]


def connect(socket: str) -> grpc.Channel:
    """A channel to the manager's unix socket. It outlives the manager: calls wait for the next one."""
    return grpc.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS)


def reason_of(error: Any) -> str:
    """Name of the ``ErrorReason`` in an error's details; empty if it has none."""
    status = rpc_status.from_call(error)
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Is(info.DESCRIPTOR) and detail.Unpack(info):
            return str(info.reason)
    return ""

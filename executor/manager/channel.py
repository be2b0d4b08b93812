"""The gRPC channel to the manager, and what its errors say."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

Answer = TypeVar("Answer")

MESSAGE_BYTES = 16 << 20

PAUSE = 0.1
"""Seconds between two attempts at a call."""

BROKEN = frozenset({grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL})
"""What the end of a manager may look like besides UNAVAILABLE, if no reason is given."""

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


def is_answer(error: Any) -> bool:
    """Whether the manager itself refuses a call. If not, it is going or coming, and the same call may be made again."""
    if error.code() == grpc.StatusCode.UNAVAILABLE:
        return False
    return error.code() not in BROKEN or bool(reason_of(error))


def insist(call: Callable[[], Answer], seconds: float = 60.0) -> Answer:
    """Make a call that may be repeated until a manager answers it, for ``seconds`` at most. Raises ``grpc.RpcError``."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            if is_answer(error) or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE)

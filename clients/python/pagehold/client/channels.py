"""Channels to one address: calls share one until a call on it breaks, and the next ones get a fresh one.

A fresh channel is a fresh connection, which the kernel may hand to another of the front doors on the port. What still
runs on the old one is left in peace; it is closed when its last call has ended.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc

from pagehold.client.errors import Cancelled
from pagehold.inference.v1 import inference_service_pb2_grpc

DEFAULT_ADDRESS = "127.0.0.1:7071"
MESSAGE_BYTES = 16 << 20
OPTIONS = [
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    # A server of models is on this machine or a neighbour, never behind a proxy for the web.
    ("grpc.enable_http_proxy", 0),
    # One that has just restarted is tried at once, whatever another channel of this process has seen.
    ("grpc.use_local_subchannel_pool", 1),
    # A server that takes connections and never answers is given up after this time, and another one tried.
    ("grpc.min_reconnect_backoff_ms", 5000),
    # A frozen server is noticed within 15 s, in the longest prefill too.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
]


def default_address() -> str:
    """What the environment names, else the port that `pagehold up` opens."""
    return os.environ.get("PAGEHOLD_ADDRESS") or DEFAULT_ADDRESS


@dataclass(eq=False, slots=True)
class Lease:
    """A channel that a call has borrowed, and its stub. ``calls`` have it now; ``retired``: no other gets it."""

    channel: Any
    stub: Any
    calls: int = 0
    retired: bool = False


class Channels:
    """The channels of one client, which owns them. Safe to use from several threads.

    ``make`` makes a channel from an address and options. Closing is the caller's part: some channels want it awaited.
    """

    def __init__(self, address: str, make: Callable[[str, list[tuple[str, int]]], Any]) -> None:
        self.address = address
        self._make = make
        self._lock = threading.Lock()
        self._current: Lease | None = None
        self._open: set[Lease] = set()
        self._closed = False

    def borrow(self) -> Lease:
        """The channel for a call. Raises ``Cancelled`` once the client is closed."""
        with self._lock:
            if self._closed:
                raise Cancelled("the client is closed", grpc.StatusCode.CANCELLED)
            if self._current is None:
                channel = self._make(self.address, OPTIONS)
                self._current = Lease(channel, inference_service_pb2_grpc.InferenceServiceStub(channel))
                self._open.add(self._current)
            self._current.calls += 1
            return self._current

    def give_back(self, lease: Lease, *, broken: bool) -> list[Any]:
        """A call has ended, and its channel gets no other if it was ``broken``; channels to close now come back."""
        with self._lock:
            lease.calls -= 1
            if broken:
                lease.retired = True
                self._current = None if self._current is lease else self._current
            if lease.calls or not lease.retired or lease not in self._open:
                return []
            self._open.discard(lease)
            return [lease.channel]

    def give_up(self) -> list[Any]:
        """The client is closed: all channels, to be closed now."""
        with self._lock:
            self._closed = True
            channels = [lease.channel for lease in self._open]
            self._open.clear()
            self._current = None
            return channels

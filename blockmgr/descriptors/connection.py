"""Packets on a non-blocking socket, awaited on the event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

from blockmgr.descriptors.protocol import BATCH, LONGEST_PACKET, DescriptorError, encode
from blockmgr.packets import Packet, receive, rights


class ConnectionLost(Exception):
    """The peer went away in the middle of a request."""


async def receive_packet(connection: socket.socket) -> Packet:
    """Wait for a packet; the caller owns its descriptors. Empty data means that the peer has closed.

    Raises:
        PacketError: it was cut short.
        ConnectionLost: the connection broke.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            return receive(connection, LONGEST_PACKET, BATCH)
        except BlockingIOError:
            readable = asyncio.Event()
            loop.add_reader(connection, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(connection)
        except OSError as error:
            raise ConnectionLost(f"a connection broke while a request was awaited: {error}") from error


async def send_packet(connection: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send a message with copies of `descriptors`, waiting until the peer has room for it.

    Raises:
        DescriptorError: the message is too long.
        ConnectionLost: the connection broke.
    """
    loop = asyncio.get_running_loop()
    data = encode(message)
    while True:
        try:
            connection.sendmsg([data], rights(descriptors), socket.MSG_NOSIGNAL)
            return
        except BlockingIOError:
            writable = asyncio.Event()
            loop.add_writer(connection, writable.set)
            try:
                await writable.wait()
            finally:
                loop.remove_writer(connection)
        except OSError as error:
            raise ConnectionLost(f"a connection broke before its answer was sent: {error}") from error


def send_last_word(connection: socket.socket, error: DescriptorError) -> None:
    """Send an error, if there is room for it now."""
    try:
        connection.send(encode({"error": error.reason, "detail": error.detail}), socket.MSG_NOSIGNAL)
    except OSError:
        return

"""Packets on unix sockets that carry descriptors: receiving them without a leak, and the names descriptors go by."""

from __future__ import annotations

import array
import os
import socket
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

#: The kernel's limit on descriptors in one packet (SCM_MAX_FD).
MOST_DESCRIPTORS = 253

#: Number of the first descriptor that a service manager passes to a process (systemd's SD_LISTEN_FDS_START).
FIRST_INHERITED = 3

#: Longest name of a stored descriptor (systemd's FDNAME_MAX).
LONGEST_NAME = 255

_CREDENTIALS = struct.Struct("3i")


class PacketError(Exception):
    """A packet was cut short by the kernel. Whatever descriptors came with it have been closed."""


@dataclass(frozen=True)
class Credentials:
    """Who is at the other end of a unix socket, as the kernel vouches for it."""

    pid: int
    uid: int
    gid: int


@dataclass
class Packet:
    """One received packet. Whoever receives it owns its descriptors (close-on-exec) and has to close or pass them."""

    data: bytes
    descriptors: list[int] = field(default_factory=list)
    sender: Credentials | None = None

    def close(self) -> None:
        """Close the descriptors that nobody took out of `descriptors`."""
        close_all(self.descriptors)
        self.descriptors = []


def close_all(descriptors: Iterable[int]) -> None:
    """Close descriptors, each of them even if closing another fails."""
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError:
            continue


def check_name(name: str) -> None:
    """Check that a descriptor may be stored under `name`.

    Raises:
        ValueError: the name is empty, longer than 255 characters, or holds ':', a control or a non-ASCII character.
    """
    if not name:
        raise ValueError("descriptor name is empty")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"descriptor name has {len(name)} characters, more than {LONGEST_NAME}: {name[:32]!r}...")
    for character in name:
        if character == ":" or not " " <= character <= "~":
            raise ValueError(f"descriptor name {name!r} holds {character!r}; allowed is printable ASCII without ':'")


def receive(sock: socket.socket, most_bytes: int, most_descriptors: int = MOST_DESCRIPTORS) -> Packet:
    """Receive one packet; empty data from a connected socket means that the peer has closed it.

    Sender credentials are filled in on sockets with SO_PASSCRED set.

    Raises:
        PacketError: the packet or its descriptors did not fit, or this process has no descriptors left.
        BlockingIOError, TimeoutError: as the socket is set.
    """
    room = socket.CMSG_SPACE(most_descriptors * array.array("i").itemsize) + socket.CMSG_SPACE(_CREDENTIALS.size)
    data, ancillary, flags, _ = sock.recvmsg(most_bytes, room, socket.MSG_CMSG_CLOEXEC)
    packet = Packet(data)
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
            packet.descriptors.extend(numbers)
        elif level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            packet.sender = Credentials(*_CREDENTIALS.unpack(content))
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        count = len(packet.descriptors)
        packet.close()
        what = "its descriptors" if flags & socket.MSG_CTRUNC else f"its data (limit {most_bytes} bytes)"
        raise PacketError(f"a packet lost part of {what}; {count} descriptors that came were closed")
    return packet


def rights(descriptors: Sequence[int]) -> list[tuple[int, int, array.array[int]]]:
    """Return the ancillary data that makes `sendmsg` pass copies of `descriptors`; the sender keeps its own."""
    if not descriptors:
        return []
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]


def peer_of(sock: socket.socket) -> Credentials:
    """Return who connected the other end of a connected unix socket (SO_PEERCRED)."""
    return Credentials(*_CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)))

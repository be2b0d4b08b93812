"""The callers' side of the descriptor socket: plain functions that wait, each with a time limit."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from blockmgr.descriptors.protocol import BATCH, LONGEST_PACKET, DescriptorError, decode, encode
from blockmgr.packets import Packet, PacketError, close_all, receive, rights
from blockmgr.processes import Process


def introduce(
    path: str | os.PathLike[str], instance: str, processes: Sequence[Process], *, timeout: float = 5.0
) -> None:
    """Hand the manager a pidfd of each process that may touch the pool's memory, 1 to 64 of them.

    `instance` is the executor's UUID as 32 hexadecimal digits, `timeout` in seconds. The processes stay the caller's.

    Raises:
        DescriptorError: refused, or not answered in time.
    """
    announced = [{"pid": process.pid, "role": process.role} for process in processes]
    with _Connection(path, timeout) as connection:
        connection.ask(
            {"op": "introduce", "instance": instance, "processes": announced},
            [process.pidfd for process in processes],
        )


def fetch(
    path: str | os.PathLike[str], instance: str, epoch: int, pool: str, *, timeout: float = 5.0
) -> dict[str, tuple[int, dict[str, Any]]]:
    """Fetch the descriptors of a pool's memory and ledger, by name, each with what the manager says about it.

    The caller owns the descriptors (close-on-exec); mappings made from them outlast their closing.

    Raises:
        DescriptorError: refused, or not answered in time. Whatever came before has been closed.
    """
    found: dict[str, tuple[int, dict[str, Any]]] = {}
    try:
        with _Connection(path, timeout) as connection:
            connection.send({"op": "fetch", "instance": instance, "epoch": epoch, "pool": pool}, ())
            more = True
            while more:
                more = _take_items(connection, found)
    except BaseException:
        close_all(descriptor for descriptor, _ in found.values())
        raise
    return found


def fetch_ledger(
    path: str | os.PathLike[str], pool: str | None = None, *, timeout: float = 5.0
) -> tuple[int, dict[str, Any]]:
    """Fetch a descriptor of a pool's ledger, for reading only, and what the manager says about it ("pool": its name).

    Any process of the manager's user may: front doors and tools, which register nothing. Without a name it is the only
    pool's. The caller owns the descriptor (close-on-exec).

    Raises:
        DescriptorError: refused (not-serving while the manager starts or stops, unknown-pool, several-pools), or not
            answered in time.
    """
    found: dict[str, tuple[int, dict[str, Any]]] = {}
    try:
        with _Connection(path, timeout) as connection:
            connection.send({"op": "ledger", "pool": pool}, ())
            _take_items(connection, found)
        if len(found) != 1:
            raise DescriptorError("bad-reply", f"{len(found)} descriptors came instead of one ledger")
    except BaseException:
        close_all(descriptor for descriptor, _ in found.values())
        raise
    return found.popitem()[1]


def give_back(
    path: str | os.PathLike[str], instance: str, descriptors: Mapping[str, int], *, timeout: float = 5.0
) -> None:
    """Give a manager that lost everything copies of the descriptors fetched earlier, by the names they had.

    The descriptors stay the caller's.

    Raises:
        DescriptorError: refused, or not answered in time. The manager may have taken some already.
    """
    names = list(descriptors)
    with _Connection(path, timeout) as connection:
        for start in range(0, len(names), BATCH):
            batch = names[start : start + BATCH]
            connection.ask(
                {"op": "return", "instance": instance, "names": batch}, [descriptors[name] for name in batch]
            )


class _Connection:
    """One connection to the manager, with a deadline for everything done on it."""

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        self._path = os.fspath(path)
        self._deadline = time.monotonic() + timeout
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def __enter__(self) -> _Connection:
        try:
            self._socket.settimeout(self._left())
            self._socket.connect(self._path)
        except BaseException as error:
            self._socket.close()
            if isinstance(error, OSError):
                raise self._failure(error) from error
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        """Send one packet with copies of ``descriptors``."""
        data = encode(message)
        if len(descriptors) > BATCH:
            raise DescriptorError("bad-request", f"{len(descriptors)} descriptors at once, more than {BATCH}")
        try:
            self._socket.settimeout(self._left())
            self._socket.sendmsg([data], rights(descriptors), socket.MSG_NOSIGNAL)
        except BrokenPipeError:
            # Refused and closed before anything was asked; the reason waits to be read.
            return
        except OSError as error:
            raise self._failure(error) from error

    def reply(self) -> tuple[dict[str, Any], Packet]:
        """Return the next message; the caller closes the packet."""
        try:
            self._socket.settimeout(self._left())
            packet = self._receive()
        except PacketError as error:
            raise DescriptorError("bad-reply", str(error)) from None
        except OSError as error:
            raise self._failure(error) from error
        try:
            if not packet.data:
                raise DescriptorError("unreachable", f"{self._path}: the manager closed the connection")
            message = decode(packet.data)
            if "error" in message:
                raise DescriptorError(str(message["error"]), str(message.get("detail", "")))
        except BaseException:
            packet.close()
            raise
        return message, packet

    def ask(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        """Send a request that is answered by a plain yes."""
        self.send(message, descriptors)
        _, packet = self.reply()
        packet.close()

    def _receive(self) -> Packet:
        try:
            return receive(self._socket, LONGEST_PACKET, BATCH)
        except ConnectionResetError:
            # Closed without reading our request: the kernel says so first, and has the reason for it after that.
            return receive(self._socket, LONGEST_PACKET, BATCH)

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def _failure(self, error: OSError) -> DescriptorError:
        reason = "timeout" if isinstance(error, TimeoutError) else "unreachable"
        return DescriptorError(reason, f"{self._path}: {error}")


def _take_items(connection: _Connection, found: dict[str, tuple[int, dict[str, Any]]]) -> bool:
    """Move one reply's descriptors into `found`; say whether more are to come."""
    message, packet = connection.reply()
    try:
        items = message.get("items")
        if not isinstance(items, list) or len(items) != len(packet.descriptors):
            raise DescriptorError("bad-reply", f"{len(packet.descriptors)} descriptors came for {items!r:.200}")
        for item in items:
            if item["name"] in found:
                raise DescriptorError("bad-reply", f"descriptor {item['name']!r} came twice")
            found[item["name"]] = (packet.descriptors.pop(0), item["meta"])
    except (KeyError, TypeError) as error:
        raise DescriptorError("bad-reply", f"an item lacks its name or meta: {error}") from error
    finally:
        packet.close()
    return message.get("more") is True

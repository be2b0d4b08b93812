"""The manager's side of the descriptor socket."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from blockmgr.descriptors.connection import ConnectionLost, receive_packet, send_last_word, send_packet
from blockmgr.descriptors.protocol import (
    BATCH,
    DescriptorError,
    Offer,
    decode,
    instance_of,
    list_of,
    names_of,
    number_of,
    process_of,
    text_of,
)
from blockmgr.ledger.memory import reopen
from blockmgr.packets import Packet, PacketError, close_all, peer_of
from blockmgr.processes import Process

_log = logging.getLogger(__name__)

_ACCEPT_PAUSE = 0.1  # seconds without accepting when this process has run out of descriptors

T = TypeVar("T")

#: Given (instance, processes). Owns the processes if it returns; if it raises, the server closes them.
OnIntroduce = Callable[[str, list[Process]], Awaitable[None] | None]

#: Given (instance, epoch, pool). The offered descriptors stay the manager's; copies are made at once.
OnFetch = Callable[[str, int, str], Awaitable[Sequence[Offer]] | Sequence[Offer]]

#: Given (instance, [(name, descriptor)]). Owns the descriptors if it returns; if it raises, the server closes them.
#: They may be anything: check them before use (`Arena.adopt` does).
OnReturn = Callable[[str, list[tuple[str, int]]], Awaitable[None] | None]

#: Given a pool's name, or None for the only one. What is offered stays the manager's, and is passed on for reading only.
OnLedger = Callable[[str | None], Awaitable[Offer] | Offer]


class DescriptorServer:
    """Serves the descriptor socket on the running event loop, which it never blocks.

    Only processes of the manager's own user, and root, may connect. The callbacks hold the policy; they may be
    plain or async, and refuse a request by raising `DescriptorError`.
    """

    def __init__(
        self,
        path: Path,
        *,
        on_introduce: OnIntroduce,
        on_fetch: OnFetch,
        on_return: OnReturn,
        on_ledger: OnLedger,
        most_connections: int = 64,
        connection_seconds: float = 10.0,
    ) -> None:
        """Serve at `path`, `most_connections` at a time, each for `connection_seconds` at most."""
        self._path = path
        self._on_introduce = on_introduce
        self._on_fetch = on_fetch
        self._on_return = on_return
        self._on_ledger = on_ledger
        self._most_connections = most_connections
        self._connection_seconds = connection_seconds
        self._listening: socket.socket | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Bind the socket, mode 0600, in place of any that was left there, and serve from now on.

        Whoever calls must have made sure, by a lock of its own, that no other manager serves there.

        Raises:
            OSError: the path cannot be bound.
        """
        self._path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        mask = os.umask(0o177)
        try:
            listening.bind(str(self._path))
            listening.listen(self._most_connections)
        except OSError:
            listening.close()
            raise
        finally:
            os.umask(mask)
        self._listening = listening
        asyncio.get_running_loop().add_reader(listening, self._accept)

    async def stop(self) -> None:
        """Stop serving: requests under way are cut off, and the socket is removed. May be repeated."""
        if self._listening is None:
            return
        asyncio.get_running_loop().remove_reader(self._listening)
        self._listening.close()
        self._listening = None
        self._path.unlink(missing_ok=True)
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self) -> None:
        if self._listening is None:
            return
        loop = asyncio.get_running_loop()
        try:
            connection, _ = self._listening.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # Out of descriptors: the socket stays readable, and trying again at once would take the whole loop.
            _log.warning("descriptor socket: cannot accept: %s", error)
            loop.remove_reader(self._listening)
            loop.call_later(_ACCEPT_PAUSE, self._accept_again)
            return
        connection.setblocking(False)
        task = loop.create_task(self._serve(connection, len(self._connections)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    def _accept_again(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().add_reader(self._listening, self._accept)

    async def _serve(self, connection: socket.socket, others: int) -> None:
        with connection:
            try:
                async with asyncio.timeout(self._connection_seconds):
                    self._check_peer(connection, others)
                    while await self._serve_request(connection):
                        continue
            except DescriptorError as error:
                send_last_word(connection, error)
            except TimeoutError:
                send_last_word(
                    connection, DescriptorError("timeout", f"a connection lasts {self._connection_seconds} s at most")
                )
            except (ConnectionLost, OSError) as error:
                _log.info("descriptor socket: %s", error)

    def _check_peer(self, connection: socket.socket, others: int) -> None:
        peer = peer_of(connection)
        if peer.uid not in (0, os.geteuid()):
            raise DescriptorError(
                "not-allowed",
                f"process {peer.pid} runs as uid {peer.uid}; only uid {os.geteuid()} and root may connect",
            )
        if others >= self._most_connections:
            raise DescriptorError("busy", f"{others} connections are open, which is the limit; try again")

    async def _serve_request(self, connection: socket.socket) -> bool:
        """Answer one request; say whether there was one."""
        try:
            packet = await receive_packet(connection)
        except PacketError as error:
            raise DescriptorError("bad-request", str(error)) from None
        if not packet.data:
            packet.close()
            return False
        try:
            await self._answer(connection, packet)
        except DescriptorError as error:
            await send_packet(connection, {"error": error.reason, "detail": error.detail})
        except ConnectionLost:
            raise
        except Exception:
            _log.exception("descriptor socket: a request failed")
            await send_packet(connection, {"error": "internal", "detail": "the manager failed; see its log"})
        finally:
            packet.close()
        return True

    async def _answer(self, connection: socket.socket, packet: Packet) -> None:
        message = decode(packet.data)
        match message.get("op"):
            case "introduce":
                await self._introduce(message, packet)
            case "return":
                await self._take_back(message, packet)
            case "fetch":
                await self._hand_out(connection, message)
                return
            case "ledger":
                await self._hand_out_ledger(connection, message)
                return
            case other:
                raise DescriptorError("bad-request", f"op: {other!r} is not introduce, fetch, return or ledger")
        await send_packet(connection, {"ok": True})

    async def _introduce(self, message: dict[str, Any], packet: Packet) -> None:
        instance = instance_of(message)
        processes = [
            process_of(entry, pidfd)
            for entry, pidfd in zip(
                list_of(message, "processes", len(packet.descriptors)), packet.descriptors, strict=True
            )
        ]
        await _result(self._on_introduce(instance, processes))
        packet.descriptors = []

    async def _take_back(self, message: dict[str, Any], packet: Packet) -> None:
        instance = instance_of(message)
        names = names_of(message, len(packet.descriptors))
        await _result(self._on_return(instance, list(zip(names, packet.descriptors, strict=True))))
        packet.descriptors = []

    async def _hand_out(self, connection: socket.socket, message: dict[str, Any]) -> None:
        instance, epoch, pool = instance_of(message), number_of(message, "epoch", 0), text_of(message, "pool")
        offers = list(await _result(self._on_fetch(instance, epoch, pool)))
        copies: list[int] = []
        try:
            # All of them before the first wait, after which the manager may have closed its own.
            copies.extend(os.dup(offer.descriptor) for offer in offers)
            for start in range(0, max(1, len(offers)), BATCH):
                batch = offers[start : start + BATCH]
                items = [{"name": offer.name, "meta": offer.meta} for offer in batch]
                reply = {"items": items, "more": start + BATCH < len(offers)}
                await send_packet(connection, reply, copies[start : start + BATCH])
        finally:
            close_all(copies)

    async def _hand_out_ledger(self, connection: socket.socket, message: dict[str, Any]) -> None:
        pool = None if message.get("pool") is None else text_of(message, "pool")
        offer = await _result(self._on_ledger(pool))
        # Opened anew, not copied: a copy would let its receiver store through it.
        reading = reopen(offer.descriptor, os.O_RDONLY)
        try:
            reply = {"items": [{"name": offer.name, "meta": offer.meta}], "more": False}
            await send_packet(connection, reply, [reading])
        finally:
            os.close(reading)


async def _result(value: Awaitable[T] | T) -> T:
    if inspect.isawaitable(value):
        return await value
    return value

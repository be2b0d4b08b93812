"""A TCP port in front of a server, whose connections are cut after as many bytes as a test says."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any

from tests.unit.client.serving import Served


class Relay:
    """Passes bytes on between a port of the loopback and a server's unix socket, on the server's own loop.

    Each connection takes from ``cuts`` the number of bytes from the server after which it is cut; without one it is
    whole. ``connections`` counts them.
    """

    def __init__(self, served: Served) -> None:
        self.cuts: deque[int] = deque()
        self.connections = 0
        self._socket = served.address.removeprefix("unix:")
        self._served = served
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: Any = served.run(self._listen())
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        """Take no more connections, and cut those there are."""
        self._served.run(self._close())

    async def _listen(self) -> Any:
        return await asyncio.start_server(self._connected, "127.0.0.1", 0)

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        left = self.cuts.popleft() if self.cuts else 1 << 40
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            inner_reader, inner_writer = await asyncio.open_unix_connection(self._socket)
        except OSError:
            writer.transport.abort()
            return
        up = asyncio.create_task(_pass_on(reader, inner_writer, 1 << 40))
        down = asyncio.create_task(_pass_on(inner_reader, writer, left))
        try:
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
        finally:
            up.cancel()
            down.cancel()
            writer.transport.abort()
            inner_writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int) -> None:
    """Pass on so many bytes, or until either side is gone."""
    with suppress(OSError):
        while left > 0 and (data := await reader.read(min(left, 65536))):
            left -= len(data)
            writer.write(data)
            await writer.drain()

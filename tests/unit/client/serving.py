"""A server for the scripted service, on a unix socket and in a thread of its own."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc.aio

from pagehold.inference.v1 import inference_service_pb2_grpc
from tests.unit.client.scripted_service import ScriptedService


class Served:
    """A service and its server. It may be stopped, and started again at the same address."""

    def __init__(self, address: str, service: ScriptedService) -> None:
        self.address = address
        self.service = service
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: Any = None

    def run(self, work: Any) -> Any:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def start(self) -> None:
        """Serve."""
        self.run(self._start())

    async def _start(self) -> None:
        self._server = grpc.aio.server()
        inference_service_pb2_grpc.add_InferenceServiceServicer_to_server(self.service, self._server)
        if self._server.add_insecure_port(self.address) == 0:
            raise OSError(f"{self.address} cannot be bound")
        await self._server.start()

    def stop(self) -> None:
        """Break every connection, and serve no more."""
        if self._server is not None:
            self.run(self._server.stop(None))
            self._server = None

    def release(self) -> None:
        """Let go what is held."""
        self._loop.call_soon_threadsafe(self.service.released.set)

    def close(self) -> None:
        """Stop, and end the thread."""
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()


@contextmanager
def serving(service: ScriptedService) -> Iterator[Served]:
    """A service on a unix socket of its own, as long as the context lasts."""
    # Not in pytest's own folders: a socket's path has 107 bytes at most.
    folder = TemporaryDirectory()
    served = Served(f"unix:{Path(folder.name) / 'door.sock'}", service)
    try:
        served.start()
        yield served
    finally:
        served.close()
        folder.cleanup()

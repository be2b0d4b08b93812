"""The service's server: a thread with a loop of its own, so that the engine's thread is nobody's neighbour there."""

import asyncio
import os
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import grpc
import uvloop
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from blockmgr.service.pending import PENDING_OPTIONS
from executor.engine import news as told
from executor.engine.engine import Engine
from executor.engine.service import EngineServicer
from pagehold.engine.v1 import description_pb2, engine_service_pb2, engine_service_pb2_grpc

MESSAGE_BYTES = 16 << 20
OPTIONS = [
    *PENDING_OPTIONS,
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
    ("grpc.http2.max_ping_strikes", 0),
]
START_SECONDS = 30.0


class EngineServer:
    """Serves front doors on a unix socket. Its methods may be called from any thread."""

    def __init__(self, socket: Path) -> None:
        """Listen; calls are refused until ``open``. Raises ``OSError`` or ``RuntimeError`` if that is not possible."""
        self._socket = socket
        self._servicer = EngineServicer()
        self._health = HealthServicer()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="engine-service", daemon=True)
        self._thread.start()
        self._server: grpc.aio.Server = self._do(self._start()).result(START_SECONDS)

    def open(self, engine: Engine, description: description_pb2.DescribeResponse) -> None:
        """Serve calls from now on."""

        async def serve() -> None:
            self._servicer.open(engine, description)
            await self._health.set("", health_pb2.HealthCheckResponse.SERVING)

        self._do(serve()).result(START_SECONDS)

    def tell(self, news: list[told.News]) -> None:
        """Have front doors told. Never waits."""
        self._loop.call_soon_threadsafe(self._servicer.deliver, news)

    def stopping(self) -> None:
        """Health is bad from now on; streams go on."""
        self._do(self._health.set("", health_pb2.HealthCheckResponse.NOT_SERVING))

    def close(self, grace: float = 1.0) -> None:
        """End all streams, after ``grace`` seconds at most, and stop listening."""

        async def stop() -> None:
            self._servicer.close()
            await self._server.stop(grace)
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

        self._do(stop()).result(grace + START_SECONDS)
        self._socket.unlink(missing_ok=True)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)

    def _do(self, work: Any) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _start(self) -> grpc.aio.Server:
        server = grpc.aio.server(options=OPTIONS)
        engine_service_pb2_grpc.add_EngineServiceServicer_to_server(self._servicer, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        name = engine_service_pb2.DESCRIPTOR.services_by_name["EngineService"].full_name
        reflection.enable_server_reflection([name, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
        await self._health.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
        self._socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._socket.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            server.add_insecure_port(f"unix:{self._socket}")
        finally:
            os.umask(mask)
        await server.start()
        return server

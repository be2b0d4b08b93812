"""Whether a door is ready, kept apart from everything that could delay the answer: it is worked out ahead of the question."""

import asyncio

from grpc_health.v1 import health_pb2
from grpc_health.v1._async import HealthServicer

from executor.frontend.door import Door

LOOK_SECONDS = 0.1


class Readiness:
    """Keeps the health service up to date: serving while an engine's last sign of life is recent."""

    def __init__(self, door: Door, service: str) -> None:
        """Answer for the whole server and for ``service`` by name."""
        self.servicer = HealthServicer()
        self._door = door
        self._names = ("", service)
        self._shown: int | None = None
        self._closed = False

    async def run(self) -> None:
        """Look, again and again, until cancelled; and measure how late the loop is."""
        loop = asyncio.get_running_loop()
        while True:
            await self._show(bool(self._door.engines.ready()) and not self._closed)
            due = loop.time() + LOOK_SECONDS
            await asyncio.sleep(LOOK_SECONDS)
            self._door.metrics.loop_lag.set(max(loop.time() - due, 0.0))

    async def close(self) -> None:
        """Not serving, from now on."""
        self._closed = True
        await self._show(False)

    async def _show(self, serving: bool) -> None:
        values = health_pb2.HealthCheckResponse
        status = values.SERVING if serving else values.NOT_SERVING
        if status != self._shown:
            self._shown = status
            for name in self._names:
                await self.servicer.set(name, status)

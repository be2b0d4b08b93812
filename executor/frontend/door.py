"""Everything that one front door works with, from its start to its end."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import grpc
import structlog

from executor.frontend.admission import Places
from executor.frontend.engines import Engines
from executor.frontend.errors import GenerationLost, NotServing
from executor.frontend.ledgers import Ledgers
from executor.frontend.manager_link import ManagerLink
from executor.frontend.metrics import DoorMetrics
from executor.frontend.models import Models
from executor.frontend.recovery import Recovery
from executor.frontend.registry import Registry
from executor.frontend.settings import DoorSettings
from executor.frontend.threads import Threads
from pagehold.engine.v1 import description_pb2

LEAVE_SECONDS = 2.0
"""How long a door that stops waits for what it still has to tell the manager."""

log = structlog.get_logger()


class Door:
    """One front door, without its sockets. Made and used on a running event loop."""

    def __init__(self, settings: DoorSettings) -> None:
        self.settings = settings
        self.metrics = DoorMetrics()
        self.places = Places(settings.max_requests)
        self.metrics.in_flight.set_function(lambda: self.places.taken)
        self.registry = Registry()
        self.threads = Threads(settings.threads)
        self.models = Models(self.threads, settings.start_seconds)
        self.ledgers = Ledgers(settings.descriptor_socket)
        self.manager = ManagerLink(settings.manager_socket)
        self.engines = Engines(settings.engines, settings.name, settings.heartbeat_seconds, settings.lost_seconds)
        self.engines.on_described = self._learn
        self._recovery = Recovery(self.engines, self.manager, settings.lost_seconds)
        self._running: list[asyncio.Task[None]] = []
        self._background: set[asyncio.Task[None]] = set()
        self.is_leaving = False
        """Streams end now because the door does, not because their clients hung up: generations go on."""

    def start(self) -> None:
        """Look for engines, and after what they lose."""
        self._running = [asyncio.create_task(work) for work in (self.engines.run(), self._recovery.run())]

    async def close(self) -> None:
        """Tell the manager what is still to be told, if it listens, and let go of everything."""
        if self._background:
            await asyncio.wait(self._background, timeout=LEAVE_SECONDS)
        tasks = [*self._running, *self._background]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.manager.close()
        self.ledgers.close()
        self.threads.close()

    def leave(self) -> None:
        """End every stream, for this door ends. Whoever attaches at another door goes on where it was."""
        self.is_leaving = True
        followed = (sequence for link in self.engines for sequence in link.sequences.values())
        for sequence in {*self.registry, *followed}:
            sequence.fail(NotServing("this front door stops; the generation goes on: attach to it"))

    async def _learn(self, described: description_pb2.DescribeResponse) -> None:
        if await self.ledgers.map(described.pool.name):
            self._lose_all(described.pool.name)
        await self.models.learn(described)

    def _lose_all(self, pool: str) -> None:
        """Everything that was accepted in a pool is gone with its ledger."""
        for link in self.engines:
            for sequence in [one for one in link.sequences.values() if one.pool == pool and one.accepted]:
                link.drop(sequence)
                # In the ledger of now it would be another's.
                sequence.handle = 0
                sequence.fail(GenerationLost(sequence.output_tokens))

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something for which no caller waits."""
        task = asyncio.create_task(self._logged(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    @staticmethod
    async def _logged(work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (NotServing, grpc.RpcError) as error:
            log.error("the manager did not hear of it", error=str(error))
        except Exception:
            log.exception("work in the background failed")

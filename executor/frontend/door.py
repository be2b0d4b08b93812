"""Everything that one front door works with, and what it does when nobody waits for it any more."""

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
from executor.frontend.sequence import Sequence
from executor.frontend.settings import DoorSettings
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
        self.models = Models(settings.threads, settings.start_seconds)
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
        self.models.close()

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

    # -- when nobody waits -------------------------------------------------------------------------------------------

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

    def release(self, sequence: Sequence) -> None:
        """Hear no more of a sequence that goes on or is about to end, unless somebody here still delivers it."""
        if sequence.deliveries:
            return
        self.registry.remove(sequence)
        link = self.engines.link_of(sequence)
        if link is not None:
            link.forget(sequence)

    async def hang_up(self, sequence: Sequence, attachment: int) -> None:
        """A client is gone: what it asked for ends, unless somebody attached after it."""
        link = self.engines.link_of(sequence)
        if not sequence.accepted and link is not None:
            link.cancel(sequence.uuid)
            link.drop(sequence)
            self.registry.remove(sequence)
        try:
            # In any case: it may have been accepted unheard.
            asked = await self.manager.cancel(sequence.pool, sequence.uuid, attachment)
            log.info("hung up", id=sequence.uuid.hex(), ends=bool(asked) or not sequence.accepted)
        finally:
            self.release(sequence)

    async def go_on_alone(self, sequence: Sequence) -> None:
        """A client is gone that wants its generation to go on: see to it until it is accepted."""
        news = asyncio.Event()
        sequence.listeners.add(news)
        while not (sequence.accepted or sequence.is_over):
            news.clear()
            await news.wait()
        sequence.listeners.discard(news)
        self.release(sequence)

    async def end_at(self, sequence: Sequence, length: int) -> None:
        """A stop string was found: the sequence ends at so many tokens, under whichever handle it has by then."""
        handle = sequence.handle
        while not sequence.is_over and not await self.manager.set_final_length(sequence.pool, handle, length):
            found = await self.manager.look_up(sequence.pool, uuid=sequence.uuid)
            if found is None or found.WhichOneof("found") == "finished":
                break
            handle = found.live.handle

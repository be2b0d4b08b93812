"""The engines of this machine: found by their sockets, one link to each."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import structlog

from executor.frontend.engine_link import EngineLink
from executor.frontend.sequence import Sequence
from pagehold.engine.v1 import description_pb2

LOOK_SECONDS = 0.2
"""How often the folder of sockets is looked at."""

log = structlog.get_logger()
Described = Callable[[description_pb2.DescribeResponse], Awaitable[None]]


class Engines:
    """Links to every engine that there is. One that is gone stays as long as something of it may come back."""

    def __init__(self, folder: Path, door: str, heartbeat_seconds: float, keep_seconds: float) -> None:
        self._folder, self._door = folder, door
        self._heartbeat_seconds, self._keep_seconds = heartbeat_seconds, keep_seconds
        self._links: dict[str, EngineLink] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.on_described: Described | None = None
        """Awaited whenever an engine has said what it is, before anything is submitted to it."""

    def __iter__(self) -> Iterator[EngineLink]:
        return iter(list(self._links.values()))

    def link(self, name: str) -> EngineLink | None:
        """The link to an engine."""
        return self._links.get(name)

    def link_of(self, sequence: Sequence) -> EngineLink | None:
        """The link on which a sequence is."""
        return next((link for link in self if link.has(sequence)), None)

    def find(self, uuid: bytes) -> Sequence | None:
        """A sequence on any link, by its UUID."""
        return next((link.sequences[uuid] for link in self if uuid in link.sequences), None)

    def is_ready(self, link: EngineLink) -> bool:
        """Whether an engine can be given work: it is there, and its last sign of life is recent."""
        return link.connected and link.age is not None and link.age < self._heartbeat_seconds

    def ready(self, model: str | None = None) -> list[EngineLink]:
        """The engines that can be given work, of one model or of any, the least busy first."""
        links = [link for link in self if self.is_ready(link) and model in (None, model_of(link))]
        return sorted(links, key=lambda link: (link.load.draining, link.pressure))

    async def run(self) -> None:
        """Look for engines until cancelled."""
        try:
            while True:
                try:
                    self._look()
                except OSError as error:
                    # Out of descriptors, perhaps: the next look may do better, and links go on.
                    log.error("cannot look for engines", folder=str(self._folder), error=str(error))
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _look(self) -> None:
        found = {path.stem: path for path in self._folder.glob("*.sock")}
        for name, path in found.items():
            if name not in self._links:
                self._links[name] = link = EngineLink(path, self._door, self._described)
                self._tasks[name] = asyncio.create_task(self._keep(link))
        for link in self:
            lost = not link.connected and time.monotonic() - link.lost_since > self._keep_seconds
            if link.name not in found and lost and not link.sequences:
                del self._links[link.name]
                self._tasks.pop(link.name).cancel()

    async def _keep(self, link: EngineLink) -> None:
        """Run a link; a fault of its own must not end it, since requests are waiting behind it."""
        while True:
            try:
                await link.run()
            except Exception:
                log.exception("link to an engine failed", engine=link.name)
            await asyncio.sleep(LOOK_SECONDS)

    async def _described(self, description: description_pb2.DescribeResponse) -> None:
        if self.on_described is not None:
            await self.on_described(description)


def pool_of(link: EngineLink) -> str | None:
    """Name of an engine's pool; None: it was never heard."""
    return None if link.description is None else link.description.pool.name


def model_of(link: EngineLink) -> str | None:
    """Name of an engine's model; None: it was never heard."""
    return None if link.description is None else link.description.model.name

"""How full the pool is while a run lasts, and how much of it is empty space in blocks."""

import asyncio
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from pagehold.client import AsyncClient, PageholdError
from pagehold.client.admin import AdminClient, AdminError


@dataclass(frozen=True, slots=True)
class Sample:
    """A look at the manager: parts of one, and sequences."""

    occupied: float
    """Blocks that sequences hold, of the usable ones."""
    used: float
    """Tokens in them, of those that the usable pool has room for."""
    wasted: float
    """Room in the blocks held that no token is in."""
    blocks: int
    """Blocks that sequences hold."""
    tokens: int
    """Tokens that these have room for."""
    live: int


@dataclass
class PoolWatch:
    """Looks at manager and server until it is cancelled. What cannot be had is left out, and ``missing`` says why."""

    admin_address: str
    pool: str | None = None
    every: float = 0.5
    """Seconds between looks."""
    samples: list[Sample] = field(default_factory=list)
    running: int = 0
    """Most sequences that the engine computed at once."""
    waiting: int = 0
    """Most requests that waited for it at once."""
    least_free: float = 1.0
    """Least part of the pool that was free or could be evicted, as the server says it."""
    asked: int = 0
    missing: str = ""

    async def look(self, client: AsyncClient) -> None:
        """Look until cancelled."""
        await asyncio.gather(self._look_at_manager(), self._look_at_server(client))

    async def _look_at_manager(self) -> None:
        try:
            async with AdminClient(self.admin_address, self.pool) as admin:
                async for answer in admin.watch_stats(self.every):
                    self._take(answer.stats)
        except AdminError as error:
            self.missing = str(error)

    def _take(self, stats: Any) -> None:
        use, geometry = stats.sequences, stats.geometry
        self.samples.append(
            Sample(
                occupied=use.blocks_in_use / max(1, geometry.device_blocks - 1),
                used=use.utilisation,
                wasted=use.internal_fragmentation,
                blocks=use.blocks_in_use,
                tokens=use.blocks_in_use * geometry.tokens_per_block,
                live=use.live + use.orphaned,
            )
        )

    async def _look_at_server(self, client: AsyncClient) -> None:
        while True:
            began = time.monotonic()
            try:
                load = await client.load(timeout=self.every)
            except PageholdError:
                # It is busy, or has just been killed: the next look may find it.
                pass
            else:
                self.asked += 1
                self.running, self.waiting = max(self.running, load.running), max(self.waiting, load.waiting)
                # While no engine is connected nothing is known of its pool.
                if load.blocks:
                    self.least_free = min(self.least_free, load.free_blocks / load.blocks)
            await asyncio.sleep(max(0.0, self.every - (time.monotonic() - began)))

    def figures(self) -> dict[str, Any]:
        """Means and extremes over the looks at which there was anything in the pool; None where there was none."""
        found: dict[str, Any] = {"samples": len(self.samples), "mean": None, "peak": None}
        if held := [one for one in self.samples if one.live]:
            names = ("occupied", "used", "wasted")
            found["mean"] = {name: sum(getattr(one, name) for one in held) / len(held) for name in names}
            found["peak"] = asdict(max(held, key=lambda one: one.occupied))
        if self.asked:
            found |= {
                "most_running": self.running,
                "most_waiting": self.waiting,
                "most_taken": 1.0 - self.least_free,
            }
        return found | ({"missing": self.missing} if self.missing else {})

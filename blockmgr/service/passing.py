"""What a manager passes on the descriptor socket, and what executors give back to one that came up without its memory."""

import asyncio
import os

import structlog

from blockmgr.core.errors import StaleEpoch
from blockmgr.descriptors import DescriptorError, DescriptorServer, Offer
from blockmgr.presence import executors_present
from blockmgr.processes import Process
from blockmgr.service.errors import DescriptorsWanted, NotServing
from blockmgr.service.manager import Manager

log = structlog.get_logger()


class DescriptorPassing:
    """The policy behind the descriptor socket. Owns what is given back until that is taken with ``wait_for_returns``."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self.why_not: NotServing | None = NotServing("the manager is starting")
        """Why nothing is served just now; None: everything is."""
        self._returned: dict[str, list[int]] = {}
        self._returned_by: set[str] = set()
        self._new_return = asyncio.Event()

    def server(self) -> DescriptorServer:
        """The socket, to be started."""
        return DescriptorServer(
            self._manager.settings.descriptor_socket,
            on_introduce=self._on_introduce,
            on_fetch=self._on_fetch,
            on_return=self._on_return,
            on_ledger=self._on_ledger,
        )

    async def wait_for_returns(self, stop: asyncio.Event) -> dict[str, list[int]]:
        """With no descriptors but live executors: wait until each has given back what it holds, or the time is over.

        The caller owns the descriptors. Asked to ``stop`` meanwhile it must not start with them: the next one waits again.
        """
        settings = self._manager.settings
        deadline = asyncio.get_running_loop().time() + settings.return_seconds
        while waiting := executors_present(settings.runtime_dir) - self._returned_by:
            if not isinstance(self.why_not, DescriptorsWanted):
                log.warning("waiting for executors to give back the memory they hold", executors=sorted(waiting))
                self.why_not = DescriptorsWanted("the manager has lost its memory: give back the descriptors you hold")
            left = deadline - asyncio.get_running_loop().time()
            if stop.is_set():
                break
            if left <= 0:
                log.error("starting without what executors hold", executors=sorted(waiting))
                break
            self._new_return.clear()
            try:
                await asyncio.wait_for(self._new_return.wait(), min(left, 0.2))
            except TimeoutError:
                continue
        self.why_not = NotServing("the manager is starting")
        return self._returned

    def _on_introduce(self, instance: str, processes: list[Process]) -> None:
        self._manager.members.introduce(bytes.fromhex(instance), processes)

    def _on_fetch(self, instance: str, epoch: int, pool: str) -> list[Offer]:
        # Before the ledger is taken up every epoch would look stale.
        self._ensure_serving()
        try:
            member = self._manager.hear(epoch)
            managed = self._manager.pool_of(epoch)
        except StaleEpoch as error:
            raise DescriptorError("stale-epoch", str(error)) from error
        if member.instance.hex() != instance or managed.name != pool:
            raise DescriptorError("not-allowed", f"epoch {epoch} is not of this instance, or not of pool {pool!r}")
        return managed.offers(self._manager.redo.descriptor)

    def _on_ledger(self, pool: str | None) -> Offer:
        self._ensure_serving()
        pools = self._manager.pools
        if pool is None and len(pools) > 1:
            raise DescriptorError("several-pools", f"one of {', '.join(pools)} has to be named")
        managed = next(iter(pools.values()), None) if pool is None else pools.get(pool)
        if managed is None:
            raise DescriptorError("unknown-pool", f"there is no pool {pool!r}" if pool else "there is no pool yet")
        return managed.ledger_offer()

    def _on_return(self, instance: str, descriptors: list[tuple[str, int]]) -> None:
        if not isinstance(self.why_not, DescriptorsWanted):
            raise DescriptorError("not-wanted", "this manager has its memory, or did without")
        for name, descriptor in descriptors:
            if name in self._returned:
                os.close(descriptor)
            else:
                self._returned[name] = [descriptor]
        self._returned_by.add(instance)
        self._new_return.set()

    def _ensure_serving(self) -> None:
        if self.why_not is not None:
            raise DescriptorError("not-serving", str(self.why_not))

"""The process: a manager behind its sockets, from the first descriptor taken up to the last call finished."""

import asyncio
import gc
import os
import signal
from contextlib import ExitStack
from typing import Any

import structlog
import uvloop
from grpc_health.v1 import health_pb2

from blockmgr.configuration import WRONG_SETTINGS, WrongSetting
from blockmgr.core.errors import BlockManagerError
from blockmgr.inherited import inherited_descriptors
from blockmgr.notify import Notifier, NotifyError, say_why_it_ends, watchdog_interval
from blockmgr.service.admin import AdminServicer
from blockmgr.service.admin.stats import pool_stats
from blockmgr.service.block_manager import BlockManagerServicer
from blockmgr.service.codec import encode_reply
from blockmgr.service.deposits import REDO
from blockmgr.service.errors import NotServing
from blockmgr.service.leases import LeaseWatch
from blockmgr.service.logs import configure_logs
from blockmgr.service.manager import Manager
from blockmgr.service.metrics import serve_metrics
from blockmgr.service.passing import DescriptorPassing
from blockmgr.service.runtime_folder import take_runtime_dir, usable
from blockmgr.service.servers import Servers
from blockmgr.service.settings import ManagerSettings
from blockmgr.service.takeup import take_up
from pagehold.admin.v1 import stats_pb2

log = structlog.get_logger()


class ManagerProcess:
    """Starts, serves and stops one manager. ``run`` is the whole life."""

    def __init__(self, settings: ManagerSettings) -> None:
        self.settings = settings
        self.notifier, self._watchdog = _service_manager()
        self.manager = Manager(settings, self.notifier, encode_reply)
        self._passing = DescriptorPassing(self.manager)
        self._servicer = BlockManagerServicer(self.manager)
        self._servicer.why_not = lambda: self._passing.why_not
        self._admin = AdminServicer(self.manager)
        self._servers = Servers(self._servicer, self._admin)
        self._metrics = ExitStack()
        self._stop = asyncio.Event()
        self._now = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._lease_watch: asyncio.Task[None] | None = None
        self._deposit_due = False
        """Whether the descriptor store lacks what this manager holds."""

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; a second signal stops at once. Raises what keeps the manager from starting."""
        # Ahead of whatever can be seen of it: whoever sees it may ask for its end.
        self._watch_signals()
        lock = take_runtime_dir(self.settings.runtime_dir)
        descriptors = inherited_descriptors()
        socket = self._passing.server()
        with usable(self.settings.runtime_dir):
            await socket.start()
            self._servers.bind_executors(self.settings.executor_socket)
        self._servers.bind_operators(self.settings.admin_address)
        self._serve_metrics()
        await self._servers.start()
        try:
            returned = await self._passing.wait_for_returns(self._stop) if REDO not in descriptors else {}
            # Asked to stop while executors were waited for, it must not start cold: the next one waits again.
            if not self._stop.is_set():
                self._deposit_due = bool(returned)
                await take_up(self.manager, _merged(descriptors, returned))
                await self._open()
                await self._stop.wait()
                await self._close()
        finally:
            for task in self._tasks:
                task.cancel()
            await socket.stop()
            await self._servers.stop(0)
            # In a thread: a scrape under way waits for this loop.
            await asyncio.to_thread(self._metrics.close)
            self.manager.close()
            lock.close()

    def _serve_metrics(self) -> None:
        if not self.settings.metrics_port:
            return

        def stats() -> list[stats_pb2.PoolStats]:
            return [pool_stats(managed) for managed in self.manager.pools.values()]

        self._metrics.callback(serve_metrics(stats, asyncio.get_running_loop(), self.settings.metrics_port))

    async def _open(self) -> None:
        """Everything is taken up: serve, and say so."""
        await self._deposit_if_due()
        self._passing.why_not = None
        self._lease_watch = asyncio.create_task(LeaseWatch(self.manager).run())
        self._tasks += [self._lease_watch, asyncio.create_task(self._show_signs_of_life())]
        # What is there by now lives as long as the process: the garbage collector need not go through it again and again.
        gc.collect()
        gc.freeze()
        await self._servers.set_health(health_pb2.HealthCheckResponse.SERVING)
        self.notifier.ready()
        log.info("serving", executors=str(self.settings.executor_socket), epoch=self.manager.epoch)

    async def _close(self) -> None:
        """Not serving first, then no new work, then what is under way, then the end."""
        log.info("stopping", grace=self.settings.stop_grace)
        why_not = NotServing("the manager is stopping; its successor goes on with the same state")
        self._passing.why_not = why_not
        await self._servers.set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        self.notifier.stopping()
        if self._lease_watch is not None:
            # Whoever cannot be heard any more must not be taken for dead; whether anybody is, the next manager sees.
            self._lease_watch.cancel()
        self._servicer.end_sessions(why_not)
        self._admin.end_streams()
        finished = asyncio.ensure_future(self._servers.stop(self.settings.stop_grace))
        at_once = asyncio.ensure_future(self._now.wait())
        waiting: set[asyncio.Future[Any]] = {finished, at_once}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        at_once.cancel()

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        (self._now if self._stop.is_set() else self._stop).set()

    async def _show_signs_of_life(self) -> None:
        """Ping the watchdog from the loop itself, so that a loop that is stuck is noticed; and notice a new keeper."""
        interval = (self._watchdog or 2.0) / 2
        while True:
            self.notifier.watchdog()
            self._deposit_due |= self.notifier.replaced()
            await self._deposit_if_due()
            await asyncio.sleep(interval)

    async def _deposit_if_due(self) -> None:
        """Give a descriptor store that knows nothing all there is; one that does not answer is tried again later."""
        if not self._deposit_due:
            return
        try:
            await self.manager.deposit_everything()
            self._deposit_due = False
        except NotifyError as error:
            log.error("the descriptor store does not answer", error=str(error))


def _service_manager() -> tuple[Notifier, float | None]:
    """Whoever started this process and keeps its descriptors; and the seconds within which it wants signs of life."""
    try:
        return Notifier.from_environment(), watchdog_interval()
    except NotifyError as error:
        raise WrongSetting(str(error)) from error


def _merged(stored: dict[str, list[int]], returned: dict[str, list[int]]) -> dict[str, list[int]]:
    """Descriptors from both; of what both have, executors' copies are taken and the store's are closed."""
    for name in stored.keys() & returned.keys():
        for descriptor in stored[name]:
            os.close(descriptor)
    return stored | returned


def serve(settings: ManagerSettings) -> int:
    """Run a manager in this process; returns the exit code."""
    configure_logs(settings.log_level, settings.log_format)
    try:
        uvloop.run(_live(settings))
    except (BlockManagerError, NotifyError, WrongSetting) as error:
        log.error("cannot serve", error=str(error))
        say_why_it_ends(str(error))
        return WRONG_SETTINGS if isinstance(error, WrongSetting) else 1
    return 0


async def _live(settings: ManagerSettings) -> None:
    """One manager's whole life, its servers' making included, which needs the loop that they run on."""
    await ManagerProcess(settings).run()

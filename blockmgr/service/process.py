"""The process: a manager behind its sockets, from the first descriptor taken up to the last call finished."""

import asyncio
import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import grpc
import structlog
import uvloop
from grpc_channelz.v1 import channelz
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from blockmgr.configuration import WRONG_SETTINGS, WrongSetting, may_pass
from blockmgr.core.errors import BlockManagerError, Precondition, StaleEpoch
from blockmgr.descriptors import DescriptorError, DescriptorServer, Offer
from blockmgr.notify import Notifier, NotifyError, inherited_descriptors, say_why_it_ends, watchdog_interval
from blockmgr.presence import executors_present
from blockmgr.processes import Process
from blockmgr.service import block_manager
from blockmgr.service.addresses import ensure_free
from blockmgr.service.admin import AdminServicer, add_to_server
from blockmgr.service.codec import encode_reply
from blockmgr.service.errors import DescriptorsWanted, NotServing
from blockmgr.service.leases import LeaseWatch
from blockmgr.service.manager import Manager
from blockmgr.service.settings import ManagerSettings
from pagehold.admin.v1 import admin_service_pb2
from pagehold.blockmgr.v1 import block_manager_service_pb2

log = structlog.get_logger()

MESSAGE_BYTES = 16 << 20
OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    # Executors and operators may ping while nothing else moves.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
    ("grpc.http2.max_ping_strikes", 0),
]


class ManagerProcess:
    """Starts, serves and stops one manager. ``run`` is the whole life."""

    def __init__(self, settings: ManagerSettings) -> None:
        self.settings = settings
        self.notifier, self._watchdog = _service_manager()
        self.manager = Manager(settings, self.notifier, encode_reply)
        self._servicer = block_manager.BlockManagerServicer(self.manager)
        self._admin = AdminServicer(self.manager)
        self._servicer.why_not = lambda: self._why_not
        self._why_not: NotServing | None = NotServing("the manager is starting")
        self._returned: dict[str, list[int]] = {}
        self._returned_by: set[str] = set()
        self._new_return = asyncio.Event()
        self._stop = asyncio.Event()
        self._now = asyncio.Event()
        self._health = (HealthServicer(), HealthServicer())
        self._tasks: list[asyncio.Task[None]] = []
        self._lease_watch: asyncio.Task[None] | None = None
        self._deposit_due = False
        """Whether the descriptor store lacks what this manager holds."""

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; a second signal stops at once. Raises what keeps the manager from starting."""
        lock = take_runtime_dir(self.settings.runtime_dir)
        descriptors = inherited_descriptors()
        passing = DescriptorServer(
            self.settings.descriptor_socket,
            on_introduce=self._on_introduce,
            on_fetch=self._on_fetch,
            on_return=self._on_return,
            on_ledger=self._on_ledger,
        )
        self._watch_signals()
        with usable(self.settings.runtime_dir):
            await passing.start()
            executors = self._executor_server()
        operators = self._operator_server()
        await executors.start()
        await operators.start()
        try:
            # The redo log is deposited last: with it, everything has come back.
            returned = await self._wait_for_returns() if "redo" not in descriptors else {}
            # Asked to stop while executors were waited for, it must not start cold: the next one waits again.
            if not self._stop.is_set():
                self._deposit_due = bool(returned)
                await self.manager.start(_merged(descriptors, returned))
                await self._open()
                await self._stop.wait()
                await self._close(executors, operators)
        finally:
            for task in self._tasks:
                task.cancel()
            await passing.stop()
            await executors.stop(0)
            await operators.stop(0)
            self.manager.close()
            lock.close()

    # -- servers -----------------------------------------------------------------------------------------------------

    def _executor_server(self) -> grpc.aio.Server:
        server = grpc.aio.server(options=OPTIONS)
        block_manager.add_to_server(self._servicer, server)
        name = block_manager_service_pb2.DESCRIPTOR.services_by_name["BlockManagerService"].full_name
        self._add_common(server, self._health[0], name)
        path = self.settings.executor_socket
        path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            server.add_insecure_port(f"unix:{path}")
        finally:
            os.umask(mask)
        return server

    def _operator_server(self) -> grpc.aio.Server:
        server = grpc.aio.server(options=OPTIONS)
        add_to_server(self._admin, server)
        channelz.add_channelz_servicer(server)  # type: ignore[arg-type]
        name = admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name
        self._add_common(server, self._health[1], name)
        address = self.settings.admin_address
        ensure_free(address)
        try:
            port = server.add_insecure_port(address)
        except RuntimeError as error:
            raise Precondition(f"admin_address is {address}, but it cannot be bound: {error}") from error
        log.info("operators' port", address=address if address.startswith("unix:") else f"port {port}")
        return server

    @staticmethod
    def _add_common(server: grpc.aio.Server, servicer: HealthServicer, name: str) -> None:
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        services = [name, health.SERVICE_NAME, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(services, server)

    # -- start and stop ----------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        """Everything is taken up: serve, and say so."""
        await self._deposit_if_due()
        self._why_not = None
        self._lease_watch = asyncio.create_task(LeaseWatch(self.manager).run())
        self._tasks += [self._lease_watch, asyncio.create_task(self._show_signs_of_life())]
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)
        self.notifier.ready()
        log.info("serving", executors=str(self.settings.executor_socket), epoch=self.manager.epoch)

    async def _close(self, executors: grpc.aio.Server, operators: grpc.aio.Server) -> None:
        """Not serving first, then no new work, then what is under way, then the end."""
        log.info("stopping", grace=self.settings.stop_grace)
        self._why_not = NotServing("the manager is stopping; its successor goes on with the same state")
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        self.notifier.stopping()
        if self._lease_watch is not None:
            # Whoever cannot be heard any more must not be taken for dead; whether anybody is, the next manager sees.
            self._lease_watch.cancel()
        self._servicer.end_sessions(self._why_not)
        self._admin.end_streams()
        stops = (executors.stop(self.settings.stop_grace), operators.stop(self.settings.stop_grace))
        finished = asyncio.ensure_future(asyncio.gather(*stops))
        at_once = asyncio.ensure_future(self._now.wait())
        waiting: set[asyncio.Future[Any]] = {finished, at_once}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        at_once.cancel()

    async def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for servicer in self._health:
            await servicer.set("", status)

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

    # -- descriptors -------------------------------------------------------------------------------------------------

    def _on_introduce(self, instance: str, processes: list[Process]) -> None:
        self.manager.members.introduce(bytes.fromhex(instance), processes)

    def _on_fetch(self, instance: str, epoch: int, pool: str) -> list[Offer]:
        if self._why_not is not None:
            # Before the ledger is taken up every epoch would look stale.
            raise DescriptorError("not-serving", str(self._why_not))
        try:
            member = self.manager.hear(epoch)
            managed = self.manager.pool_of(epoch)
        except StaleEpoch as error:
            raise DescriptorError("stale-epoch", str(error)) from error
        if member.instance.hex() != instance or managed.name != pool:
            raise DescriptorError("not-allowed", f"epoch {epoch} is not of this instance, or not of pool {pool!r}")
        return managed.offers(self.manager.redo.descriptor)

    def _on_ledger(self, pool: str | None) -> Offer:
        if self._why_not is not None:
            raise DescriptorError("not-serving", str(self._why_not))
        pools = self.manager.pools
        if pool is None and len(pools) > 1:
            raise DescriptorError("several-pools", f"one of {', '.join(pools)} has to be named")
        managed = next(iter(pools.values()), None) if pool is None else pools.get(pool)
        if managed is None:
            raise DescriptorError("unknown-pool", f"there is no pool {pool!r}" if pool else "there is no pool yet")
        return managed.ledger_offer()

    def _on_return(self, instance: str, descriptors: list[tuple[str, int]]) -> None:
        if not isinstance(self._why_not, DescriptorsWanted):
            raise DescriptorError("not-wanted", "this manager has its memory, or did without")
        for name, descriptor in descriptors:
            if name in self._returned:
                os.close(descriptor)
            else:
                self._returned[name] = [descriptor]
        self._returned_by.add(instance)
        self._new_return.set()

    async def _wait_for_returns(self) -> dict[str, list[int]]:
        """With no descriptors but live executors: wait until each has given back what it holds, or the time is over."""
        deadline = asyncio.get_running_loop().time() + self.settings.return_seconds
        while waiting := executors_present(self.settings.runtime_dir) - self._returned_by:
            if self._why_not is None or not isinstance(self._why_not, DescriptorsWanted):
                log.warning("waiting for executors to give back the memory they hold", executors=sorted(waiting))
                self._why_not = DescriptorsWanted("the manager has lost its memory: give back the descriptors you hold")
            left = deadline - asyncio.get_running_loop().time()
            if self._stop.is_set():
                break
            if left <= 0:
                log.error("starting without what executors hold", executors=sorted(waiting))
                break
            self._new_return.clear()
            try:
                await asyncio.wait_for(self._new_return.wait(), min(left, 0.2))
            except TimeoutError:
                continue
        self._why_not = NotServing("the manager is starting")
        return self._returned


def _merged(stored: dict[str, list[int]], returned: dict[str, list[int]]) -> dict[str, list[int]]:
    """Descriptors from both; of what both have, executors' copies are taken and the store's are closed."""
    for name in stored.keys() & returned.keys():
        for descriptor in stored[name]:
            os.close(descriptor)
    return stored | returned


def _service_manager() -> tuple[Notifier, float | None]:
    """Whoever started this process and keeps its descriptors; and the seconds within which it wants signs of life."""
    try:
        return Notifier.from_environment(), watchdog_interval()
    except NotifyError as error:
        raise WrongSetting(str(error)) from error


@contextmanager
def usable(runtime_dir: Path) -> Iterator[None]:
    """For what is made in the runtime folder: raises ``WrongSetting``, naming it, where that is not possible.

    ``Precondition`` where it is not possible just now. gRPC raises no OSError for a socket that cannot be bound.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        kind = WrongSetting if isinstance(error, OSError) and not may_pass(error) else Precondition
        raise kind(f"runtime_dir is {runtime_dir}, but it cannot be used: {error}") from error


def take_runtime_dir(path: Path) -> IO[str]:
    """Lock the runtime folder for this manager.

    Raises ``Precondition`` if another one serves there, ``WrongSetting`` if none can.
    """
    with usable(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = open(path / "blockmgr.lock", "a+")  # noqa: SIM115 - the lock, held for as long as the process serves
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise Precondition(f"a manager (process {holder}) already serves in {path}") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def serve(settings: ManagerSettings) -> int:
    """Run a manager in this process; returns the exit code."""
    configure_logs(settings)
    try:
        uvloop.run(ManagerProcess(settings).run())
    except (BlockManagerError, NotifyError, WrongSetting) as error:
        log.error("cannot serve", error=str(error))
        say_why_it_ends(str(error))
        return WRONG_SETTINGS if isinstance(error, WrongSetting) else 1
    return 0


def configure_logs(settings: ManagerSettings) -> None:
    """Structured logs to standard error."""
    import logging

    level = getattr(logging, settings.log_level.upper())
    logging.basicConfig(level=level, stream=sys.stderr, format="%(message)s")
    renderer: Any = (
        structlog.processors.JSONRenderer() if settings.log_format == "json" else structlog.dev.ConsoleRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )

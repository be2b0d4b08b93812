"""The process: a door behind its sockets, from the first engine heard to the last stream finished."""

import asyncio
import contextlib
import signal
import time

import structlog
import uvloop

from blockmgr.addresses import ensure_free
from blockmgr.configuration import WrongSetting
from blockmgr.core.errors import Precondition
from blockmgr.notify import Notifier, watchdog_interval
from executor.frontend.door import Door
from executor.frontend.errors import NotServing
from executor.frontend.logs import configure_logs
from executor.frontend.readiness import Readiness
from executor.frontend.server import SERVICE, client_server, operator_server
from executor.frontend.service import InferenceServicer
from executor.frontend.settings import DoorSettings

END_SECONDS = 5.0
"""How long streams that are told to end may take for it, from then on."""

UNTIL_TOLD = 3600.0
"""Seconds for which a stopped server leaves calls alone: they are ended here."""

log = structlog.get_logger()


class CannotBind(Exception):
    """The address for clients cannot be had just now."""


class DoorProcess:
    """Starts, serves and stops one door. ``run`` is its whole life."""

    def __init__(self, settings: DoorSettings) -> None:
        self._settings = settings
        self._stop, self._now = asyncio.Event(), asyncio.Event()
        # Ahead of the sockets: whoever sees one may ask for the end.
        self._watch_signals()
        self._notifier = Notifier.from_environment()
        self._door = Door(settings)
        self._readiness = Readiness(self._door, SERVICE)
        servicer = InferenceServicer(self._door)
        self._clients = client_server(servicer, self._readiness)
        self._check_free()
        self._operators = operator_server(servicer, self._readiness, settings.own_socket)
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; a second signal stops at once. Raises CannotBind or what start-up met."""
        self._door.start()
        self._tasks = [asyncio.create_task(work) for work in (self._readiness.run(), self._show_signs_of_life())]
        if self._settings.metrics_port:
            self._door.metrics.serve(self._settings.metrics_port)
        try:
            await self._operators.start()
            if await self._await_engine():
                await self._open()
                await self._stop.wait()
                await self._close()
        finally:
            for task in self._tasks:
                task.cancel()
            await self._clients.stop(0)
            await self._operators.stop(0)
            await self._door.close()
            self._settings.own_socket.unlink(missing_ok=True)

    def _check_free(self) -> None:
        """Say in a line of our own what cannot be bound, and take no socket from a living door."""
        settings = self._settings
        ensure_free(f"unix:{settings.own_socket}", f"name is {settings.name}: its socket")
        ensure_free(settings.address, "address", shared=True)

    async def _await_engine(self) -> bool:
        """Where doors share a port, one that knows no engine yet must not be given clients that another could serve.

        False: it was asked to stop meanwhile.
        """
        known = asyncio.ensure_future(self._door.models.known())
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((known, stopped), return_when=asyncio.FIRST_COMPLETED)
        known.cancel()
        stopped.cancel()
        with contextlib.suppress(NotServing, asyncio.CancelledError):
            await known
        return not self._stop.is_set()

    async def _open(self) -> None:
        address = self._settings.address
        try:
            port = self._clients.add_insecure_port(address)
        except RuntimeError as error:
            raise CannotBind(f"address is {address}, but it cannot be bound: {error}") from error
        await self._clients.start()
        self._notifier.ready()
        log.info("serving", address=address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}")

    async def _close(self) -> None:
        """Not serving first, then nothing new, then what is under way, then the end."""
        grace = self._settings.grace
        log.info("stopping", grace=grace, in_flight=self._door.places.taken)
        await self._readiness.close()
        self._notifier.stopping()
        self._door.places.close("this front door is stopping")
        deadline = time.monotonic() + grace
        # Health goes on answering for a while, so that whoever watches it sees that this door does not serve; then the
        # port is left to other doors, to which clients are sent on.
        await self._idle_until(min(deadline, time.monotonic() + self._settings.announce_seconds))
        left = max(deadline - time.monotonic(), 0.0)
        stopped = asyncio.create_task(self._stop_servers(left + UNTIL_TOLD))
        await self._idle_until(deadline)
        self._door.leave()
        at_once = asyncio.create_task(self._now.wait())
        # Counted from here: a process that was held up until now has not told its streams anything yet.
        await asyncio.wait((stopped, at_once), timeout=END_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        at_once.cancel()
        stopped.cancel()
        await asyncio.gather(at_once, stopped, return_exceptions=True)

    async def _stop_servers(self, grace: float) -> None:
        await asyncio.gather(self._clients.stop(grace), self._operators.stop(grace))

    async def _idle_until(self, deadline: float) -> None:
        """Until nothing is in flight, the time is over, or a second signal has come."""
        waiting = [asyncio.create_task(event.wait()) for event in (self._door.places.idle, self._now)]
        left = max(deadline - time.monotonic(), 0.0)
        await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        (self._now if self._stop.is_set() else self._stop).set()

    async def _show_signs_of_life(self) -> None:
        """Ping the watchdog from the loop itself, so that a loop that is stuck is noticed."""
        interval = (watchdog_interval() or 2.0) / 2
        while True:
            self._notifier.watchdog()
            await asyncio.sleep(interval)


def serve(settings: DoorSettings) -> int:
    """Run a door in this process; returns the exit code. Raises WrongSetting where its sockets can never be had."""
    configure_logs(settings)
    try:
        uvloop.run(_run(settings))
    except (CannotBind, Precondition, OSError) as error:
        log.error("cannot serve", error=str(error))
        return 1
    return 0


async def _run(settings: DoorSettings) -> None:
    try:
        settings.runtime_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        settings.own_socket.parent.mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise WrongSetting(f"runtime_dir is {settings.runtime_dir}, which cannot be made: {error.strerror}") from error
    await DoorProcess(settings).run()

"""`pagehold up`: from the lock on the runtime folder to the end of the last process."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from blockmgr.addresses import ensure_free
from blockmgr.configuration import WRONG_SETTINGS
from blockmgr.keeper import ChildSettings
from blockmgr.keeper.runtime import recall
from blockmgr.notify import Notifier
from executor.launch.display import Display
from executor.launch.ending import end_leftovers
from executor.launch.lock import FolderLock
from executor.launch.plan import DOORS
from executor.launch.readiness import History, is_serving
from executor.launch.reasons import Log, describe_failure
from executor.launch.settings import LaunchSettings
from executor.launch.summary import figures_of, has_chat_template, status_line, summary_of
from executor.launch.supervision import Supervision
from pagehold.client.admin import AdminClient

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

LOOK_SECONDS, FIGURES_SECONDS = 0.1, 1.0
"""How often the processes are looked at, and the manager is asked for figures."""

FAILED = 1
"""Exit code where something did not come up, or did not end as it should."""


class Up:
    """One life of `pagehold up`. `run` is the whole of it."""

    def __init__(
        self,
        settings: LaunchSettings,
        children: Sequence[ChildSettings],
        display: Display,
        ready_descriptor: int | None = None,
    ) -> None:
        """Nothing is started yet; `children` is what the keeper is to run.

        `ready_descriptor` is written to once all is ready, for whoever waits for it and for nothing else; from then on
        this process says what it has to say in the log.
        """
        self._settings = settings
        self._folder = settings.up.runtime_dir
        self._children = children
        self._display = display
        self._ready_descriptor = ready_descriptor
        self._notifier = Notifier.from_environment()
        self._supervision = Supervision(self._folder, children, settings.up.log_path, display.tell)
        self._history = History(self._folder, [child.name for child in children])
        self._log = Log(settings.up.log_path)
        self._began = time.monotonic()
        self._is_stopping = False
        self._is_detached = False
        self._given_up = ""

    async def run(self) -> int:
        """Start everything, keep it running until asked to stop, end it; return the exit code.

        Raises:
            AlreadyUp: another one runs in the folder.
            StillThere: a keeper that is no `up`'s runs there.
            KeeperLost: no keeper could be kept running.
            Precondition: somebody else serves at the address for clients.
            WrongSetting: the folder or the address cannot be used.
        """
        self._lock = FolderLock(self._folder)
        try:
            self._watch_signals()
            await asyncio.to_thread(end_leftovers, self._folder, self._children, self._display.tell)
            self._ensure_address_is_free()
            watching = asyncio.create_task(self._watch())
            watching.add_done_callback(self._on_watch_ended)
            try:
                code = await self._supervision.run()
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
            self._look()
            return self._explain(code)
        finally:
            self._lock.close()

    def _ensure_address_is_free(self) -> None:
        """Doors share their port with whatever doors are there: those of another folder would answer our clients too."""
        found = [recall(self._folder, child.name) for child in self._children if child.stage == DOORS]
        own = [process for process in found if process is not None]
        for process in own:
            process.close()
        if not own:
            ensure_free(self._settings.door.address, "address")

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in STOPS:
            loop.add_signal_handler(number, self._stop)

    def _stop(self) -> None:
        """Stop in good order; asked again, at once."""
        is_again, self._is_stopping = self._is_stopping, True
        self._supervision.stop()
        self._notifier.stopping()
        self._display.tell("killing all" if is_again else "stopping: doors, then engines, then the manager")

    def _on_watch_ended(self, watching: asyncio.Task[None]) -> None:
        """It is cancelled in the end. Ended by a fault, nobody would notice any more what becomes of the others."""
        if not watching.cancelled():
            self._stop()

    # -- watching ----------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Follow the start until all serve, then how all are doing."""
        if await self._await_ready():
            await self._announce()
        async with AdminClient(self._settings.manager.admin_address, timeout=FIGURES_SECONDS) as client:
            while True:
                figures = "" if self._is_stopping else await figures_of(client)
                for _ in range(round(FIGURES_SECONDS / LOOK_SECONDS)):
                    self._look()
                    self._display.show_line(self._line(figures))
                    await asyncio.sleep(LOOK_SECONDS)

    async def _await_ready(self) -> bool:
        """Whether all became ready before they were asked to stop."""
        while not self._is_stopping:
            self._look()
            self._display.show_start(self._history.state)
            if self._history.state.is_ready and await is_serving(self._settings.door.address):
                return not self._is_stopping
            failed = self._history.state.find_failed(self._settings.up.attempts)
            if failed is not None:
                # The keeper would try for ever.
                reason = describe_failure(failed, self._log)
                self._given_up = f"{reason}\n{failed.name} ended {failed.deaths} times in a row: given up"
                self._stop()
            await asyncio.sleep(LOOK_SECONDS)
        return False

    def _look(self) -> None:
        if lost := self._lock.look():
            self._on_folder_lost(lost)
        for line in self._history.look(self._supervision.keeper):
            self._display.tell(line)

    def _on_folder_lost(self, text: str) -> None:
        """What was detached logs into the folder: its log is gone too."""
        if self._is_detached:
            self._display.leave_terminal(self._settings.up.log_path)
        self._display.tell(text)

    async def _announce(self) -> None:
        seconds = time.monotonic() - self._began
        chats = await has_chat_template(self._settings.door.address)
        self._display.print(summary_of(self._settings, chats))
        self._display.tell(f"ready after {seconds:.1f} s")
        self._notifier.ready()
        if self._ready_descriptor is not None:
            self._display.leave_terminal(self._settings.up.log_path)
            self._is_detached = True
            # Whoever waited may be gone; what it started is not.
            with suppress(BrokenPipeError):
                os.write(self._ready_descriptor, b"ready")
            os.close(self._ready_descriptor)

    def _line(self, figures: str) -> str:
        state = self._history.state
        if self._is_stopping:
            living = [name for name, child in state.children.items() if child.pid is not None]
            return f"stopping: {', '.join(living)}; Ctrl-C kills" if living else "stopped"
        return status_line(state, time.monotonic() - self._began, figures, self._history.restarts)

    # -- the end -----------------------------------------------------------------------------------------------------

    def _explain(self, code: int) -> int:
        """Say why all has ended, unless somebody wanted it; return the exit code."""
        if self._given_up:
            self._display.tell(self._given_up)
            return FAILED
        if code == WRONG_SETTINGS:
            hopeless = [child for child in self._history.state.children.values() if child.hopeless]
            for child in hopeless:
                self._display.tell(describe_failure(child, self._log))
            if not hopeless:
                self._display.tell("\n".join(["the keeper cannot be run:", *self._log.last_lines()]))
        elif code:
            self._display.tell("stopped, but not every process ended by itself")
        else:
            self._display.tell("stopped")
        return code

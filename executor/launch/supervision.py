"""The keeper of an `up`: started, started again when it dies, and asked to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from blockmgr.configuration import WRONG_SETTINGS
from blockmgr.keeper import ChildSettings, write_plan
from executor.launch.ending import KEEPER_SECONDS, PLAN, Tell, end_children

FAILURES, FAILURE_SECONDS = 5, 2.0
"""A keeper that dies so often in a row, each time sooner than so many seconds after its start, is given up."""


class KeeperLost(Exception):
    """No keeper can be kept running."""


class Supervision:
    """Keeps one keeper running. It ends with this process: it watches a descriptor of it.

    When the keeper dies nothing else does; the next one finds the children by what is written in the runtime folder.
    """

    def __init__(self, folder: Path, children: Sequence[ChildSettings], log: Path | None, tell: Tell) -> None:
        """Nothing is started yet. `log` is where keeper and children write; None: this process's standard error."""
        self._folder = folder
        self._children = children
        self._log = log
        self._tell = tell
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopping = False

    @property
    def keeper(self) -> int | None:
        """Process id of the keeper that runs, if one does."""
        return self._process.pid if self._process is not None else None

    async def run(self) -> int:
        """Run until the keeper has ended for good; return its exit code (see `Keeper.run`).

        Raises:
            KeeperLost: keepers die as soon as they are started. The children have been ended.
        """
        write_plan(self._folder / PLAN, self._children)
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            started = loop.time()
            code = await self._run_keeper()
            if code == WRONG_SETTINGS or (self._is_stopping and code >= 0):
                return code
            if self._is_stopping:
                await self._end_children()
                return 1
            failures = failures + 1 if loop.time() - started < FAILURE_SECONDS else 1
            if failures > FAILURES:
                await self._end_children()
                raise KeeperLost(f"{failures} keepers died one after the other, the last with code {code}")
            self._tell(f"the keeper ended with code {code}; the next one goes on with what runs")

    def stop(self) -> None:
        """Ask the keeper to stop all in good order; a second time, to kill all at once."""
        is_again, self._is_stopping = self._is_stopping, True
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            if is_again:
                # One that stands still hears nothing. What it leaves is ended without it.
                asyncio.get_running_loop().call_later(KEEPER_SECONDS, process.kill)

    async def _run_keeper(self) -> int:
        process = self._process = self._start()
        ended = asyncio.Event()
        loop, pidfd = asyncio.get_running_loop(), os.pidfd_open(process.pid)
        loop.add_reader(pidfd, ended.set)
        try:
            if self._is_stopping:
                # Asked to stop before there was anybody to ask.
                process.send_signal(signal.SIGTERM)
            await ended.wait()
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
        return process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        own = os.pidfd_open(os.getpid())
        command = [
            *(sys.executable, "-P", "-m", "blockmgr.keeper"),
            *("--runtime-dir", str(self._folder)),
            *("--plan", str(self._folder / PLAN)),
            *("--owner-pidfd", str(own)),
        ]
        log = self._open_log()
        try:
            # A session of its own: what is typed at the terminal is for this process to act on.
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[own], start_new_session=True
            )
        finally:
            os.close(own)
            if log is not None:
                log.close()

    def _open_log(self) -> BinaryIO | None:
        return None if self._log is None else self._log.open("ab")

    async def _end_children(self) -> None:
        await asyncio.to_thread(end_children, self._folder, self._children, self._tell)

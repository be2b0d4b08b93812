"""The commands' side: an `up` in this process or in one of its own, and a `down`; each returns an exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from blockmgr.core.errors import Precondition
from executor.launch.display import Display
from executor.launch.ending import StillThere, take_down
from executor.launch.lock import AlreadyUp
from executor.launch.plan import PAGEHOLD, children_of
from executor.launch.settings import LaunchSettings
from executor.launch.supervision import KeeperLost
from executor.launch.up import FAILED, Up


def run_up(settings: LaunchSettings, ready_descriptor: int | None = None) -> int:
    """Be the `up` of a runtime folder until asked to stop.

    Raises:
        WrongSetting: the runtime folder or the address cannot be used.
    """
    with Display() as display:
        try:
            return asyncio.run(Up(settings, children_of(settings), display, ready_descriptor).run())
        except (AlreadyUp, StillThere, KeeperLost, Precondition, OSError) as error:
            display.tell(f"up: {error}")
            return FAILED


def run_detached(settings: LaunchSettings) -> int:
    """Start an `up` in a session of its own, and return once all is ready or it has ended.

    It shows on this terminal how far it is. Ctrl-C stops it.
    """
    ours, theirs = os.pipe()
    command = [*PAGEHOLD, "up", *settings.flags(), "--ready-descriptor", str(theirs)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs], start_new_session=True)
    os.close(theirs)
    with open(ours, "rb") as ready:
        while True:
            try:
                if ready.read():
                    return 0
                return process.wait()
            except KeyboardInterrupt:
                process.send_signal(signal.SIGTERM)


def run_down(folder: Path, seconds: float) -> int:
    """End the `up` of a folder and whatever is left of it there; that there is none is no failure."""
    try:
        found = take_down(folder, seconds, lambda text: print(text, file=sys.stderr, flush=True))
    except (StillThere, OSError) as error:
        print(f"down: {error}", file=sys.stderr)
        return FAILED
    print("stopped" if found else f"nothing that `pagehold up` started runs in {folder}")
    return 0

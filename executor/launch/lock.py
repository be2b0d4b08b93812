"""The lock that makes an `up` the only one in its runtime folder, and by which `down` finds it."""

from __future__ import annotations

import os
from pathlib import Path

from blockmgr.configuration import WrongSetting, may_pass
from blockmgr.process_lock import LockHeld, ProcessLock, holder_of
from blockmgr.processes import Process, ProcessError

_NAME = "up.lock"


class AlreadyUp(Exception):
    """Another `up` holds the folder; `pid` is its process id, 0 if it did not say."""

    def __init__(self, folder: Path, pid: int) -> None:
        """Say who and where."""
        super().__init__(
            f"`pagehold up` already runs in {folder} (process {pid or 'unknown'}); `pagehold down` ends it"
        )
        self.pid = pid


def lock_folder(folder: Path) -> ProcessLock:
    """Make the folder if need be, for its owner alone, and lock it for this `up`. The caller owns the lock.

    Raises:
        AlreadyUp: another one runs there.
        WrongSetting: the folder cannot be made or written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return ProcessLock(folder / _NAME)
    except LockHeld as held:
        raise AlreadyUp(folder, held.pid) from None
    except OSError as error:
        if may_pass(error):
            raise
        raise WrongSetting(f"runtime_dir is {folder}, but it cannot be used: {error}") from error


class FolderLock:
    """The lock of a running `up`, made anew where somebody deletes its file, as what cleans /tmp does. `close` lets go."""

    def __init__(self, folder: Path) -> None:
        """Lock the folder. Raises what `lock_folder` does."""
        self._folder = folder
        self._lock = lock_folder(folder)
        self._is_lost = False

    def look(self) -> str:
        """See that `down` finds this `up`; return what is to be told, which is said once, or nothing.

        The lock made anew brings no socket back: what was deleted with it stays away until the next `up`.
        """
        if self._is_lost or self._lock.is_at(self._folder / _NAME):
            return ""
        deleted = f"{self._folder / _NAME} was deleted" if self._folder.exists() else f"{self._folder} was deleted"
        try:
            lock = lock_folder(self._folder)
        except (AlreadyUp, WrongSetting, OSError) as error:
            self._is_lost = True
            return (
                f"{deleted}, and cannot be made anew ({error}): only a signal to process {os.getpid()} ends this `up`"
            )
        self._lock.close()
        self._lock = lock
        return (
            f"{deleted} while this `up` runs, perhaps by what cleans /tmp. Who is connected is served on, but sockets that "
            "were there are gone: commands do not reach them, nor does what is started again. `pagehold down` ends all of "
            "it; set PAGEHOLD_RUNTIME_DIR to a folder that nobody cleans, and start it again"
        )

    def close(self) -> None:
        """Let go of it. May be repeated."""
        self._lock.close()


def find_up(folder: Path) -> Process | None:
    """The `up` that runs in a folder; the caller owns it. None if none does."""
    pid = holder_of(folder / _NAME)
    if not pid:
        return None
    try:
        process = Process.open(pid, "up")
    except ProcessError:
        return None
    # Still held by the process that was opened: its id has not passed to another meanwhile.
    if holder_of(folder / _NAME) == pid:
        return process
    process.close()
    return None

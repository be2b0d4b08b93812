"""The lock that makes an `up` the only one in its runtime folder, and by which `down` finds it."""

from __future__ import annotations

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

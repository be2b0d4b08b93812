"""The lock that makes an `up` the only one in its runtime folder, and by which `down` finds it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from blockmgr.configuration import WrongSetting, may_pass
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


class UpLock:
    """Held for as long as this process lives, or until `close`; the file says which process that is."""

    def __init__(self, folder: Path) -> None:
        """Make the folder if need be, for its owner alone, and lock it.

        Raises:
            AlreadyUp: another one runs there.
            WrongSetting: the folder cannot be made or written.
        """
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if may_pass(error):
                raise
            raise WrongSetting(f"runtime_dir is {folder}, but it cannot be used: {error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _pid_in(self._file)
            os.close(self._file)
            raise AlreadyUp(folder, pid) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._file)


def find_up(folder: Path) -> Process | None:
    """The `up` that runs in a folder; the caller owns it. None if none does."""
    try:
        file = os.open(folder / _NAME, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if not _is_held(file):
            return None
        process = Process.open(_pid_in(file), "up")
        # Still held by the process that was opened: its id has not passed to another meanwhile.
        if _is_held(file) and _pid_in(file) == process.pid:
            return process
        process.close()
    except ProcessError:
        pass
    finally:
        os.close(file)
    return None


def _is_held(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _pid_in(file: int) -> int:
    text = os.pread(file, 32, 0).decode(errors="replace").strip()
    return int(text) if text.isdecimal() else 0

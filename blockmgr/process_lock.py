"""Files that one process at a time holds locked: each says which process that is, and anybody may ask."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

_LOCK = struct.Struct("hhqqi0q")
"""The system's `struct flock`: type, whence, start, length (0: all there is and will be), process id (0 where asked)."""


class LockHeld(Exception):
    """Another process holds the lock; `pid` is its id, 0 if it did not say."""

    def __init__(self, path: Path, pid: int) -> None:
        """Say who and where."""
        super().__init__(f"{path} is held by process {pid or 'unknown'}")
        self.pid = pid


class ProcessLock:
    """A lock on a file, with this process's id in it. Held until `close`, or for as long as this process lives.

    It belongs to the open file, which no child inherits. Whoever asks for the holder does not touch it, so that asking
    never keeps a process from getting it.
    """

    def __init__(self, path: Path) -> None:
        """Make the file, mode 0600, if need be, and lock it. Never waits.

        Raises:
            LockHeld: another process has it.
            OSError: the file cannot be made or locked.
        """
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _request())
        except BlockingIOError:
            pid = _pid_in(self._file)
            os.close(self._file)
            raise LockHeld(path, pid) from None
        except BaseException:
            os.close(self._file)
            raise
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def is_at(self, path: Path) -> bool:
        """Whether whoever looks at a path finds this lock: its file may have been deleted, or another put in its place."""
        try:
            return os.path.samestat(os.fstat(self._file), path.stat())
        except OSError:
            return False

    def close(self) -> None:
        """Let go of it. May be repeated."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def holder_of(path: Path) -> int | None:
    """Id of the process that holds a lock; 0 if it has not said yet, None if nobody holds it."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        found = _LOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, _request()))
        return None if found[0] == fcntl.F_UNLCK else _pid_in(file)
    finally:
        os.close(file)


def _request() -> bytes:
    return _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def _pid_in(file: int) -> int:
    text = os.pread(file, 32, 0).decode(errors="replace").strip()
    return int(text) if text.isdecimal() else 0

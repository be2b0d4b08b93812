"""The keeper's runtime directory: the lock that makes it the only one, its socket, and which children were started."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

from blockmgr.configuration import WrongSetting, may_pass
from blockmgr.keeper.records import write_record
from blockmgr.process_lock import LockHeld, ProcessLock, holder_of
from blockmgr.processes import Process, ProcessError

_LOCK = "keeper.lock"
_LONGEST_SOCKET_PATH = 107  # bytes of sun_path, less the final NUL


class KeeperError(Exception):
    """The keeper cannot run just now, and may later; the text is for the person who started it."""


class RuntimeDirectory:
    """A directory, mode 0700, that one keeper at a time holds locked.

    keeper.lock    locked while a keeper lives; holds its process id
    notify.sock    the notification socket, mode 0600
    NAME.process   which process was started as child NAME, so that the next keeper finds it
    """

    def __init__(self, path: Path) -> None:
        """Create the directory if need be and lock it.

        Raises:
            KeeperError: another keeper runs here, or the machine is short of something.
            WrongSetting: the directory cannot be made, or belongs to or is open to others.
        """
        self.path = path.absolute()
        self.socket_path = self.path / "notify.sock"
        if len(os.fsencode(self.socket_path)) > _LONGEST_SOCKET_PATH:
            raise WrongSetting(f"{self.socket_path}: longer than the {_LONGEST_SOCKET_PATH} bytes of a socket's path")
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = self.path.stat()
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
                raise WrongSetting(
                    f"{self.path}: owned by uid {found.st_uid}, mode {stat.S_IMODE(found.st_mode):o}; "
                    f"it must be owned by uid {os.geteuid()} and writable by nobody else"
                )
            self._lock = ProcessLock(self.path / _LOCK)
        except LockHeld as held:
            raise KeeperError(f"{self.path}: another keeper runs here (process {held.pid or 'unknown'})") from None
        except OSError as error:
            raise self._unusable(error) from error

    def listen(self) -> socket.socket:
        """Bind the notification socket, non-blocking, with the senders' credentials passed on. The caller owns it.

        Raises:
            KeeperError: the machine is short of something.
            WrongSetting: it cannot be bound here.
        """
        try:
            return self._listen()
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> KeeperError | WrongSetting:
        return (KeeperError if may_pass(error) else WrongSetting)(f"{self.path}: {error}")

    def _listen(self) -> socket.socket:
        self.socket_path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        mask = os.umask(0o177)
        try:
            listening.bind(str(self.socket_path))
        finally:
            os.umask(mask)
        return listening

    def record(self, name: str, pid: int) -> None:
        """Note that the living process `pid` was started as child `name`."""
        write_record(self.path / f"{name}.process", json.dumps({"pid": pid, "birth": _birth(pid)}))

    def recall(self, name: str) -> Process | None:
        """Return the process that an earlier keeper started as child `name`, if it still lives. The caller owns it."""
        return recall(self.path, name)

    def forget(self, name: str) -> None:
        """Note that no process is child `name` any more."""
        (self.path / f"{name}.process").unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the socket and let go of the lock."""
        self.socket_path.unlink(missing_ok=True)
        self._lock.close()


def recall(directory: Path, name: str) -> Process | None:
    """Return the process that a keeper of this directory started as child `name`, if it still lives. The caller owns it."""
    try:
        known = json.loads((directory / f"{name}.process").read_text())
        process = Process.open(int(known["pid"]), name)
    except (OSError, ValueError, KeyError, TypeError, ProcessError):
        return None
    # Checked after the pidfd is held: from here on the id cannot pass to another process unnoticed.
    if process.is_dead or _birth(process.pid) != known.get("birth"):
        process.close()
        return None
    return process


def keeper_of(directory: Path) -> int | None:
    """Return the process id of the keeper that holds a directory; None if none does, 0 if it does not say."""
    return holder_of(directory / _LOCK)


def _birth(pid: int) -> str:
    """Return what tells this process from any other that ever had its id: the boot, and the clock tick of its start."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The 22nd field; the second, the command in parentheses, may hold anything.
    return f"{boot} {status.rpartition(')')[2].split()[19]}"

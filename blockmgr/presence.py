"""Signs that executors are alive, for a manager that comes up knowing nothing.

An executor that has mapped a pool keeps a lock on a file of its own in the runtime folder; the lock goes with its death.
A manager that finds such locks, but no descriptors, has lost its memory and not its world: it waits for the executors to
give the descriptors back rather than start cold beside them.
"""

import fcntl
import os
from pathlib import Path


def folder(runtime_dir: Path) -> Path:
    """Where the signs lie."""
    return runtime_dir / "executors"


class Presence:
    """One executor's sign. Held until closed, or until the process dies."""

    def __init__(self, runtime_dir: Path, instance: str) -> None:
        """Put up the sign of ``instance`` (its UUID as 32 hexadecimal digits). Signs of the dead are cleared away."""
        folder(runtime_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
        # Whoever is killed leaves its sign behind. Nobody else looks at them as long as managers have their memory.
        executors_present(runtime_dir)
        self._path = folder(runtime_dir) / instance
        # A manager that looks between the two calls takes a sign that nobody holds yet for a dead one's.
        while not self._put_up():
            pass

    def _put_up(self) -> bool:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        if os.fstat(self._descriptor).st_nlink:
            return True
        os.close(self._descriptor)
        return False

    def close(self) -> None:
        """Take the sign down. May be repeated."""
        if self._descriptor >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


def executors_present(runtime_dir: Path) -> set[str]:
    """Instances whose signs are held. Signs of the dead are cleared away."""
    present = set()
    for path in folder(runtime_dir).glob("*"):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            present.add(path.name)
        finally:
            os.close(descriptor)
    return present

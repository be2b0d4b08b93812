"""The descriptor store: copies of a child's descriptors, which keep alive what is behind them when the child is not."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
from dataclasses import dataclass

from blockmgr.packets import check_name, close_all
from blockmgr.processes import ProcessError, pid_of


class StoreFull(Exception):
    """The store holds as many descriptors as it may."""


@dataclass(frozen=True)
class Stored:
    """One descriptor in the store, which owns it."""

    name: str
    descriptor: int


class DescriptorStore:
    """Descriptors by name, in the order in which they came; several may share a name.

    The store owns every descriptor given to it, also one it refuses, and closes it on removal. What is behind a stored
    descriptor lives at least until then.
    """

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` descriptors."""
        self.limit = limit
        self._entries: list[Stored] = []
        # An epoll of its own, so that hang-ups (and nothing else) of stored descriptors make one descriptor readable.
        self._hangups = select.epoll()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> tuple[Stored, ...]:
        """Everything stored, oldest first. The descriptors stay the store's."""
        return tuple(self._entries)

    def fileno(self) -> int:
        """Return a descriptor that is readable while a watched entry has hung up; then call `drop_hung_up`."""
        return self._hangups.fileno()

    def add(self, name: str, descriptor: int, *, watch: bool) -> bool:
        """Take over `descriptor`. With `watch`, it is dropped once it hangs up.

        Returns whether it was kept; one that is stored under this name already is closed instead.

        Raises:
            ValueError: the name may not be used. The descriptor was closed.
            StoreFull: no room. The descriptor was closed.
            OSError: it cannot be watched. The descriptor was closed.
        """
        try:
            check_name(name)
            if any(entry.name == name and same_object(entry.descriptor, descriptor) for entry in self._entries):
                os.close(descriptor)
                return False
            if len(self._entries) >= self.limit:
                raise StoreFull(f"{name!r} does not fit: {self.limit} descriptors are stored")
            if watch:
                self._watch(descriptor)
        except (ValueError, StoreFull, OSError):
            close_all([descriptor])
            raise
        self._entries.append(Stored(name, descriptor))
        return True

    def remove(self, name: str) -> int:
        """Close everything stored under `name`; return how many that were."""
        return self._drop([entry for entry in self._entries if entry.name == name])

    def drop_hung_up(self) -> list[str]:
        """Close the watched descriptors whose other side has gone, and return their names."""
        gone = {descriptor for descriptor, _ in self._hangups.poll(0)}
        dropped = [entry for entry in self._entries if entry.descriptor in gone]
        self._drop(dropped)
        return [entry.name for entry in dropped]

    def close(self) -> None:
        """Close everything."""
        self._drop(list(self._entries))
        self._hangups.close()

    def _watch(self, descriptor: int) -> None:
        try:
            self._hangups.register(descriptor, 0)
        except OSError as error:
            # EPERM: a memfd, or another file that never hangs up.
            if error.errno != errno.EPERM:
                raise

    def _drop(self, entries: list[Stored]) -> int:
        for entry in entries:
            # Explicitly: epoll forgets a descriptor by itself only once every copy of it is closed, also elsewhere.
            try:
                self._hangups.unregister(entry.descriptor)
            except OSError:
                continue
        close_all(entry.descriptor for entry in entries)
        self._entries = [entry for entry in self._entries if entry not in entries]
        return len(entries)


def same_object(first: int, second: int) -> bool:
    """Say whether two descriptors lead, for the same use, to the same file, socket, pipe or living process.

    Other kinds (event descriptors, epolls, pidfds of reaped processes) share an inode on some kernels, so that nothing
    is known about them: they count as different.
    """
    one, other = os.fstat(first), os.fstat(second)
    if (one.st_dev, one.st_ino, one.st_mode) != (other.st_dev, other.st_ino, other.st_mode):
        return False
    # The two ends of a pipe have one inode.
    if (fcntl.fcntl(first, fcntl.F_GETFL) ^ fcntl.fcntl(second, fcntl.F_GETFL)) & os.O_ACCMODE:
        return False
    try:
        pid = pid_of(first)
        return pid > 0 and pid == pid_of(second)
    except ProcessError:
        return stat.S_IFMT(one.st_mode) != 0

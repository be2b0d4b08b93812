"""Processes held by descriptor (pidfd), so that a recycled process id is never mistaken for the process meant.

A pidfd becomes readable when its process has exited, whoever its parent is and before anybody has reaped it. By then
the kernel has torn the process down: it neither runs nor writes any more.
"""

from __future__ import annotations

import os
import select
import signal
from types import TracebackType


class ProcessError(Exception):
    """A process cannot be held, named or signalled; the text says which and why."""


def open_pidfd(pid: int) -> int:
    """Return a new pidfd (close-on-exec) for the process `pid`. The caller owns it.

    Raises:
        ProcessError: no such process, or no descriptor is left to hold it with.
    """
    try:
        return os.pidfd_open(pid)
    except (OSError, OverflowError) as error:
        raise ProcessError(f"process {pid} cannot be opened: {error}") from error


def is_dead(pidfd: int) -> bool:
    """Say whether the process has exited (a zombie has). Never waits."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))


def wait_dead(pidfd: int, timeout: float) -> bool:
    """Wait at most `timeout` seconds for the process to exit; say whether it has."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(max(0.0, timeout) * 1000))


def send_signal(pidfd: int, number: int) -> None:
    """Send a signal. A process that is gone already is no error.

    Raises:
        ProcessError: the caller may not signal this process.
    """
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise ProcessError(f"the process of pidfd {pidfd} may not be signalled: {error}") from error


def kill(pidfd: int) -> None:
    """Send SIGKILL. The process is dead once `is_dead` says so, not when this returns.

    Raises:
        ProcessError: the caller may not signal this process.
    """
    send_signal(pidfd, signal.SIGKILL)


def can_signal(pidfd: int) -> bool:
    """Say whether a kill would be allowed (signal 0). True for a process that is gone: nothing is left to be killed."""
    try:
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def pid_of(pidfd: int) -> int:
    """Return the process id behind a pidfd as this process's pid namespace numbers it.

    -1 if the process has been reaped, 0 if it lives in a namespace that cannot be seen from here.

    Raises:
        ProcessError: the descriptor is closed, or no pidfd.
    """
    try:
        with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as info:
            for line in info:
                if line.startswith("Pid:"):
                    return int(line[4:])
    except OSError as error:
        raise ProcessError(f"descriptor {pidfd} cannot be read: {error}") from error
    raise ProcessError(f"descriptor {pidfd} is not a pidfd")


class Process:
    """One process and the pidfd by which it is watched and killed.

    The object owns the pidfd and closes it; the process itself lives on. Close it only when nothing depends any more
    on knowing whether the process is dead: afterwards its id may belong to another.
    """

    def __init__(self, pid: int, pidfd: int, role: str) -> None:
        """Take over `pidfd`, which must be a pidfd of `pid`; `role` is a word for people, such as "engine"."""
        self.pid = pid
        self.pidfd = pidfd
        self.role = role

    @classmethod
    def open(cls, pid: int, role: str) -> Process:
        """Hold the process that has the id `pid` now.

        Raises:
            ProcessError: no such process.
        """
        return cls(pid, open_pidfd(pid), role)

    @classmethod
    def adopt(cls, pidfd: int, role: str) -> Process:
        """Take over a pidfd that came from elsewhere. A process that was reaped already has the pid -1.

        Raises:
            ProcessError: the descriptor is no pidfd; it is left open and with the caller.
        """
        return cls(pid_of(pidfd), pidfd, role)

    @property
    def is_dead(self) -> bool:
        """Whether the process has exited."""
        return is_dead(self.pidfd)

    @property
    def can_signal(self) -> bool:
        """Whether a kill would be allowed."""
        return can_signal(self.pidfd)

    def kill(self) -> None:
        """Send SIGKILL; see `kill`."""
        kill(self.pidfd)

    def signal(self, number: int) -> None:
        """Send a signal; see `send_signal`."""
        send_signal(self.pidfd, number)

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the exit; say whether it has happened."""
        return wait_dead(self.pidfd, timeout)

    def close(self) -> None:
        """Let go of the pidfd. May be repeated."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Process(pid={self.pid}, role={self.role!r})"


def find_older(pid: int, since: float, role: str) -> Process | None:
    """Hold the process that has the id `pid` if it was running already at `since` (seconds since 1970).

    None proves that the process which had the id then is gone: there is none, or one that was started later.

    Raises:
        ProcessError: it cannot be told, for want of descriptors or of a readable /proc.
    """
    try:
        process = Process(pid, os.pidfd_open(pid), role)
    except ProcessLookupError:
        return None
    except (OSError, OverflowError) as error:
        raise ProcessError(f"process {pid} cannot be opened: {error}") from error
    try:
        started = _started_at(pid)
    except FileNotFoundError:
        process.close()
        return None
    except OSError as error:
        process.close()
        raise ProcessError(f"the age of process {pid} cannot be read: {error}") from error
    # The kernel gives the time to a fraction of a second at best: a second of doubt counts for the process.
    if started > since + 1.0:
        process.close()
        return None
    return process


def _started_at(pid: int) -> float:
    """Return when a process was started, in seconds since 1970."""
    with open(f"/proc/{pid}/stat") as file:
        ticks = int(file.read().rsplit(") ", 1)[1].split()[19])
    with open("/proc/stat") as file:
        booted = next(int(line.split()[1]) for line in file if line.startswith("btime "))
    return booted + ticks / os.sysconf("SC_CLK_TCK")

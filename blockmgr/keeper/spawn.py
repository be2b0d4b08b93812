"""Starting a child with descriptors passed to it as systemd does."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Sequence
from typing import NoReturn

from blockmgr.packets import FIRST_INHERITED
from blockmgr.processes import Process, ProcessError

_PROTOCOL_VARIABLES = (
    "NOTIFY_SOCKET",
    "FDSTORE",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
)


def child_environment(
    notify_socket: str, names: Sequence[str], store_limit: int, watchdog: float | None
) -> dict[str, str]:
    """Return this process's environment with the protocol's variables set for a child; `watchdog` is in seconds."""
    environment = {key: value for key, value in os.environ.items() if key not in _PROTOCOL_VARIABLES}
    environment["NOTIFY_SOCKET"] = notify_socket
    environment["FDSTORE"] = str(store_limit)
    if names:
        environment["LISTEN_FDS"] = str(len(names))
        environment["LISTEN_FDNAMES"] = ":".join(names)
    if watchdog is not None:
        environment["WATCHDOG_USEC"] = str(round(watchdog * 1e6))
    return environment


def spawn(name: str, command: Sequence[str], environment: dict[str, str], descriptors: Sequence[int]) -> Process:
    """Start `command` in a session of its own, with copies of `descriptors` from number 3 on, and return it.

    A fork is safe here because the keeper has one thread and no gRPC. The child is not tied to the keeper's life, and
    out of reach of the terminal's signals: when the keeper dies, nothing stops.

    Raises:
        OSError, ProcessError: the machine has no process or descriptor left.
    """
    # A signal between fork and exec would run the keeper's handlers in the child.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _become(command, environment, descriptors, mask)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        return Process.open(pid, name)
    except ProcessError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _become(
    command: Sequence[str], environment: dict[str, str], descriptors: Sequence[int], mask: set[int | signal.Signals]
) -> NoReturn:
    try:
        os.setsid()
        # SIGPIPE and SIGXFSZ are ignored by Python, and what is ignored stays so across exec.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        pass_on(descriptors)
        environment["LISTEN_PID"] = environment["WATCHDOG_PID"] = str(os.getpid())
        os.execvpe(command[0], list(command), environment)
    except BaseException as error:
        os.write(2, f"keeper: cannot start {command[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def pass_on(descriptors: Sequence[int]) -> None:
    """Put copies of `descriptors` at the numbers from 3 on, to be inherited. Whatever was there is closed."""
    # First out of the way: one of them may sit where another has to go.
    above = FIRST_INHERITED + len(descriptors)
    copies = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above) for descriptor in descriptors]
    for number, copy in enumerate(copies, FIRST_INHERITED):
        os.dup2(copy, number, inheritable=True)

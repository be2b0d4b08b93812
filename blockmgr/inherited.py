"""Descriptors that the service manager passes to a process which it starts ($LISTEN_FDS): what was stored by an earlier one."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

from blockmgr.notify import NotifyError
from blockmgr.packets import FIRST_INHERITED


def inherited_descriptors(environment: MutableMapping[str, str] = os.environ) -> dict[str, list[int]]:
    """Take the descriptors that the service manager passed to this process, by name and in the order they were stored.

    The caller owns them; they are set close-on-exec. The variables are removed, so that a second call, or a child,
    does not take them again. Empty if they were meant for another process.

    Raises:
        NotifyError: the variables contradict each other, or name a descriptor that is not open.
    """
    pid, count, names = (environment.pop(key, None) for key in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"))
    if pid is None or count is None or pid != str(os.getpid()):
        return {}
    if not count.isdecimal():
        raise NotifyError(f"LISTEN_FDS is {count!r}; it must be a number of descriptors")
    labels = names.split(":") if names else ["unknown"] * int(count)
    if len(labels) != int(count):
        raise NotifyError(f"LISTEN_FDNAMES names {len(labels)} descriptors, LISTEN_FDS counts {count}")
    found: dict[str, list[int]] = {}
    for descriptor, label in enumerate(labels, FIRST_INHERITED):
        try:
            os.set_inheritable(descriptor, False)
        except OSError as error:
            raise NotifyError(f"inherited descriptor {descriptor} ({label}) is not open: {error}") from error
        found.setdefault(label, []).append(descriptor)
    return found

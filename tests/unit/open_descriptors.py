"""What this process has open, so that a test can say that it leaves nothing behind."""

import gc
import os
from contextlib import suppress

from tests.scripted.processes import wait_until


def open_descriptors() -> frozenset[tuple[str, str]]:
    """Number and object of each descriptor that is open."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        # The one that lists them is closed by now.
        with suppress(FileNotFoundError):
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return frozenset(found)


def await_closed(before: frozenset[tuple[str, str]]) -> None:
    """Wait until nothing is open that was not open ``before``, and what only garbage holds does not count.

    What other tests left may be closed meanwhile, and their threads may open something for a moment.
    """
    gc.collect()
    wait_until(
        lambda: open_descriptors() <= before, f"nothing but {sorted(before)} is open; {sorted(open_descriptors())}"
    )

"""The runtime folder as a manager takes it for itself."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from blockmgr.configuration import WrongSetting, may_pass
from blockmgr.core.errors import Precondition


@contextmanager
def usable(runtime_dir: Path) -> Iterator[None]:
    """For what is made in the runtime folder: raises ``WrongSetting``, naming it, where that is not possible.

    ``Precondition`` where it is not possible just now. gRPC raises no OSError for a socket that cannot be bound.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        kind = WrongSetting if isinstance(error, OSError) and not may_pass(error) else Precondition
        raise kind(f"runtime_dir is {runtime_dir}, but it cannot be used: {error}") from error


def take_runtime_dir(path: Path) -> IO[str]:
    """Lock the runtime folder for this manager, until what is returned is closed.

    Raises ``Precondition`` if another one serves there, ``WrongSetting`` if none can.
    """
    with usable(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = open(path / "blockmgr.lock", "a+")  # noqa: SIM115 - the lock, held for as long as the process serves
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise Precondition(f"a manager (process {holder}) already serves in {path}") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file

"""The runtime folder as a manager takes it for itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blockmgr.configuration import WrongSetting, may_pass
from blockmgr.core.errors import Precondition
from blockmgr.process_lock import LockHeld, ProcessLock


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


def take_runtime_dir(path: Path) -> ProcessLock:
    """Lock the runtime folder for this manager. The caller owns the lock.

    Raises ``Precondition`` if another one serves there, ``WrongSetting`` if none can.
    """
    try:
        with usable(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            return ProcessLock(path / "blockmgr.lock")
    except LockHeld as held:
        raise Precondition(f"a manager (process {held.pid or 'unknown'}) already serves in {path}") from None

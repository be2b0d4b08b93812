"""A lock says who holds it, goes with its holder, and is not touched by those who ask."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from blockmgr.process_lock import LockHeld, ProcessLock, holder_of

HOLDER = """
import sys
from pathlib import Path
from blockmgr.process_lock import ProcessLock
lock = ProcessLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_it_is_another_processs_until_that_dies(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert holder_of(path) is None
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert holder_of(path) == holder.pid
        with pytest.raises(LockHeld, match=f"is held by process {holder.pid}") as refused:
            ProcessLock(path)
        assert refused.value.pid == holder.pid
        holder.kill()
    assert holder_of(path) is None
    ProcessLock(path).close()


def test_no_copy_of_its_file_is_left_to_a_child(tmp_path: Path) -> None:
    lock = ProcessLock(tmp_path / "lock")
    with subprocess.Popen(["sleep", "600"], close_fds=False) as child:
        lock.close()
        lock.close()
        assert holder_of(tmp_path / "lock") is None
        child.kill()


def test_whoever_asks_keeps_nobody_from_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open("rb"):
        assert holder_of(path) is None
        lock = ProcessLock(path)
    assert holder_of(path) == os.getpid(), "closing another file of the same path does not give it up"
    lock.close()


def test_a_file_that_cannot_be_made_is_no_lock_that_is_held(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError):
        ProcessLock(Path("/dev/null/lock"))
    with pytest.raises(IsADirectoryError):
        ProcessLock(tmp_path)

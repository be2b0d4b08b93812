import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from blockmgr import processes
from blockmgr.processes import Process, ProcessError


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "600"])
    yield child
    child.kill()
    child.wait()


def test_a_process_is_dead_once_killed_although_nobody_has_reaped_it(sleeper: subprocess.Popen[bytes]) -> None:
    with Process.open(sleeper.pid, "engine") as process:
        assert not process.is_dead
        process.kill()
        assert process.wait(60)
        assert process.is_dead
        assert processes.pid_of(process.pidfd) == sleeper.pid, "a zombie is still known by its id"


def test_a_reaped_process_can_be_killed_again_and_has_no_id_any_more(sleeper: subprocess.Popen[bytes]) -> None:
    with Process.open(sleeper.pid, "engine") as process:
        process.kill()
        sleeper.wait()
        process.kill()
        assert process.is_dead
        assert process.can_signal
        assert processes.pid_of(process.pidfd) == -1


def test_waiting_for_a_living_process_ends_with_the_time_limit(sleeper: subprocess.Popen[bytes]) -> None:
    with Process.open(sleeper.pid, "engine") as process:
        assert not process.wait(0.02)
        assert process.can_signal


def test_a_stopped_process_is_not_dead(sleeper: subprocess.Popen[bytes]) -> None:
    with Process.open(sleeper.pid, "engine") as process:
        process.signal(signal.SIGSTOP)
        os.waitid(os.P_PIDFD, process.pidfd, os.WSTOPPED)
        assert not process.is_dead


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")
def test_a_process_of_another_user_cannot_be_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    program = (
        "import os, sys; from blockmgr import processes\n"
        "os.setuid(65534)\n"
        "pidfd = processes.open_pidfd(int(sys.argv[1]))\n"
        "assert not processes.can_signal(pidfd)\n"
        "try: processes.kill(pidfd)\n"
        "except processes.ProcessError as error: print(error)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, str(sleeper.pid)], capture_output=True, text=True, check=True
    )
    assert "may not be signalled" in answer.stdout
    assert sleeper.poll() is None


def test_a_process_that_does_not_exist_cannot_be_opened(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    sleeper.wait()
    with pytest.raises(ProcessError, match=f"process {sleeper.pid} cannot be opened"):
        processes.open_pidfd(sleeper.pid)


@pytest.mark.parametrize("pid", [0, -1, 1 << 40])
def test_an_impossible_process_id_is_refused_by_name(pid: int) -> None:
    with pytest.raises(ProcessError, match=str(pid)):
        processes.open_pidfd(pid)


def test_another_kind_of_descriptor_is_no_pidfd_and_stays_open() -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(ProcessError, match="is not a pidfd"):
            Process.adopt(reading, "engine")
        os.fstat(reading)
    finally:
        os.close(reading)
        os.close(writing)


def test_closing_twice_closes_once() -> None:
    pidfd = os.pidfd_open(os.getpid())
    # A high number, which nobody else in this process is given once it is free.
    number = fcntl.fcntl(pidfd, fcntl.F_DUPFD_CLOEXEC, 700)
    os.close(pidfd)
    process = Process(os.getpid(), number, "self")
    process.close()
    other = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, number)
    process.close()
    os.fstat(other)
    assert number == other, "the number was free again, and the second close did not take it"
    os.close(other)

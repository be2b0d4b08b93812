"""Who may register is decided by the processes that were handed over."""

import asyncio
import os
import uuid

import pytest

from blockmgr.core.errors import Precondition
from blockmgr.processes import Process
from blockmgr.service.members import INTRODUCTION_SECONDS, Lease, Members


class Unkillable(Process):
    """A process that the manager has no right to kill, such as another user's."""

    @property
    def can_signal(self) -> bool:
        return False


def introduced(process: Process) -> list[Process]:
    """What comes of introducing one process and asking for it."""

    async def introduce() -> list[Process]:
        members = Members()
        instance = uuid.uuid4().bytes
        members.introduce(instance, [process])
        try:
            return members.introduced(instance)
        finally:
            members.close()

    return asyncio.run(introduce())


def test_a_process_that_could_not_be_killed_is_refused() -> None:
    process = Unkillable(os.getpid(), os.pidfd_open(os.getpid()), "engine")
    with pytest.raises(Precondition, match=f"process {os.getpid()} .engine. could not be killed"):
        introduced(process)


def test_a_process_that_can_be_killed_is_accepted() -> None:
    process = Process.open(os.getpid(), "engine")
    assert introduced(process) == [process]


def test_an_introduction_that_no_registration_follows_is_forgotten() -> None:
    async def forget() -> None:
        members = Members()
        instance = uuid.uuid4().bytes
        members.introduce(instance, [Process.open(os.getpid(), "engine")])
        loop = asyncio.get_running_loop()
        later = loop.time() + INTRODUCTION_SECONDS + 1
        loop.time = lambda: later  # type: ignore[method-assign]
        members.forget_strangers()
        with pytest.raises(Precondition, match="introduce it"):
            members.introduced(instance)

    asyncio.run(forget())


def test_a_lease_does_not_run_while_the_manager_is_away() -> None:
    lease = Lease(seconds=10.0, heard=100.0, probed=112.0)
    assert lease.is_over(111.0)
    lease.extend(5.0)
    assert (lease.heard, lease.probed) == (105.0, 117.0)
    assert not lease.is_over(115.0)
    lease.renew(116.0)
    assert lease.probed is None

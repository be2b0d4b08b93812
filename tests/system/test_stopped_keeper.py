"""A keeper that takes nothing for a while: what was tried meanwhile is never mistaken for what came of it later."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest

from blockmgr.descriptors import fetch
from pagehold.admin.v1 import pool_pb2
from tests.scripted.hand import HandDriven, spec
from tests.scripted.world import World, running


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that stands still."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def memory(world: World, executor: HandDriven) -> dict[str, int]:
    """What the manager hands to an executor: the inode by name."""
    registration = executor.registration
    offered = fetch(
        world.runtime_dir / "descriptors.sock",
        registration.instance.hex(),
        registration.epoch,
        registration.mapping.name,
        timeout=60,
    )
    inodes = {name: os.fstat(descriptor).st_ino for name, (descriptor, _) in offered.items()}
    for descriptor, _ in offered.values():
        os.close(descriptor)
    return inodes


def test_the_memory_of_a_pool_that_could_not_be_made_is_not_taken_for_that_of_the_next() -> None:
    with running() as world:
        with stopped(world.keeper.pid), pytest.raises(grpc.RpcError), HandDriven(world.runtime_dir, "a", timeout=5):
            pytest.fail("nothing was made safe")
        with HandDriven(world.runtime_dir, "a") as executor:
            mapped = memory(world, executor)
            world.kill_manager()
            world.await_manager()
            assert memory(world, executor) == mapped
            assert world.violated_invariants() == []


def test_memory_that_could_not_be_added_is_not_taken_for_what_was_added_later() -> None:
    with running() as world, HandDriven(world.runtime_dir, "a", spec(geometry={"max_device_blocks": 4096})) as executor:
        with stopped(world.keeper.pid), pytest.raises(grpc.RpcError, match="nothing can be made safe just now"):
            world.admin.Resize(pool_pb2.ResizeRequest(device_blocks=1024), timeout=60)
        world.admin.Resize(pool_pb2.ResizeRequest(device_blocks=4096), timeout=60)
        extents = memory(world, executor)
        world.kill_manager()
        world.await_manager()
        assert memory(world, executor) == extents
        assert world.violated_invariants() == []

"""Pools on a GPU, with manager, keeper and executors as processes of their own, over GPUs that are files."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from blockmgr.arena import ArenaError, GpuMapping
from blockmgr.arena.cuda import GRANULE
from blockmgr.arena.driver import visible_gpus
from executor.manager import PoolMapping, Revoked
from executor.manager.channel import reason_of
from pagehold.admin.v1 import pool_pb2 as admin_pool_pb2
from pagehold.blockmgr.v1 import pool_pb2
from tests.fake_gpu import FIRST, SECOND, contexts, fake_gpus, forget_driver
from tests.scripted.hand import HandDriven, spec
from tests.scripted.processes import wait_until
from tests.scripted.world import World, running

PATIENT: dict[str, Any] = {"lease_seconds": 60, "probe_seconds": 60, "return_seconds": 120}
"""A manager that takes no executor for dead which is only slow."""

BLOCK_BYTES = 1 << 20
SMALL, LARGE = 5, 16
KINDS = ("cuda", "cuda-ipc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the GPUs' files lie."""
    return tmp_path_factory.mktemp("gpus")


@pytest.fixture(scope="module", autouse=True)
def whole_machine(folder: Path) -> Iterator[None]:
    """A machine of two GPUs."""
    with fake_gpus(folder, (FIRST, SECOND), total=64 * GRANULE):
        yield


@pytest.fixture
def machine() -> Iterator[pytest.MonkeyPatch]:
    """The machine, for what a test changes of it."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch
        forget_driver(patch)


@pytest.fixture(scope="module")
def world(whole_machine: None) -> Iterator[World]:
    """One keeper and one manager for every test that brings pools of its own."""
    with running(max_pools=64, **PATIENT) as world:
        yield world


_numbers = count(1)


def pool(kind: str = "cuda", gpu_uuid: str = FIRST, **geometry: int) -> pool_pb2.PoolSpec:
    """Large blocks, few of them, so that they cross the pieces that memory comes in. A new pool each time."""
    sizes = {"block_bytes": BLOCK_BYTES, "device_blocks": SMALL, "host_blocks": 4, "max_sequences": 8}
    return spec(geometry=sizes | geometry, gpu_uuid=gpu_uuid, arena=kind, name=f"pool-{next(_numbers)}")


def memory(executor: HandDriven) -> GpuMapping:
    device = executor.registration.mapping.device
    assert isinstance(device, GpuMapping)
    return device


def write_block(executor: HandDriven, block: int, value: int) -> None:
    """What a kernel does, as far as the pool is concerned: bytes through the tensor."""
    mapping = executor.registration.mapping
    mapping.reach(block)
    mapping.tensor()[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES] = value


def block_holds(executor: HandDriven, block: int, value: int) -> bool:
    mapping = executor.registration.mapping
    mapping.reach(block)
    return bool((mapping.tensor()[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES] == value).all())


def resize(world: World, proposed: pool_pb2.PoolSpec, blocks: int) -> None:
    world.admin.Resize(admin_pool_pb2.ResizeRequest(pool=proposed.name, device_blocks=blocks), timeout=60)


@pytest.mark.parametrize("kind", KINDS)
def test_executors_share_a_pool_that_the_first_has_found_all_zero(world: World, kind: str, folder: Path) -> None:
    proposed = pool(kind)
    with HandDriven(world.runtime_dir, "a", proposed) as first:
        assert world.manager_pid() not in contexts(folder), "no fault of a GPU can take the manager down"
        assert first.registration.response.created
        assert block_holds(first, 0, 0)
        assert memory(first).read(0, memory(first).size) == bytes(memory(first).size)
        write_block(first, 2, 7)
        with HandDriven(world.runtime_dir, "b", proposed) as second:
            assert not second.registration.response.zero_memory
            assert block_holds(second, 2, 7)
            assert block_holds(second, 0, 0)
            assert second.registration.mapping.tensor() is second.registration.mapping.tensor()


def test_blocks_on_a_gpu_are_no_arrays_but_those_of_the_host_tier_are(world: World) -> None:
    with HandDriven(world.runtime_dir, "a", pool()) as executor:
        mapping = executor.registration.mapping
        with pytest.raises(ArenaError, match="lies on a GPU"):
            mapping.block(1)
        mapping.block(1, host=True)[:] = 3
        pinned = mapping.host_tensor(pinned=True)
        assert pinned.numel() == 4 * BLOCK_BYTES
        assert int(pinned.sum()) == 3 * BLOCK_BYTES
        assert mapping.host_tensor(pinned=True).data_ptr() == pinned.data_ptr()


def test_contents_and_executor_outlive_the_manager_and_its_successor_needs_no_gpu_to_take_up(world: World) -> None:
    proposed = pool()
    with HandDriven(world.runtime_dir, "a", proposed) as executor:
        handle = executor.admit(8).handle
        write_block(executor, 3, 9)
        address = memory(executor).address
        for _ in range(3):
            manager = world.kill_manager()
            world.await_manager(other_than=manager)
            assert executor.compute(handle, 4).number
            assert block_holds(executor, 3, 9)
        assert memory(executor).address == address
        with HandDriven(world.runtime_dir, "b", proposed) as second:
            assert block_holds(second, 3, 9)
        assert world.violated_invariants(proposed.name) == []


def test_contents_outlive_keeper_and_manager_with_the_executor_that_gives_them_back() -> None:
    proposed = pool()
    with running(**PATIENT) as world, HandDriven(world.runtime_dir, "a", proposed) as executor:
        write_block(executor, 1, 5)
        world.keeper.kill()
        world.keeper.wait(60)
        manager = world.kill_manager()
        world.start_keeper()
        world.await_manager(other_than=manager)
        with HandDriven(world.runtime_dir, "b", proposed) as second:
            assert block_holds(second, 1, 5)


def test_a_pool_grows_behind_addresses_that_stay_and_keeps_its_extents_over_restarts(world: World) -> None:
    proposed = pool(max_device_blocks=LARGE)
    with HandDriven(world.runtime_dir, "a", proposed) as first:
        view, address = first.registration.mapping.tensor(), memory(first).address
        assert view.numel() == memory(first).reserve == LARGE * BLOCK_BYTES
        resize(world, proposed, 9)
        resize(world, proposed, LARGE)
        write_block(first, LARGE - 1, 4)
        assert bool((view[(LARGE - 1) * BLOCK_BYTES :] == 4).all()), "what was made before sees it too"
        assert memory(first).address == address
        manager = world.kill_manager()
        world.await_manager(other_than=manager)
        with HandDriven(world.runtime_dir, "b", proposed) as second:
            assert block_holds(second, LARGE - 1, 4)


def test_a_pool_that_has_shrunk_gives_memory_back_once_no_executor_maps_it(world: World) -> None:
    proposed = pool(max_device_blocks=LARGE)
    with HandDriven(world.runtime_dir, "a", proposed) as executor:
        small = bytes_held(world)
        resize(world, proposed, LARGE)
        write_block(executor, LARGE - 1, 4)
        resize(world, proposed, SMALL)
        assert block_holds(executor, LARGE - 1, 4), "it is mapped, and would be grown into again"
    wait_until(lambda: bytes_held(world) < small + GRANULE, "it is given back")
    resize(world, proposed, LARGE)
    manager = world.kill_manager()
    world.await_manager(other_than=manager)
    with HandDriven(world.runtime_dir, "b", proposed) as executor:
        write_block(executor, LARGE - 1, 6)
        assert block_holds(executor, LARGE - 1, 6)


def bytes_held(world: World) -> int:
    """Bytes of GPUs' memory that the manager holds descriptors of."""
    folder = Path(f"/proc/{world.manager_pid()}/fd")
    sizes = 0
    for entry in folder.iterdir():
        with suppress(FileNotFoundError):
            if "memfd:fake" in os.readlink(entry):
                sizes += entry.stat().st_size
    return sizes


def test_more_than_the_gpu_has_changes_nothing(world: World) -> None:
    proposed = pool(max_device_blocks=1000)
    with HandDriven(world.runtime_dir, "a", proposed) as executor:
        with pytest.raises(grpc.RpcError, match=f"{FIRST} has no") as refused:
            resize(world, proposed, 1000)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        resize(world, proposed, SMALL + 3)
        write_block(executor, SMALL + 2, 1)


# -- zeroing -----------------------------------------------------------------------------------------------------------


def test_an_executor_that_dies_before_it_has_zeroed_leaves_that_to_the_next(
    world: World, machine: pytest.MonkeyPatch
) -> None:
    def die(mapping: PoolMapping, label: bytes) -> None:
        raise ArenaError("it dies here")

    proposed = pool()
    with machine.context() as during:
        during.setattr(PoolMapping, "make_ready", die)
        with pytest.raises(ArenaError, match="it dies here"):
            HandDriven(world.runtime_dir, "a", proposed)
    manager = world.kill_manager()
    world.await_manager(other_than=manager)
    with HandDriven(world.runtime_dir, "b", proposed) as second:
        assert second.registration.response.zero_memory
        assert not second.registration.response.created
        assert memory(second).read(0, memory(second).size) == bytes(memory(second).size)
        with HandDriven(world.runtime_dir, "c", proposed) as third:
            assert not third.registration.response.zero_memory


def test_nobody_else_gets_in_while_the_memory_is_being_zeroed(world: World, machine: pytest.MonkeyPatch) -> None:
    refusals: list[str] = []
    make_ready, proposed = PoolMapping.make_ready, pool()

    def look_meanwhile(mapping: PoolMapping, label: bytes) -> None:
        machine.setattr(PoolMapping, "make_ready", make_ready)
        # It asks again until its time is up, and hears why once it was answered within that.
        for timeout in (0.5, 2.0, 8.0, 32.0):
            with pytest.raises(grpc.RpcError) as refused:
                HandDriven(world.runtime_dir, "b", proposed, timeout=timeout)
            refusals.append(str(refused.value.details()))
            if refused.value.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                break
        make_ready(mapping, label)

    machine.setattr(PoolMapping, "make_ready", look_meanwhile)
    with HandDriven(world.runtime_dir, "a", proposed), HandDriven(world.runtime_dir, "b", proposed):
        assert "executor 'a' is zeroing its memory" in refusals[-1]


def test_memory_that_is_not_the_pools_is_found_out_at_attach(world: World) -> None:
    proposed = pool()
    with HandDriven(world.runtime_dir, "a", proposed) as first:
        memory(first).context.zero(memory(first).address - 64, 64)
        with pytest.raises(ArenaError, match="this is other memory, or begins elsewhere"):
            HandDriven(world.runtime_dir, "b", proposed)


# -- which GPU ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def half_blind(whole_machine: None) -> Iterator[World]:
    """A keeper and a manager whose environment hides the second GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "0")
        world = World(**PATIENT)
        world.start_keeper()
    try:
        world.await_manager()
        yield world
    finally:
        world.end()


@pytest.mark.parametrize("kind", KINDS)
def test_a_pool_on_a_gpu_that_the_managers_environment_hides_is_reached_by_its_uuid(
    kind: str, half_blind: World, machine: pytest.MonkeyPatch
) -> None:
    machine.setenv("CUDA_VISIBLE_DEVICES", "1")
    forget_driver(machine)
    assert visible_gpus() == [SECOND]
    proposed = pool(kind, SECOND)
    with HandDriven(half_blind.runtime_dir, "a", proposed) as executor:
        assert memory(executor).ordinal == 0
        proposed.shards[0].gpu_uuid = FIRST
        with pytest.raises(grpc.RpcError) as refused:
            HandDriven(half_blind.runtime_dir, "b", proposed)
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert reason_of(refused.value) == "ERROR_REASON_IDENTITY_MISMATCH"
        assert f"rank 0 on {SECOND}, the executor's is rank 0 on {FIRST}" in str(refused.value.details())


@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_that_this_machine_has_not_is_refused_with_those_it_has(world: World, kind: str) -> None:
    other = FIRST.replace("1", "9")
    with pytest.raises(grpc.RpcError) as refused:
        HandDriven(world.runtime_dir, "a", pool(kind, other))
    assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert all(uuid in str(refused.value.details()) for uuid in (other, FIRST, SECOND))


def test_an_executor_that_does_not_see_the_pools_gpu_says_so_with_both_uuids(
    world: World, machine: pytest.MonkeyPatch
) -> None:
    machine.setenv("CUDA_VISIBLE_DEVICES", "0")
    forget_driver(machine)
    with pytest.raises(ArenaError, match=f"lies on {SECOND}, but this process can use only {FIRST}"):
        HandDriven(world.runtime_dir, "a", pool("cuda", SECOND))


@pytest.mark.parametrize("shards", [(), ("GPU", "GPU")])
def test_shards_that_no_memory_of_a_gpu_fits_are_refused(world: World, shards: tuple[str, ...]) -> None:
    proposed = pool()
    del proposed.shards[:]
    for rank, uuid in enumerate(shards):
        proposed.shards.add(rank=rank, gpu_uuid=uuid)
    proposed.identity.shape.ranks = max(1, len(shards))
    with pytest.raises(grpc.RpcError, match=r"lies on a GPU|pool of 2 shards"):
        HandDriven(world.runtime_dir, "a", proposed)


# -- memory that goes with its maker -----------------------------------------------------------------------------------


def children(world: World) -> set[int]:
    """The manager's child processes."""
    tasks = Path(f"/proc/{world.manager_pid()}/task").glob("*/children")
    return {int(pid) for path in tasks for pid in path.read_text().split()}


def told(executor: HandDriven) -> str:
    """What an executor hears when its pool is no more."""

    def revoked() -> Any:
        try:
            executor.say()
        except Revoked as error:
            return str(error)
        return None

    return str(wait_until(revoked, "it is told"))


def test_the_end_of_the_process_that_holds_a_pool_ends_the_pool_and_executors_are_told_plainly(world: World) -> None:
    proposed, others = pool("cuda-ipc"), children(world)
    with HandDriven(world.runtime_dir, "a", proposed) as executor:
        executor.admit(8)
        (held,) = children(world) - others
        os.kill(held, signal.SIGKILL)
        assert f"the memory of its pool is gone, with all that was in it: process {held}" in told(executor)
        with HandDriven(world.runtime_dir, "a", proposed) as successor:
            assert successor.registration.response.created
            assert successor.registration.response.waiting_sequences == 0
            assert block_holds(successor, 0, 0)
            assert successor.epoch > executor.epoch
            assert world.violated_invariants(proposed.name) == []


def test_a_pool_by_handle_goes_with_its_manager_and_executors_are_told_plainly(world: World) -> None:
    proposed = pool("cuda-ipc")
    with HandDriven(world.runtime_dir, "a", proposed) as executor:
        executor.admit(8)
        manager = world.kill_manager()
        world.await_manager(other_than=manager)
        assert "of the kind cuda-ipc, went with the manager that made it" in told(executor)
        with HandDriven(world.runtime_dir, "a", proposed) as successor:
            assert successor.registration.response.created
            manager = world.kill_manager()
            world.await_manager(other_than=manager)
            assert "went with the manager" in told(successor)


def test_a_pool_by_handle_cannot_grow_and_says_so(world: World) -> None:
    proposed = pool("cuda-ipc", max_device_blocks=LARGE)
    with HandDriven(world.runtime_dir, "a", proposed) as executor:
        with pytest.raises(grpc.RpcError, match="memory of the kind cuda-ipc cannot grow"):
            resize(world, proposed, LARGE)
        write_block(executor, SMALL - 1, 1)
        assert np.frombuffer(memory(executor).read((SMALL - 1) * BLOCK_BYTES, 8), np.uint8).all()

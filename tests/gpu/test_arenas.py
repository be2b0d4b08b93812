"""Pools on a GPU that is there: manager, keeper and executors as processes of their own, over each kind of memory."""

import os
import select
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from blockmgr.arena import ArenaError, CudaArena, CudaMapping, GpuMapping
from blockmgr.arena.cuda import GRANULE
from blockmgr.arena.driver import visible_gpus
from blockmgr.arena.nvml import Gpu, find_gpu
from blockmgr.arena.trial import try_every_kind
from executor.manager import Revoked
from executor.manager.channel import reason_of
from executor.manager.tensors import tensor_on_gpu
from pagehold.admin.v1 import pool_pb2 as admin_pool_pb2
from pagehold.blockmgr.v1 import pool_pb2
from tests.gpu.attached import Attached
from tests.scripted.hand import HandDriven, spec
from tests.scripted.processes import open_descriptors, wait_until
from tests.scripted.world import World, running

KINDS = ("cuda", "cuda-ipc")
BLOCK_BYTES = 2 << 20
SLACK = 8 << 20
"""Bytes by which a GPU's memory may differ and still count as the same."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """One keeper and one manager for all pools of this file."""
    with running(max_pools=64) as world:
        yield world


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    """The GPU that this process computes on."""
    return find_gpu(visible_gpus()[0])


@pytest.fixture(scope="module")
def beside_torch(world: World) -> Iterator[dict[str, Attached]]:
    """Processes that use torch too, started side by side, since its import takes longest: one with nothing set, one to
    be killed, one whose allocator reserves addresses of its own.
    """
    expandable = dict.fromkeys(("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True")
    processes = {
        "reader": Attached(world.runtime_dir),
        "busy": Attached(world.runtime_dir),
        "expandable": Attached(world.runtime_dir, **expandable),
    }
    for process in processes.values():
        process.tell("allocate", size=64 << 10)
    for process in processes.values():
        assert process.answer()["sum"] == 64 << 10
    yield processes
    for process in processes.values():
        process.kill()


@pytest.fixture
def reader(beside_torch: dict[str, Attached]) -> Attached:
    return beside_torch["reader"]


def pool(kind: str, gpu: Gpu, name: str, **geometry: int) -> pool_pb2.PoolSpec:
    sizes = {"block_bytes": BLOCK_BYTES, "device_blocks": 16, "host_blocks": 0, "max_sequences": 8}
    return spec(geometry=sizes | geometry, gpu_uuid=gpu.uuid, arena=kind, name=name)


def memory(executor: HandDriven) -> GpuMapping:
    device = executor.registration.mapping.device
    assert isinstance(device, GpuMapping)
    return device


def used(gpu: Gpu) -> int:
    return find_gpu(gpu.uuid).used


def is_dead(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], 0)[0])


# -- each kind ---------------------------------------------------------------------------------------------------------


def test_every_kind_of_memory_is_possible_here() -> None:
    found = {trial.kind: trial for trial in try_every_kind()}
    assert {kind: trial.possible for kind, trial in found.items()} == dict.fromkeys(("host", *KINDS), True), found


@pytest.mark.parametrize("block_bytes", [64, 16 << 10, 128 << 10, 512 << 10, 4 << 20])
@pytest.mark.parametrize("kind", KINDS)
def test_an_executor_sees_the_pattern_that_another_has_written_beside_tensors_of_torch(
    world: World, gpu: Gpu, reader: Attached, kind: str, block_bytes: int
) -> None:
    if kind == "cuda-ipc" and block_bytes not in (64, 512 << 10):
        pytest.skip("each takes a process with a context; the smallest and a large one are enough")
    proposed = pool(kind, gpu, f"pattern-{kind}-{block_bytes}", block_bytes=block_bytes, device_blocks=3)
    with HandDriven(world.runtime_dir, "writer", proposed) as writer:
        mapping, pattern = writer.registration.mapping, os.urandom(block_bytes)
        whole = mapping.tensor()
        assert whole.device.type == mapping.torch_device().type
        assert whole.data_ptr() == memory(writer).address
        assert not whole[: memory(writer).size].any(), "the null block, and all else, is zero"
        memory(writer).write(2 * block_bytes, pattern)
        assert reader.attach("reader", proposed)["size"] == memory(writer).size
        assert reader.read(2 * block_bytes, block_bytes) == pattern
        assert reader.read(0, block_bytes) == bytes(block_bytes)


def test_a_pool_grows_behind_addresses_that_stay_and_into_which_kernels_write(
    world: World, gpu: Gpu, reader: Attached
) -> None:
    proposed = pool("cuda", gpu, "grows", device_blocks=8, max_device_blocks=64)
    reader.attach("reader", proposed)
    with HandDriven(world.runtime_dir, "writer", proposed) as writer:
        mapping = writer.registration.mapping
        whole, address = mapping.tensor(), memory(writer).address
        assert whole.numel() == 64 * BLOCK_BYTES
        for blocks in (20, 64):
            world.admin.Resize(admin_pool_pb2.ResizeRequest(pool="grows", device_blocks=blocks), timeout=10)
        mapping.reach(63)
        whole[62 * BLOCK_BYTES :] = 7
        assert memory(writer).address == address
        with HandDriven(world.runtime_dir, "late", proposed) as late:
            assert memory(late).read(62 * BLOCK_BYTES, 2 * BLOCK_BYTES) == b"\x07" * 2 * BLOCK_BYTES


def test_blocks_far_beyond_2_to_the_32nd_number_go_to_the_host_tier_and_back(world: World, gpu: Gpu) -> None:
    torch, far, size = pytest.importorskip("torch"), 131_072, 64 << 10
    proposed = pool("cuda", gpu, "far", block_bytes=size, device_blocks=far + 20, host_blocks=4)
    with HandDriven(world.runtime_dir, "a", proposed) as executor:
        mapping = executor.registration.mapping
        mapping.reach(far + 19)
        blocks, host = mapping.tensor()[: (far + 20) * size].view(-1, size), mapping.host_tensor(pinned=True)
        assert host.is_pinned()
        expected = torch.randint(0, 256, (size,), dtype=torch.uint8)
        blocks[far + 19] = expected.to(blocks.device)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            host[2 * size : 3 * size].copy_(blocks[far + 19], non_blocking=True)
            blocks[far].copy_(host[2 * size : 3 * size], non_blocking=True)
        stream.synchronize()
        assert torch.equal(mapping.host_tensor()[2 * size : 3 * size], expected)
        assert memory(executor).read(far * size, size) == expected.numpy().tobytes()
        assert sorted(blocks.any(1).nonzero()[:, 0].tolist()) == [far, far + 19]
        del blocks, host


# -- deaths ------------------------------------------------------------------------------------------------------------


def test_a_manager_of_most_of_the_gpu_is_killed_and_contents_and_executor_go_on(
    world: World, gpu: Gpu, reader: Attached
) -> None:
    blocks = find_gpu(gpu.uuid).free * 6 // 10 // BLOCK_BYTES
    proposed = pool("cuda", gpu, "large", device_blocks=blocks)
    with HandDriven(world.runtime_dir, "a", proposed) as executor:
        handle, device = executor.admit(8).handle, memory(executor)
        patterns = {block * BLOCK_BYTES: os.urandom(4096) for block in (1, blocks // 2, blocks - 1)}
        for offset, pattern in patterns.items():
            device.write(offset, pattern)
        before = used(gpu)
        for _ in range(3):
            manager = world.kill_manager()
            world.await_manager(other_than=manager)
            assert executor.compute(handle, 4).number
        # It may be less by now: what others held before the test goes back when the driver comes to it.
        assert used(gpu) - before < SLACK, "nothing was allocated again"
        reader.attach("b", proposed)
        for offset, pattern in patterns.items():
            assert device.read(offset, 4096) == reader.read(offset, 4096) == pattern
        assert reader.read(0, 4096) == bytes(4096)
        assert world.violated_invariants("large") == []


def test_an_executor_killed_in_mid_kernel_is_proven_dead_before_its_blocks_move(
    world: World, gpu: Gpu, beside_torch: dict[str, Attached]
) -> None:
    busy = beside_torch["busy"]
    proposed = pool("cuda", gpu, "busy")
    with HandDriven(world.runtime_dir, "observer", proposed) as observer:
        busy.attach("busy", proposed)
        offset = busy.ask("launch")["block"] * BLOCK_BYTES

        def count() -> int:
            return int.from_bytes(memory(observer).read(offset, 4), "little")

        first = wait_until(count, "the kernel runs")
        wait_until(lambda: count() > first, "it goes on")
        busy.process.kill()
        successor = wait_until(lambda: _succeed(world, proposed), "a successor is let in")
        with successor:
            (adopted,) = successor.registration.adopt()
            assert is_dead(busy.pidfd)
            last = count()
            assert last > first
            assert adopted.handle
            memory(observer).context.synchronize()
            for _ in range(20):
                assert count() == last, "what is dead writes no more"


def _succeed(world: World, proposed: pool_pb2.PoolSpec) -> HandDriven | None:
    """Register under the name of one that is dying, once the manager lets that be."""
    try:
        return HandDriven(world.runtime_dir, "busy", proposed)
    except grpc.RpcError as error:
        if reason_of(error) != "ERROR_REASON_ALREADY_EXISTS":
            raise
        return None


@pytest.mark.parametrize(("kind", "rounds"), [("cuda", 5), ("cuda-ipc", 2)])
def test_executors_killed_again_and_again_leave_the_gpus_memory_and_the_managers_descriptors_as_they_were(
    world: World, gpu: Gpu, beside_torch: dict[str, Attached], kind: str, rounds: int
) -> None:
    proposed = pool(kind, gpu, f"again-{kind}")
    with HandDriven(world.runtime_dir, "stays", proposed) as stays:
        memory(stays).write(5 * BLOCK_BYTES, b"stays")
        taken = used(gpu)
        _four_deaths(world, proposed)
        descriptors = open_descriptors(world.manager_pid())
        for _ in range(rounds):
            _four_deaths(world, proposed)
        wait_until(lambda: used(gpu) < taken + SLACK, "the GPU has its memory back", 20)
        wait_until(lambda: open_descriptors(world.manager_pid()) <= descriptors, "so has the manager its descriptors")
        assert memory(stays).read(5 * BLOCK_BYTES, 5) == b"stays"


def _four_deaths(world: World, proposed: pool_pb2.PoolSpec) -> None:
    """Four executors side by side: two are killed once they are attached, two while they are about to."""
    four = [Attached(world.runtime_dir) for _ in range(4)]
    for number, one in enumerate(four):
        one.tell("attach", name=f"dies-{number}", pool=proposed.SerializeToString().hex())
    for one in four[:2]:
        assert one.answer()["size"]
    for one in four:
        one.kill()
    names = {f"dies-{number}" for number in range(4)}
    wait_until(lambda: not names & {one.name for one in _registered(world, proposed.name)}, "all are buried")


def _registered(world: World, name: str) -> list[Any]:
    from pagehold.admin.v1 import executor_pb2

    request = executor_pb2.ListExecutorsRequest(pool=name)
    return list(world.admin.ListExecutors(request, timeout=10, wait_for_ready=True).executors)


def test_the_end_of_the_process_that_holds_a_pool_by_handle_is_told_plainly(world: World, gpu: Gpu) -> None:
    before = used(gpu)
    proposed = pool("cuda-ipc", gpu, "goes", device_blocks=512)
    with HandDriven(world.runtime_dir, "a", proposed) as executor:
        executor.admit(8)
        assert used(gpu) - before > 512 * BLOCK_BYTES
        manager = world.kill_manager()
        world.await_manager(other_than=manager)
        text = wait_until(lambda: _revoked(executor), "it is told")
        assert "the memory of its pool is gone, with all that was in it" in str(text)
        with HandDriven(world.runtime_dir, "a", proposed) as successor:
            assert successor.registration.response.created


def _revoked(executor: HandDriven) -> str | None:
    try:
        executor.say()
    except Revoked as error:
        return str(error)
    return None


# -- which GPU, and which allocator ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_that_is_not_there_is_refused_with_those_that_are(world: World, gpu: Gpu, kind: str) -> None:
    other = Gpu(0, "GPU-00000000-1111-2222-3333-444444444444", "", 0, 0, 0)
    with pytest.raises(grpc.RpcError) as refused:
        HandDriven(world.runtime_dir, "a", pool(kind, other, f"elsewhere-{kind}"))
    assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert other.uuid in str(refused.value.details())
    assert gpu.uuid in str(refused.value.details())


def test_a_pool_on_another_gpu_than_the_executors_is_refused_with_both(world: World, gpu: Gpu) -> None:
    other = Gpu(0, "GPU-00000000-1111-2222-3333-444444444444", "", 0, 0, 0)
    with HandDriven(world.runtime_dir, "a", pool("cuda", gpu, "here")):
        with pytest.raises(grpc.RpcError) as refused:
            HandDriven(world.runtime_dir, "b", pool("cuda", other, "here"))
        assert f"rank 0 on {gpu.uuid}, the executor's is rank 0 on {other.uuid}" in str(refused.value.details())


@pytest.mark.skipif(len(visible_gpus()) < 2, reason="needs two GPUs")
@pytest.mark.parametrize("kind", KINDS)
def test_an_executor_that_sees_the_second_gpu_alone_attaches_to_it_by_its_uuid(world: World, kind: str) -> None:
    second = find_gpu(visible_gpus()[1])
    process = Attached(world.runtime_dir, CUDA_VISIBLE_DEVICES="1")
    proposed = pool(kind, second, f"second-{kind}")
    assert process.attach("a", proposed)["ordinal"] == 0
    with HandDriven(world.runtime_dir, "b", proposed) as both:
        assert memory(both).ordinal == 1
        memory(both).write(BLOCK_BYTES, b"second")
    assert process.read(BLOCK_BYTES, 6) == b"second"
    process.kill()
    blind = Attached(world.runtime_dir, CUDA_VISIBLE_DEVICES="0")
    blind.tell("attach", name="c", pool=proposed.SerializeToString().hex())
    assert blind.process.wait(60), "it does not fall back in silence"
    blind.kill()


def test_pools_are_none_of_torchs_allocator_whatever_that_is_told(
    world: World, gpu: Gpu, beside_torch: dict[str, Attached]
) -> None:
    process, proposed = beside_torch["expandable"], pool("cuda", gpu, "beside")
    assert process.ask("allocate", size=1 << 20)["sum"] == 1 << 20
    process.attach("a", proposed)
    with HandDriven(world.runtime_dir, "b", proposed) as writer:
        memory(writer).write(3 * BLOCK_BYTES, b"beside")
        assert process.read(3 * BLOCK_BYTES, 6) == b"beside"


# -- the arena alone ---------------------------------------------------------------------------------------------------


def test_more_memory_than_there_is_is_refused_by_name(gpu: Gpu) -> None:
    with pytest.raises(ArenaError, match=f"{gpu.uuid} has no"):
        CudaArena.create(gpu.total // GRANULE * GRANULE, "device.whole", gpu_uuid=gpu.uuid)


def test_memory_comes_back_to_the_gpu_with_the_last_view_of_it(gpu: Gpu) -> None:
    with CudaArena.create(GRANULE, "device.first", gpu_uuid=gpu.uuid) as first:
        warmed = tensor_on_gpu(CudaMapping.of(first.extents, gpu_uuid=gpu.uuid))
        warmed[-1] = 3
        assert int(warmed[-1]) == 3
        del warmed
    before = used(gpu)
    arena = CudaArena.create(512 * GRANULE, "device.view", gpu_uuid=gpu.uuid)
    mapping = CudaMapping.of(arena.extents, gpu_uuid=gpu.uuid)
    view = tensor_on_gpu(mapping)
    arena.close()
    mapping.close()
    view[-1] = 3
    assert int(view[-1]) == 3
    assert used(gpu) - before >= 512 * GRANULE - SLACK
    del view, mapping
    wait_until(lambda: abs(used(gpu) - before) < SLACK, "it is back", 10)


def test_names_and_descriptors_alone_keep_the_contents(gpu: Gpu) -> None:
    arena = CudaArena.create(GRANULE, "device.kept", gpu_uuid=gpu.uuid)
    arena.grow(GRANULE)
    mapping = CudaMapping.of(arena.extents, gpu_uuid=gpu.uuid)
    mapping.write(GRANULE - 2, b"abcd")
    mapping.close()
    kept = {extent.name: os.dup(extent.descriptor) for extent in arena.extents if extent.descriptor is not None}
    arena.close()
    with CudaArena.adopt([CudaArena.kept(*each) for each in kept.items()], "device.kept", gpu_uuid=gpu.uuid) as again:
        assert CudaMapping.of(again.extents, gpu_uuid=gpu.uuid).read(GRANULE - 2, 4) == b"abcd"

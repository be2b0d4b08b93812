"""Memory of a GPU as manager and executors hold it, over a driver whose GPUs are files."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from blockmgr.arena import ArenaError, CudaArena, CudaIpcArena, CudaIpcMapping, CudaMapping, Extent, LabelMismatch
from blockmgr.arena import NoSuchGpu as NotThere
from blockmgr.arena.cuda import GRANULE
from blockmgr.arena.driver import visible_gpus
from blockmgr.arena.nvml import find_gpu, gpus
from blockmgr.processes import Process, ProcessError
from tests.fake_gpu import FIRST, SECOND, contexts, fake_gpus, forget_driver
from tests.unit.open_descriptors import await_closed, open_descriptors

LABEL = b"label of this pool"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """A machine of two GPUs."""
    with fake_gpus(tmp_path, (FIRST, SECOND), total=64 * GRANULE) as patch:
        yield patch


@pytest.fixture
def arena(machine: pytest.MonkeyPatch) -> Iterator[CudaArena]:
    with CudaArena.create(2 * GRANULE, "device.p", gpu_uuid=FIRST, label=LABEL) as arena:
        yield arena


def mapped(arena: CudaArena, reserve: int | None = None) -> CudaMapping:
    return CudaMapping.of(arena.extents, gpu_uuid=FIRST, reserve=reserve)


def copies(arena: CudaArena) -> dict[str, int]:
    """What a keeper holds: names and descriptors, and nothing else."""
    return {extent.name: os.dup(extent.descriptor) for extent in arena.extents if extent.descriptor is not None}


def test_the_manager_makes_and_grows_memory_without_a_context_and_leaks_no_descriptor_to_children(
    arena: CudaArena, tmp_path: Path
) -> None:
    arena.grow(GRANULE)
    assert contexts(tmp_path) == set()
    assert arena.size == 3 * GRANULE
    assert not any(os.get_inheritable(descriptor) for descriptor in copies(arena).values())
    assert not any(os.get_inheritable(e.descriptor) for e in arena.extents if e.descriptor is not None)


def test_new_memory_holds_anything_until_the_first_executor_has_made_it_ready(arena: CudaArena) -> None:
    mapping = mapped(arena)
    assert mapping.read(0, 8) != bytes(8)
    with pytest.raises(LabelMismatch, match="is other memory, or begins elsewhere"):
        mapping.check(LABEL)
    mapping.make_ready(LABEL)
    assert mapping.read(0, mapping.size) == bytes(mapping.size)
    mapped(arena).check(LABEL)
    with pytest.raises(LabelMismatch):
        mapping.check(b"another pool's")


def test_two_mappings_see_one_memory_at_addresses_that_stay_when_it_grows(arena: CudaArena) -> None:
    first, second = mapped(arena, 8 * GRANULE), mapped(arena, 8 * GRANULE)
    address = first.address
    new = arena.grow(2 * GRANULE)
    for mapping in (first, second):
        mapping.add(new)
    first.write(2 * GRANULE - 2, b"abcd")
    assert second.read(2 * GRANULE - 2, 4) == b"abcd", "the extents lie one behind the other"
    assert (first.address, first.size, first.reserve) == (address, 4 * GRANULE, 8 * GRANULE)


def test_a_second_extent_beyond_the_reserved_range_is_refused(arena: CudaArena) -> None:
    mapping = mapped(arena)
    with pytest.raises(ArenaError, match=f"{GRANULE} bytes do not fit: {2 * GRANULE} of {2 * GRANULE} reserved"):
        mapping.add(arena.grow(GRANULE))


def test_contents_outlive_the_maker_by_names_and_descriptors_alone(arena: CudaArena) -> None:
    arena.grow(GRANULE)
    mapped(arena).write(2 * GRANULE, b"kept")
    kept = copies(arena)
    arena.close()
    adopted = CudaArena.adopt([CudaArena.kept(*each) for each in kept.items()], "device.p", gpu_uuid=FIRST)
    with adopted:
        assert [extent.size for extent in adopted.extents] == [2 * GRANULE, GRANULE]
        assert mapped(adopted).read(2 * GRANULE, 4) == b"kept"
        assert adopted.grow(GRANULE).name == f"device.p.2@0+{GRANULE}"


def test_what_does_not_say_its_size_or_is_no_such_extent_is_not_adopted(arena: CudaArena) -> None:
    for name in ("device.p.0", f"device.p.0@{GRANULE}", "device.p@0+1", ""):
        with pytest.raises(ArenaError, match="does not say how large"):
            CudaArena.kept(name, 0)
    for extent in (Extent("x", GRANULE, None, b"handle", GRANULE), Extent("x", GRANULE, 0, offset=0)):
        with pytest.raises(ArenaError, match="is no extent 0 of a GPU's memory"):
            CudaArena.adopt([extent], "device.p", gpu_uuid=FIRST)
        with pytest.raises(ArenaError, match="is no extent 0 of a GPU's memory"):
            CudaMapping(FIRST, 8 * GRANULE).add(extent)


def test_a_descriptor_of_something_else_is_refused(machine: pytest.MonkeyPatch) -> None:
    memory = os.memfd_create("something else")
    with pytest.raises(ArenaError, match="cuMemImportFromShareableHandle fails: CUDA_ERROR_INVALID_VALUE"):
        CudaMapping(FIRST, GRANULE).add(Extent("x", GRANULE, memory, offset=GRANULE))
    os.close(memory)


def test_memory_that_is_smaller_than_announced_is_refused(arena: CudaArena) -> None:
    extent = arena.extents[0]
    with pytest.raises(ArenaError, match="cuMemMap fails"):
        CudaMapping(FIRST, 8 * GRANULE).add(Extent(extent.name, 4 * GRANULE, extent.descriptor, offset=GRANULE))


def test_trimming_drops_whole_extents_and_growing_takes_their_place(arena: CudaArena) -> None:
    mapping = mapped(arena, 8 * GRANULE)
    mapping.add(arena.grow(2 * GRANULE))
    assert arena.trim(3 * GRANULE) == (), "the extent that is cut stays"
    assert [extent.size for extent in arena.trim(2 * GRANULE)] == [2 * GRANULE]
    mapping.remove(2 * GRANULE)
    mapping.add(arena.grow(GRANULE))
    assert mapping.size == arena.size == 3 * GRANULE
    mapping.zero(2 * GRANULE, GRANULE)
    with pytest.raises(ArenaError, match="no extent ends at"):
        mapping.remove(GRANULE)


@pytest.mark.parametrize("size", [-GRANULE, 1, 5 * GRANULE])
def test_an_impossible_trim_changes_nothing(arena: CudaArena, size: int) -> None:
    with pytest.raises(ArenaError, match=str(size)):
        arena.trim(size)
    assert arena.size == 2 * GRANULE


@pytest.mark.parametrize("size", [0, -GRANULE, GRANULE + 4096])
def test_a_size_that_is_not_whole_granules_is_refused(machine: pytest.MonkeyPatch, size: int) -> None:
    for kind in (CudaArena, CudaIpcArena):
        with pytest.raises(ArenaError, match=f"{size} bytes is not a positive multiple of {GRANULE}"):
            kind.create(size, "device.p", gpu_uuid=FIRST)
    with pytest.raises(ArenaError, match=f"{size} bytes is not a positive multiple of {GRANULE}"):
        CudaMapping(FIRST, size)


def test_more_than_the_gpu_has_is_refused_with_both_its_name_and_the_size(machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArenaError, match=rf"{FIRST} has no {101 * GRANULE} bytes: .*OUT_OF_MEMORY"):
        CudaArena.create(100 * GRANULE, "device.p", gpu_uuid=FIRST)
    with pytest.raises(ArenaError, match="out of memory"):
        CudaIpcArena.create(100 * GRANULE, "device.p", gpu_uuid=FIRST)


def test_the_manager_finds_a_gpu_by_uuid_whatever_cuda_visible_devices_says(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("CUDA_VISIBLE_DEVICES", "1")
    with CudaArena.create(GRANULE, "device.p", gpu_uuid=FIRST):
        assert visible_gpus() == [FIRST, SECOND]


def test_a_gpu_that_is_not_in_the_machine_is_refused_with_those_that_are(machine: pytest.MonkeyPatch) -> None:
    other = FIRST.replace("1", "9")
    for kind in (CudaArena, CudaIpcArena):
        with pytest.raises(NotThere, match=rf"{other}.*{FIRST}, {SECOND}"):
            kind.create(GRANULE, "device.p", gpu_uuid=other)


def test_an_executor_attaches_by_uuid_and_is_refused_where_it_sees_another_gpu_only(
    arena: CudaArena, machine: pytest.MonkeyPatch
) -> None:
    with CudaArena.create(GRANULE, "device.q", gpu_uuid=SECOND) as other:
        machine.setenv("CUDA_VISIBLE_DEVICES", "1")
        forget_driver(machine)
        assert CudaMapping.of(other.extents, gpu_uuid=SECOND).ordinal == 0
        with pytest.raises(NotThere, match=rf"lies on {FIRST}, .* only {SECOND} \(CUDA_VISIBLE_DEVICES=1\)"):
            mapped(arena)


def test_memory_of_another_gpu_than_was_announced_is_not_mapped_in_silence(arena: CudaArena) -> None:
    with pytest.raises(NotThere, match=f"lies on {FIRST}, but {SECOND} was announced"):
        CudaMapping.of(arena.extents, gpu_uuid=SECOND)


def test_nvml_tells_of_every_gpu_whatever_cuda_visible_devices_says(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("CUDA_VISIBLE_DEVICES", "")
    assert [(gpu.index, gpu.uuid, gpu.total) for gpu in gpus()] == [
        (0, FIRST, 64 * GRANULE),
        (1, SECOND, 64 * GRANULE),
    ]
    assert find_gpu(SECOND).index == 1
    machine.setenv("FAKE_GPUS", "")
    with pytest.raises(ArenaError, match="NVML does not answer: Driver Not Loaded"):
        gpus()


def test_views_stay_valid_after_the_mapping_is_closed_and_addresses_go_with_the_last(arena: CudaArena) -> None:
    mapping = mapped(arena)
    owner = mapping.owner
    mapping.close()
    mapping.close()
    with pytest.raises(ArenaError, match="closed"):
        _ = mapping.address
    before = open_descriptors()
    del owner
    gc.collect()
    await_closed(before)
    assert "memfd:fake" not in Path("/proc/self/maps").read_text()


def test_making_mapping_and_dropping_leaves_no_descriptor_behind(machine: pytest.MonkeyPatch) -> None:
    before = open_descriptors()
    for _ in range(5):
        with CudaArena.create(GRANULE, "device.p", gpu_uuid=FIRST) as arena:
            mapped(arena).close()
            arena.grow(GRANULE)
            arena.trim(GRANULE)
    await_closed(before)


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (2 * GRANULE, 1), (0, 2 * GRANULE + 1), (5, -1)])
def test_a_range_outside_the_memory_is_refused(arena: CudaArena, offset: int, length: int) -> None:
    mapping = mapped(arena)
    with pytest.raises(ArenaError, match=f"{length} bytes at {offset} are outside"):
        mapping.zero(offset, length)
    with pytest.raises(ArenaError, match="cannot write a GPU's memory"):
        arena.zero(0, 1)
    with pytest.raises(ArenaError, match="cannot write a GPU's memory"):
        arena.write(0, b"x")


def test_a_gpu_that_is_shared_by_mps_is_refused_to_executors(
    arena: CudaArena, machine: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    mapped(arena)
    (tmp_path / "control").touch()
    with pytest.raises(ArenaError, match=f"{FIRST} is shared by MPS, under which a dead process does not prove"):
        mapped(arena)


# -- memory that goes by handle ----------------------------------------------------------------------------------------


def test_memory_by_handle_is_born_zero_and_labelled_and_lives_in_a_child(
    machine: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with CudaIpcArena.create(2 * GRANULE, "device.p", gpu_uuid=SECOND, label=LABEL) as arena:
        assert contexts(tmp_path) == {arena.holder_pid}, "the manager has no context"
        (extent,) = arena.extents
        assert (len(extent.handle), extent.offset, extent.size) == (64, GRANULE, 2 * GRANULE)
        mapping = CudaIpcMapping(extent, SECOND)
        mapping.check(LABEL)
        assert mapping.read(0, mapping.size) == bytes(2 * GRANULE)
        mapping.write(5, b"seen by others")
        assert CudaIpcMapping(extent, SECOND).read(5, 14) == b"seen by others"
        assert arena.lost() is None
    assert not Path(f"/proc/{arena.holder_pid}").exists()


def test_memory_by_handle_that_is_opened_without_its_offset_is_found_out(machine: pytest.MonkeyPatch) -> None:
    with CudaIpcArena.create(GRANULE, "device.p", gpu_uuid=FIRST, label=LABEL) as arena:
        (extent,) = arena.extents
        shifted = Extent(extent.name, extent.size, None, extent.handle, extent.offset - 64)
        with pytest.raises(LabelMismatch):
            CudaIpcMapping(shifted, FIRST).check(LABEL)


def test_the_death_of_the_child_is_the_end_of_the_memory(machine: pytest.MonkeyPatch) -> None:
    with CudaIpcArena.create(GRANULE, "device.p", gpu_uuid=FIRST) as arena:
        (extent,) = arena.extents
        os.kill(arena.holder_pid, 9)
        os.waitid(os.P_PID, arena.holder_pid, os.WEXITED | os.WNOWAIT)
        assert arena.lost() == f"process {arena.holder_pid}, which held it, has ended with -9"
        with pytest.raises(ArenaError, match=r"its handle cannot be opened here: .*invalid resource handle"):
            CudaIpcMapping(extent, FIRST)


def test_memory_by_handle_neither_grows_nor_comes_back(machine: pytest.MonkeyPatch) -> None:
    with CudaIpcArena.create(2 * GRANULE, "device.p", gpu_uuid=FIRST) as arena:
        with pytest.raises(ArenaError, match="cannot grow"):
            arena.grow(GRANULE)
        with pytest.raises(ArenaError, match="goes with the manager that made it"):
            CudaIpcArena.adopt(arena.extents, "device.p", gpu_uuid=FIRST)
        assert arena.trim(GRANULE) == ()
        assert arena.size == 2 * GRANULE
        assert len(arena.trim(0)) == 1
        assert arena.size == 0
        assert arena.lost() is None


def test_the_child_ends_with_the_manager_however_that_ends(machine: pytest.MonkeyPatch) -> None:
    program = (
        "import os\nfrom blockmgr.arena import CudaIpcArena\n"
        f"arena = CudaIpcArena.create({GRANULE}, 'p', gpu_uuid='{FIRST}')\n"
        "print(arena.holder_pid, flush=True)\nos.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == -9
    # By now there may be no process of that id.
    with suppress(ProcessError), Process.open(int(ended.stdout), "child") as child:
        assert child.wait(60), "it still holds the memory"


# -- what is missing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CudaArena, CudaIpcArena])
def test_a_machine_without_a_gpu_says_what_it_lacks(tmp_path: Path, kind: type[CudaArena | CudaIpcArena]) -> None:
    with fake_gpus(tmp_path, ()), pytest.raises(ArenaError, match=r"NO_DEVICE|NVML does not answer"):
        kind.create(GRANULE, "device.p", gpu_uuid=FIRST)


def test_packages_that_are_missing_are_named_with_what_installs_them(tmp_path: Path) -> None:
    with fake_gpus(tmp_path) as patch:
        for name in ("cuda.bindings", "pynvml"):
            patch.setitem(sys.modules, name, None)
        with pytest.raises(ArenaError, match=r"cuda-bindings is not installed: pip install 'pagehold\[cuda\]'"):
            CudaArena.create(GRANULE, "device.p", gpu_uuid=FIRST)
        with pytest.raises(ArenaError, match=r"nvidia-ml-py is not installed: pip install 'pagehold\[cuda\]'"):
            CudaIpcArena.create(GRANULE, "device.p", gpu_uuid=FIRST)

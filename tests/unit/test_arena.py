import fcntl
import gc
import mmap
import os
import stat
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from blockmgr.arena import (
    Arena,
    ArenaError,
    Extent,
    HostArena,
    HostMapping,
    arena_of_kind,
)
from tests.unit.open_descriptors import await_closed, open_descriptors

PAGE = mmap.PAGESIZE


@pytest.fixture
def arena() -> Iterator[HostArena]:
    with HostArena.create(4 * PAGE, "pool") as arena:
        yield arena


def descriptor(extent: Extent) -> int:
    assert extent.descriptor is not None
    return extent.descriptor


def pages_held(extent: Extent) -> int:
    return os.fstat(descriptor(extent)).st_blocks * 512 // PAGE


def test_new_memory_is_zero_takes_no_pages_and_is_open_to_the_owner_only(arena: HostArena) -> None:
    (extent,) = arena.extents
    found = os.fstat(descriptor(extent))
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_size == arena.size == 4 * PAGE
    assert pages_held(extent) == 0
    assert not os.get_inheritable(descriptor(extent))
    assert os.pread(descriptor(extent), 4 * PAGE, 0) == bytes(4 * PAGE)


def test_memory_cannot_be_shrunk_under_a_mapping_but_can_be_written(arena: HostArena) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor(arena.extents[0]), PAGE)
    assert fcntl.fcntl(descriptor(arena.extents[0]), fcntl.F_GET_SEALS) == fcntl.F_SEAL_SHRINK


def test_two_mappings_see_one_memory(arena: HostArena) -> None:
    writer = HostMapping.of(arena.extents, writable=True)
    reader = HostMapping.of(arena.extents, writable=False)
    writer.array[PAGE : PAGE + 3] = [1, 2, 3]
    assert reader.array[PAGE : PAGE + 3].tolist() == [1, 2, 3]
    assert reader.array.size == 4 * PAGE
    with pytest.raises(ValueError, match="read-only"):
        reader.array[0] = 1


def test_a_read_only_mapping_faults_when_written_past_numpy(arena: HostArena) -> None:
    program = (
        "import ctypes\nfrom blockmgr.arena import *\n"
        "m = HostMapping.of(HostArena.create(4096, 'pool').extents, writable=False)\n"
        "ctypes.memset(m.address, 1, 1)"
    )
    assert subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL).returncode == -11


def test_growing_keeps_addresses_contents_and_earlier_views(arena: HostArena) -> None:
    mapping = HostMapping.of(arena.extents, writable=True, reserve=1 << 40)
    early = mapping.array
    early[-1] = 7
    address = mapping.address
    mapping.add(arena.grow(2 * PAGE))
    assert [extent.name for extent in arena.extents] == ["pool.0", "pool.1"]
    assert arena.size == mapping.size == 6 * PAGE
    assert mapping.address == address
    assert early.size == 4 * PAGE
    whole = mapping.array
    whole[4 * PAGE] = 9
    assert whole[4 * PAGE - 1 : 4 * PAGE + 1].tolist() == [7, 9], "one contiguous range"
    assert os.pread(descriptor(arena.extents[1]), 1, 0) == b"\x09"


def test_an_extent_beyond_the_reserved_range_is_refused(arena: HostArena) -> None:
    mapping = HostMapping.of(arena.extents, writable=True)
    with pytest.raises(ArenaError, match=rf"{PAGE} bytes do not fit: {4 * PAGE} of {4 * PAGE} reserved"):
        mapping.add(arena.grow(PAGE))
    assert mapping.size == 4 * PAGE


def test_contents_outlive_the_maker(arena: HostArena) -> None:
    arena.write(5, b"kept")
    copies = [Extent(e.name, e.size, os.dup(descriptor(e))) for e in arena.extents]
    arena.close()
    with HostArena.adopt(copies, "pool") as adopted:
        assert HostMapping.of(adopted.extents, writable=False).array[5:9].tobytes() == b"kept"
        assert adopted.grow(PAGE).name == "pool.1"


def test_a_mapping_keeps_the_memory_without_any_descriptor() -> None:
    arena = HostArena.create(PAGE, "pool")
    mapping = HostMapping.of(arena.extents, writable=True)
    arena.close()
    mapping.array[:] = 3
    assert int(mapping.array.sum()) == 3 * PAGE


def test_trimming_gives_memory_back_although_an_executor_still_maps_it(arena: HostArena) -> None:
    arena.grow(2 * PAGE)
    arena.grow(PAGE)
    mapping = HostMapping.of(arena.extents, writable=True)
    mapping.array[:] = 1
    last = os.dup(descriptor(arena.extents[2]))
    gone = arena.trim(5 * PAGE)
    assert [extent.name for extent in gone] == ["pool.2"]
    assert [pages_held(extent) for extent in arena.extents] == [4, 1]
    assert os.fstat(last).st_blocks == 0
    os.close(last)
    assert arena.size == 6 * PAGE, "the extent that is cut keeps its addresses"
    assert mapping.array[: 5 * PAGE].all()
    assert not mapping.array[5 * PAGE :].any()


def test_trimming_at_a_boundary_drops_the_whole_extent_and_growing_takes_its_place(arena: HostArena) -> None:
    mapping = HostMapping.of(arena.extents, writable=True, reserve=8 * PAGE)
    mapping.add(arena.grow(2 * PAGE))
    mapping.array[:] = 1
    assert len(arena.trim(4 * PAGE)) == 1
    mapping.remove(4 * PAGE)
    assert mapping.size == arena.size == 4 * PAGE
    mapping.add(arena.grow(3 * PAGE))
    assert mapping.array[: 4 * PAGE].all()
    assert not mapping.array[4 * PAGE :].any()


@pytest.mark.parametrize("size", [-PAGE, 1, 5 * PAGE])
def test_an_impossible_trim_changes_nothing(arena: HostArena, size: int) -> None:
    arena.write(0, b"x")
    with pytest.raises(ArenaError, match=str(size)):
        arena.trim(size)
    assert os.pread(descriptor(arena.extents[0]), 1, 0) == b"x"


def test_zeroing_and_writing_cross_extents_and_touch_nothing_beside(arena: HostArena) -> None:
    arena.grow(PAGE)
    mapping = HostMapping.of(arena.extents, writable=True)
    mapping.array[:] = 1
    arena.zero(4 * PAGE - 10, 20)
    expected = np.ones(5 * PAGE, np.uint8)
    expected[4 * PAGE - 10 : 4 * PAGE + 10] = 0
    assert np.array_equal(mapping.array, expected)
    arena.write(4 * PAGE - 2, b"abcd")
    assert mapping.array[4 * PAGE - 2 : 4 * PAGE + 2].tobytes() == b"abcd"


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (4 * PAGE, 1), (0, 4 * PAGE + 1), (5, -1)])
def test_a_range_outside_the_memory_is_refused(arena: HostArena, offset: int, length: int) -> None:
    with pytest.raises(ArenaError, match=f"{length} bytes at {offset} are outside"):
        arena.zero(offset, length)


@pytest.mark.parametrize("size", [0, -PAGE, PAGE + 1])
def test_a_size_that_cannot_be_mapped_is_refused(size: int) -> None:
    with pytest.raises(ArenaError, match=f"{size} bytes is not a positive multiple of {PAGE}"):
        HostArena.create(size, "pool")
    with pytest.raises(ArenaError, match=f"{size} bytes is not a positive multiple of {PAGE}"):
        HostMapping(size, writable=True)


def test_a_descriptor_that_is_not_the_memory_it_claims_to_be_is_refused(arena: HostArena) -> None:
    unsealed = os.memfd_create("x", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(unsealed, PAGE)
    reading, writing = os.pipe()
    cases = {
        "is not sealed": Extent("x", PAGE, unsealed),
        "no memfd": Extent("x", PAGE, reading),
        f"holds {4 * PAGE} bytes where {8 * PAGE}": Extent("x", 8 * PAGE, arena.extents[0].descriptor),
        "comes as a descriptor": Extent("x", PAGE, None, b"handle"),
    }
    for reason, extent in cases.items():
        with pytest.raises(ArenaError, match=reason):
            HostArena.adopt([extent], "pool")
        with pytest.raises(ArenaError, match=reason):
            HostMapping(16 * PAGE, writable=True).add(extent)
    for number in (unsealed, reading, writing):
        os.close(number)


def test_views_stay_valid_after_the_mapping_is_closed_and_addresses_go_with_the_last_view(arena: HostArena) -> None:
    inode = str(os.fstat(descriptor(arena.extents[0])).st_ino)

    def mapped() -> bool:
        with open("/proc/self/maps") as maps:
            return any(line.split()[4] == inode and "memfd:pool.0" in line for line in maps)

    mapping = HostMapping.of(arena.extents, writable=True)
    view = mapping.array[10:20]
    mapping.close()
    mapping.close()
    view[:] = 5
    assert os.pread(descriptor(arena.extents[0]), 1, 10) == b"\x05"
    assert mapped()
    del view
    gc.collect()
    assert not mapped()
    with pytest.raises(ArenaError, match="closed"):
        _ = mapping.array


def test_making_and_dropping_arenas_leaves_no_descriptor_behind() -> None:
    before = open_descriptors()
    for _ in range(50):
        arena = HostArena.create(PAGE, "pool")
        arena.grow(PAGE)
        HostMapping.of(arena.extents, writable=True).close()
        arena.trim(PAGE)
        arena.close()
        arena.close()
    await_closed(before)


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    kind: type[Arena] = arena_of_kind("host")
    assert kind is HostArena
    with pytest.raises(ArenaError, match="'punched-cards' is not one of cuda, cuda-ipc, host"):
        arena_of_kind("punched-cards")

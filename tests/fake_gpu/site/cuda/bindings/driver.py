"""A stand-in for CUDA's driver, as far as pools use it. An allocation is a memfd that is filled with garbage."""

import ctypes
import mmap
import os
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any
from uuid import UUID

from blockmgr.arena.memfd import map_memory, unmap_memory

GRANULE = 2 << 20
GARBAGE = b"\xa5"
_FIXED, _NORESERVE, _PRIVATE_ANONYMOUS = 0x10, 0x4000, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class CUresult(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_DEVICE = 101
    CUDA_ERROR_INVALID_CONTEXT = 201


class CUmemAllocationType(IntEnum):
    CU_MEM_ALLOCATION_TYPE_PINNED = 1


class CUmemAllocationHandleType(IntEnum):
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1


class CUmemLocationType(IntEnum):
    CU_MEM_LOCATION_TYPE_DEVICE = 1


class CUmemAllocationGranularity_flags(IntEnum):
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0


class CUmemAccess_flags(IntEnum):
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3


class CUdevice_attribute(IntEnum):
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103


@dataclass
class CUmemLocation:
    type: int = 0
    id: int = 0


@dataclass
class CUmemAllocationProp:
    type: int = 0
    requestedHandleTypes: int = 0
    location: CUmemLocation = field(default_factory=CUmemLocation)


@dataclass
class CUmemAccessDesc:
    flags: int = 0
    location: CUmemLocation = field(default_factory=CUmemLocation)


@dataclass
class CUuuid:
    bytes: bytes


_gpus: list[str] = []
"""UUIDs of the GPUs that this process sees, from ``cuInit`` on."""
_mapped: dict[int, int] = {}
"""Size of each mapping, by its address."""
_current = False
OK = CUresult.CUDA_SUCCESS


def cuInit(flags: int) -> tuple[Any, ...]:
    everything = os.environ["FAKE_GPUS"].split(",") if os.environ.get("FAKE_GPUS") else []
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    named = everything if wanted is None else filter(None, wanted.split(","))
    _gpus[:] = [everything[int(name)] if name.isdecimal() else name for name in named if name]
    return (OK if _gpus else CUresult.CUDA_ERROR_NO_DEVICE,)


def cuDeviceGetCount() -> tuple[Any, ...]:
    return OK, len(_gpus)


def cuDeviceGet(ordinal: int) -> tuple[Any, ...]:
    return (OK, ordinal) if ordinal < len(_gpus) else (CUresult.CUDA_ERROR_INVALID_DEVICE, None)


def cuDeviceGetUuid(device: int) -> tuple[Any, ...]:
    return OK, CUuuid(UUID(_gpus[device].removeprefix("GPU-")).bytes)


def cuDeviceGetAttribute(attribute: int, device: int) -> tuple[Any, ...]:
    return OK, int(str(int(attribute)) not in os.environ.get("FAKE_GPU_LACKS", "").split(","))


def cuMemGetAllocationGranularity(prop: CUmemAllocationProp, option: int) -> tuple[Any, ...]:
    return OK, GRANULE


def cuMemCreate(size: int, prop: CUmemAllocationProp, flags: int) -> tuple[Any, ...]:
    if size % GRANULE or not size or prop.location.id >= len(_gpus) or prop.requestedHandleTypes != 1:
        return CUresult.CUDA_ERROR_INVALID_VALUE, None
    if size > int(os.environ["FAKE_GPU_BYTES"]):
        return CUresult.CUDA_ERROR_OUT_OF_MEMORY, None
    memory = os.memfd_create(f"fake {_gpus[prop.location.id]}")
    os.ftruncate(memory, size)
    for start in range(0, size, GRANULE):
        os.pwrite(memory, GARBAGE * GRANULE, start)
    return OK, memory


def cuMemRelease(handle: int) -> tuple[Any, ...]:
    os.close(handle)
    return (OK,)


def cuMemExportToShareableHandle(handle: int, kind: int, flags: int) -> tuple[Any, ...]:
    copy = os.dup(handle)
    os.set_inheritable(copy, True)
    return OK, copy


def cuMemImportFromShareableHandle(descriptor: int, kind: int) -> tuple[Any, ...]:
    if "memfd:fake" not in os.readlink(f"/proc/self/fd/{descriptor}"):
        return CUresult.CUDA_ERROR_INVALID_VALUE, None
    return OK, os.dup(descriptor)


def cuMemGetAllocationPropertiesFromHandle(handle: int) -> tuple[Any, ...]:
    uuid = os.readlink(f"/proc/self/fd/{handle}").split()[1]
    place = _gpus.index(uuid) if uuid in _gpus else -1
    return OK, CUmemAllocationProp(location=CUmemLocation(1, place))


def cuMemAddressReserve(size: int, alignment: int, address: int, flags: int) -> tuple[Any, ...]:
    if size % GRANULE:
        return CUresult.CUDA_ERROR_INVALID_VALUE, None
    return OK, map_memory(None, size, 0, _PRIVATE_ANONYMOUS | _NORESERVE, -1)


def cuMemAddressFree(address: int, size: int) -> tuple[Any, ...]:
    assert not any(address <= start < address + size for start in _mapped), "something is still mapped"
    unmap_memory(address, size)
    return (OK,)


def cuMemMap(address: int, size: int, offset: int, handle: int, flags: int) -> tuple[Any, ...]:
    if size % GRANULE or offset or size > os.fstat(handle).st_size or address in _mapped:
        return (CUresult.CUDA_ERROR_INVALID_VALUE,)
    map_memory(address, size, 0, mmap.MAP_SHARED | _FIXED, handle)
    _mapped[address] = size
    return (OK,)


def cuMemSetAccess(address: int, size: int, access: list[CUmemAccessDesc], count: int) -> tuple[Any, ...]:
    if _mapped.get(address) != size or access[0].flags != 3 or count != 1:
        return (CUresult.CUDA_ERROR_INVALID_VALUE,)
    _libc.mprotect(address, size, mmap.PROT_READ | mmap.PROT_WRITE)
    return (OK,)


def cuMemUnmap(address: int, size: int) -> tuple[Any, ...]:
    if _mapped.pop(address, None) != size:
        return (CUresult.CUDA_ERROR_INVALID_VALUE,)
    map_memory(address, size, 0, _PRIVATE_ANONYMOUS | _NORESERVE | _FIXED, -1)
    return (OK,)


def cuDevicePrimaryCtxRetain(device: int) -> tuple[Any, ...]:
    (Path(os.environ["FAKE_GPU_DIR"]) / f"context-{os.getpid()}").touch()
    return OK, device + 1000


def cuDevicePrimaryCtxRelease(device: int) -> tuple[Any, ...]:
    return (OK,)


def cuCtxSetCurrent(context: int) -> tuple[Any, ...]:
    global _current
    _current = True
    return (OK,)


def cuCtxSynchronize() -> tuple[Any, ...]:
    return (OK if _current else CUresult.CUDA_ERROR_INVALID_CONTEXT,)


def cuMemcpyDtoH(target: int, source: int, size: int) -> tuple[Any, ...]:
    if not _current:
        return (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
    ctypes.memmove(target, source, size)
    return (OK,)


def cuMemcpyHtoD(target: int, source: int, size: int) -> tuple[Any, ...]:
    return cuMemcpyDtoH(target, source, size)


def cuMemsetD8(target: int, value: int, size: int) -> tuple[Any, ...]:
    if not _current:
        return (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
    ctypes.memset(target, value, size)
    return (OK,)


def cuMemHostRegister(address: int, size: int, flags: int) -> tuple[Any, ...]:
    return (OK,)


def cuMemHostUnregister(address: int) -> tuple[Any, ...]:
    return (OK,)

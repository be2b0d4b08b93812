"""CUDA's driver as far as pools need it. It is loaded when it is first used, and nothing in here but `Context` makes a
CUDA context: the manager has none, so that no fault on a GPU can take it down.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from blockmgr.arena.base import ArenaError, ArenaUnavailable, NoSuchGpu

VISIBLE = "CUDA_VISIBLE_DEVICES"
MPS_FOLDER = "CUDA_MPS_PIPE_DIRECTORY"
OUT_OF_MEMORY = 2


class DriverError(ArenaError):
    """A call of the driver failed; the text names the call and the driver's own word for it."""

    def __init__(self, call: str, status: Any) -> None:
        super().__init__(f"{call} fails: {getattr(status, 'name', status)}")
        self.status = int(status)


@cache
def load() -> Any:
    """Return `cuda.bindings.driver`, initialised. The GPUs that this process sees are settled from then on.

    Raises:
        ArenaUnavailable: it is not installed, or there is no driver or no GPU.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise ArenaUnavailable("cuda-bindings is not installed: pip install 'pagehold[cuda]'") from error
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError as error:
        raise ArenaUnavailable(f"there is no CUDA driver: {error}") from error
    if int(status):
        raise DriverError("cuInit", status)
    return driver


def see_all_gpus() -> None:
    """Let this process see every GPU of the machine. Before the driver's first use; for the manager, who computes on none."""
    os.environ.pop(VISIBLE, None)


def is_shared_by_mps() -> bool:
    """Say whether NVIDIA's Multi-Process Service stands between processes and GPUs here.

    It runs the kernels of all of them in a context of its own, so that a process can be dead and its kernel not.
    """
    return (Path(os.environ.get(MPS_FOLDER) or "/tmp/nvidia-mps") / "control").exists()


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the driver, and return what it gives: nothing, one value, or several.

    Raises:
        DriverError: it failed.
    """
    status, *values = function(*arguments)
    if int(status):
        raise DriverError(function.__name__, status)
    return values[0] if len(values) == 1 else tuple(values)


def visible_gpus() -> list[str]:
    """Return the UUIDs of the GPUs that this process can use, by ordinal: torch's `cuda:0` is the first.

    Raises:
        ArenaUnavailable: as for `load`.
    """
    driver = load()
    return [
        f"GPU-{UUID(bytes=bytes(call(driver.cuDeviceGetUuid, call(driver.cuDeviceGet, ordinal)).bytes))}"
        for ordinal in range(call(driver.cuDeviceGetCount))
    ]


def ordinal_of(uuid: str) -> int:
    """Return the number under which this process sees a GPU.

    Raises:
        NoSuchGpu: it does not see it; those that it sees are named.
        ArenaUnavailable: as for `load`.
    """
    found = visible_gpus()
    if uuid in found:
        return found.index(uuid)
    hidden = os.environ.get(VISIBLE)
    limits = "" if hidden is None else f" ({VISIBLE}={hidden})"
    raise NoSuchGpu(f"the memory lies on {uuid}, but this process can use only {', '.join(found) or 'none'}{limits}")


def allocate(ordinal: int, size: int) -> int:
    """Make memory of `size` bytes on a GPU, mapped nowhere, and return a descriptor of it, which the caller owns.

    The memory lives as long as any copy of the descriptor or any mapping of it. What is in it is undefined.

    Raises:
        DriverError: there is not so much memory, or it cannot be shared by descriptor.
    """
    driver = load()
    handle = call(driver.cuMemCreate, size, _properties(driver, ordinal), 0)
    try:
        kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        descriptor = int(call(driver.cuMemExportToShareableHandle, handle, kind, 0))
    finally:
        call(driver.cuMemRelease, handle)
    # A copy inherited by a child would keep the memory, and would spoil the proof that a process is dead.
    os.set_inheritable(descriptor, False)
    return descriptor


def granularity(ordinal: int) -> int:
    """Return what sizes of memory on a GPU are multiples of, in bytes."""
    driver = load()
    least = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    return int(call(driver.cuMemGetAllocationGranularity, _properties(driver, ordinal), least))


def shares_by_descriptor(ordinal: int) -> bool:
    """Say whether memory of a GPU can be mapped at chosen addresses and passed on by descriptor."""
    driver = load()
    device, attributes = call(driver.cuDeviceGet, ordinal), driver.CUdevice_attribute
    needed = (
        attributes.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        attributes.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
    )
    return all(int(call(driver.cuDeviceGetAttribute, attribute, device)) for attribute in needed)


def _properties(driver: Any, ordinal: int) -> Any:
    wanted = driver.CUmemAllocationProp()
    wanted.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.requestedHandleTypes = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    wanted.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.location.id = ordinal
    return wanted

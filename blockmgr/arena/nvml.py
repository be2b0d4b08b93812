"""The machine's GPUs as NVML sees them: all of them, whatever CUDA_VISIBLE_DEVICES says, and without a CUDA context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from blockmgr.arena.base import ArenaUnavailable, NoSuchGpu


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: its number on this machine, its UUID ("GPU-…"), its name, and its memory in bytes."""

    index: int
    uuid: str
    name: str
    total: int
    free: int
    used: int


def gpus() -> list[Gpu]:
    """Return every GPU of this machine, in NVML's order, with its memory as it is now.

    Raises:
        ArenaUnavailable: NVML is not installed, or there is no driver.
    """
    with _nvml() as nvml:
        return [_describe(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]


def find_gpu(uuid: str) -> Gpu:
    """Return the GPU of this UUID.

    Raises:
        NoSuchGpu: it is not one of this machine's; those are named.
        ArenaUnavailable: as for `gpus`.
    """
    found = gpus()
    for gpu in found:
        if gpu.uuid == uuid:
            return gpu
    raise NoSuchGpu(f"GPU {uuid} is not in this machine: it has {', '.join(gpu.uuid for gpu in found) or 'none'}")


@contextmanager
def _nvml() -> Iterator[Any]:
    try:
        import pynvml
    except ImportError as error:
        raise ArenaUnavailable("nvidia-ml-py is not installed: pip install 'pagehold[cuda]'") from error
    try:
        pynvml.nvmlInit()
        try:
            yield pynvml
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise ArenaUnavailable(f"NVML does not answer: {error}") from error


def _describe(nvml: Any, index: int) -> Gpu:
    device = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(device)
    uuid, name = nvml.nvmlDeviceGetUUID(device), nvml.nvmlDeviceGetName(device)
    return Gpu(index, uuid, name, int(memory.total), int(memory.free), int(memory.used))

"""A stand-in for NVML: it sees every GPU, whatever CUDA_VISIBLE_DEVICES says."""

import os
from dataclasses import dataclass


class NVMLError(Exception):
    """What NVML raises."""


@dataclass
class Memory:
    total: int
    free: int
    used: int


def _gpus() -> list[str]:
    return os.environ["FAKE_GPUS"].split(",") if os.environ.get("FAKE_GPUS") else []


def nvmlInit() -> None:
    if not _gpus():
        raise NVMLError("Driver Not Loaded")


def nvmlShutdown() -> None:
    pass


def nvmlDeviceGetCount() -> int:
    return len(_gpus())


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetMemoryInfo(device: int) -> Memory:
    total = int(os.environ["FAKE_GPU_BYTES"])
    return Memory(total, total, 0)


def nvmlDeviceGetUUID(device: int) -> str:
    return _gpus()[device]


def nvmlDeviceGetName(device: int) -> str:
    return "Fake GPU"


def nvmlDeviceGetComputeRunningProcesses(device: int) -> list[object]:
    return []

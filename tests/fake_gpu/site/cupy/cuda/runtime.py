"""A stand-in for CUDA's runtime: memory is a file that goes by its path, and is good while its maker lives."""

import ctypes
import mmap
import os
from pathlib import Path

from blockmgr.arena.memfd import map_memory, unmap_memory

memcpyHostToDevice = 1
HANDLE_BYTES = 64
_made: dict[int, Path] = {}
_sizes: dict[int, int] = {}


class CUDARuntimeError(RuntimeError):
    """What the runtime raises."""


def _map(path: Path) -> int:
    size, file = path.stat().st_size, os.open(path, os.O_RDWR)
    address = map_memory(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file)
    os.close(file)
    _sizes[address] = size
    return address


def setDevice(device: int) -> None:
    pass


def deviceSynchronize() -> None:
    pass


def malloc(size: int) -> int:
    if size > int(os.environ["FAKE_GPU_BYTES"]):
        raise CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
    (folder := Path(os.environ["FAKE_GPU_DIR"])).joinpath(f"context-{os.getpid()}").touch()
    path = folder / f"{os.getpid()}-{len(_made)}"
    path.write_bytes(b"\xa5" * size)
    _made[address := _map(path)] = path
    return address


def memset(address: int, value: int, size: int) -> None:
    ctypes.memset(address, value, size)


def memcpy(target: int, source: int, size: int, kind: int) -> None:
    ctypes.memmove(target, source, size)


def ipcGetMemHandle(address: int) -> bytes:
    return _made[address].name.encode().ljust(HANDLE_BYTES, b"\0")


def ipcOpenMemHandle(handle: bytes) -> int:
    path = Path(os.environ["FAKE_GPU_DIR"]) / handle.rstrip(b"\0").decode()
    maker = int(path.name.split("-")[0])
    if maker == os.getpid() or not Path(f"/proc/{maker}").exists():
        raise CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
    return _map(path)


def ipcCloseMemHandle(address: int) -> None:
    unmap_memory(address, _sizes.pop(address))

"""A stand-in for cupy: an array over memory that it does not own, which others take through DLPack."""

import ctypes
from typing import Any

import numpy as np

from cupy import cuda as cuda

uint8 = np.uint8


class ndarray:
    """An array that keeps the memory's owner."""

    def __init__(self, shape: tuple[int, ...], dtype: type[np.uint8], memory: "cuda.MemoryPointer") -> None:
        unowned = memory.mem
        window = (ctypes.c_uint8 * unowned.size).from_address(unowned.ptr)
        window.owner = unowned.owner
        self._array = np.frombuffer(window, dtype).reshape(shape)

    def __dlpack__(self, **how: Any) -> Any:
        return self._array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

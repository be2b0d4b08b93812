"""A stand-in; see `tests.fake_gpu`."""

from dataclasses import dataclass

from cupy.cuda import runtime as runtime


@dataclass
class UnownedMemory:
    ptr: int
    size: int
    owner: object
    device_id: int


@dataclass
class MemoryPointer:
    mem: UnownedMemory
    offset: int

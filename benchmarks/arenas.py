"""What memory on a GPU costs before anything is computed in it: making, mapping, zeroing, growing, and giving it back.

    python -m benchmarks.arenas --gib 64

needs a GPU and takes a few seconds. Making is the manager's part, the rest an executor's.
"""

import argparse
import time
from collections.abc import Callable
from typing import TypeVar

from blockmgr.arena import CudaArena, CudaIpcArena, CudaIpcMapping, CudaMapping
from blockmgr.arena.driver import visible_gpus
from blockmgr.arena.nvml import find_gpu

LABEL = b"benchmark"
GIB = 1 << 30

Result = TypeVar("Result")


class Times:
    """Prints what each step takes, in milliseconds, and what of the GPU is in use after it."""

    def __init__(self, kind: str, uuid: str) -> None:
        self._kind = kind
        self._uuid = uuid
        self._base = find_gpu(uuid).used

    def __call__(self, what: str, work: Callable[[], Result]) -> Result:
        """Do a step's work, and return what it returned."""
        begun = time.perf_counter()
        result = work()
        took = time.perf_counter() - begun
        used = (find_gpu(self._uuid).used - self._base) / GIB
        print(f"{self._kind:<9} {what:<34} {1000 * took:9.2f} ms   {used:8.2f} GiB in use", flush=True)
        return result


def cuda(size: int, uuid: str) -> None:
    """By descriptor; grown once by an eighth."""
    times, more = Times("cuda", uuid), size // 8
    arena = times("make", lambda: CudaArena.create(size, "benchmark", gpu_uuid=uuid))
    mapping = times(
        "make a context, reserve, map", lambda: CudaMapping.of(arena.extents, gpu_uuid=uuid, reserve=size + more)
    )
    times("zero, label", lambda: mapping.make_ready(LABEL))
    times("compare the label", lambda: mapping.check(LABEL))
    second = times("map once more", lambda: CudaMapping.of(arena.extents, gpu_uuid=uuid))
    extent = times("grow by an eighth", lambda: arena.grow(more))
    times("map what it grew by", lambda: mapping.add(extent))
    second.close()
    times("unmap", mapping.close)
    times("close the descriptors", arena.close)


def cuda_ipc(size: int, uuid: str) -> None:
    """By handle, with the child that holds it."""
    times = Times("cuda-ipc", uuid)
    arena = times("make, zero, label, in a child", lambda: CudaIpcArena.create(size, "b", gpu_uuid=uuid, label=LABEL))
    mapping = times("open", lambda: CudaIpcMapping(arena.extents[0], uuid))
    times("compare the label", lambda: mapping.check(LABEL))
    times("close", mapping.close)
    times("end the child", arena.close)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=64.0, help="size of the pool in GiB (%(default)s)")
    size = int(parser.parse_args().gib * 4) * (GIB // 4)
    uuid = visible_gpus()[0]
    cuda(size, uuid)
    cuda_ipc(size, uuid)


if __name__ == "__main__":
    main()

"""How fast blocks go to the host tier of a pool on a GPU and back, beside a plain copy of as much pinned memory.

    python -m benchmarks.swap_rate [--blocks 1024] [--block-kib 2048] [--together 64]

needs a GPU and takes a few seconds. Blocks lie scattered in both tiers, as those of a sequence do after a while, and go as the
engine has them go: so many together, outward and inward over streams of their own, from and to shared memory that is
pinned. A plain copy is one of torch's, of the same bytes side by side.
"""

import argparse
import json
import random
import time
from collections.abc import Callable

import torch

from blockmgr.arena import CudaArena, CudaMapping, HostArena, HostMapping
from blockmgr.arena.driver import visible_gpus
from executor.engine.gpu.copies import BlockCopies
from executor.engine.gpu.lanes import Lane, Outcomes
from executor.engine.gpu.runtime import CudaRuntime
from executor.engine.gpu.staging import Staging
from executor.engine.step import Copy
from executor.manager.tensors import tensor_on_gpu, tensor_on_host

LABEL = b"benchmark"
ROUNDS = 5


class TwoTiers:
    """A pool on a GPU and its host tier, of as many blocks each, as a device sees them. Owns both; close it."""

    def __init__(self, blocks: int, block_bytes: int) -> None:
        uuid, size = visible_gpus()[0], blocks * block_bytes
        self.block_bytes = block_bytes
        self._arenas = CudaArena.create(size, "benchmark", gpu_uuid=uuid), HostArena.create(size, "benchmark")
        self._device = CudaMapping.of(self._arenas[0].extents, gpu_uuid=uuid)
        self._device.make_ready(LABEL)
        self.host = HostMapping.of(self._arenas[1].extents, writable=True)
        self._device.context.pin(self.host.address, self.host.size)

    def tensor(self) -> torch.Tensor:
        """See ``PoolMemory``."""
        return tensor_on_gpu(self._device)

    def host_tensor(self, pinned: bool = False) -> torch.Tensor:
        """See ``PoolMemory``: pinned in any case."""
        return tensor_on_host(self.host.array)

    def reach(self, block: int) -> None:
        """See ``PoolMemory``: all is mapped."""

    def close(self) -> None:
        """Give everything back."""
        self._device.context.unpin(self.host.address)
        self._device.close()
        self.host.close()
        for arena in self._arenas:
            arena.close()


class Rates:
    """Times copies both ways over the same memory."""

    def __init__(self, memory: TwoTiers, blocks: int, together: int) -> None:
        self._memory, self._blocks, self._together = memory, blocks, together
        self._runtime = CudaRuntime(torch.device("cuda", 0))
        self._outcomes = Outcomes(lambda: None)
        self._compute = Lane("compute", self._runtime, self._outcomes)
        staging = Staging(self._runtime, 1 << 16, 1 << 16)
        self._copies = BlockCopies(memory, self._runtime, self._compute, staging, self._outcomes)
        numbers = random.Random(0)
        here, there = (numbers.sample(range(blocks), blocks) for _ in range(2))
        self._pairs = list(zip(here, there, strict=True))

    def plain(self, inward: bool) -> float:
        """Bytes a second of one copy of everything."""
        device, host = self._memory.tensor(), self._memory.host_tensor()
        source, target = (host, device) if inward else (device, host)
        return self._best(lambda: target.copy_(source, non_blocking=True))

    def swapping(self, inward: bool) -> float:
        """Bytes a second of scattered blocks, as an engine has them copied."""
        tickets = iter(range(1, 1 << 30))
        copies = [
            Copy(next(tickets), there, here, source_on_host=True)
            if inward
            else Copy(next(tickets), here, there, destination_on_host=True)
            for here, there in self._pairs
        ]

        def work() -> None:
            for begin in range(0, len(copies), self._together):
                self._copies.launch(copies[begin : begin + self._together])
            while self._outcomes.completed < self._outcomes.serial:
                for done in self._outcomes.take():
                    self._copies.landed(done)
                time.sleep(0.0001)

        return self._best(work)

    def close(self) -> None:
        """End the threads."""
        self._copies.close()
        self._compute.close()

    def _best(self, work: Callable[[], object]) -> float:
        """The best of some rounds: what the way can carry, not what else the machine does meanwhile."""
        best = float("inf")
        for _ in range(ROUNDS):
            self._runtime.settle()
            began = time.perf_counter()
            work()
            self._runtime.settle()
            best = min(best, time.perf_counter() - began)
        return self._blocks * self._memory.block_bytes / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=1024)
    parser.add_argument("--block-kib", type=int, default=2048, help="KiB of a block (%(default)s: Llama-3.1-8B's)")
    parser.add_argument("--together", type=int, default=64, help="blocks that are copied by one command (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON, bytes a second, instead of lines")
    options = parser.parse_args()
    memory = TwoTiers(options.blocks, options.block_kib << 10)
    rates = Rates(memory, options.blocks, options.together)
    found = {}
    for way, inward in (("swap out", False), ("swap in", True)):
        plain, swap = rates.plain(inward), rates.swapping(inward)
        found[way] = {"plain": plain, "swap": swap}
        if not options.json:
            print(f"{way:<9} {swap / 1e9:6.1f} GB/s, plain copy {plain / 1e9:6.1f} GB/s: {100 * swap / plain:5.1f} %")
    if options.json:
        print(json.dumps(found))
    rates.close()
    memory.close()


if __name__ == "__main__":
    main()

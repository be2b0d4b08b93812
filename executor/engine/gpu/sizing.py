"""What a GPU's memory leaves to a pool: tried out, with the weights loaded and the largest steps run."""

import torch

from executor.engine.gpu.device import CudaDevice, Extent
from executor.engine.gpu.runtime import CudaRuntime
from executor.engine.gpu.warmup import try_largest
from executor.engine.model_inputs import Tables
from executor.models.model import PagedModel


class ScratchBlock:
    """A pool of the null block alone, for work over padding. The memory is this object's."""

    host = None

    def __init__(self, block_bytes: int, device: torch.device) -> None:
        self.block_bytes = block_bytes
        self._memory = torch.zeros(block_bytes, dtype=torch.uint8, device=device)

    def tensor(self) -> torch.Tensor:
        """See ``PoolMemory``."""
        return self._memory

    def host_tensor(self, pinned: bool = False) -> torch.Tensor:
        """See ``PoolMemory``. There is none."""
        raise ValueError("a scratch block has no host tier")

    def reach(self, block: int) -> None:
        """See ``PoolMemory``. Nothing is ever added."""


def memory_left(model: PagedModel, block_bytes: int, tables: Tables, extent: Extent, *, records: bool = True) -> int:
    """Bytes of the GPU's memory that are free while the largest steps of a model have what they need, recorded ones too if
    ``records``.

    Takes and gives back: afterwards only the weights are there.
    """
    device = CudaDevice(
        model,
        ScratchBlock(block_bytes, model.device),
        tables,
        model.vocab_size,
        extent,
        CudaRuntime(model.device),
        lambda: None,
        records=records,
    )
    try:
        try_largest(device)
        free, _ = torch.cuda.mem_get_info(model.device)
    finally:
        device.close()
        del device
        torch.cuda.empty_cache()
    return free

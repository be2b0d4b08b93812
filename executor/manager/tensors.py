"""Tensors over mapped memory, of which torch owns nothing: each keeps the mapping that it is made over."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from blockmgr.arena import ArenaUnavailable, GpuMapping

if TYPE_CHECKING:
    import torch


def tensor_on_host(memory: NDArray[np.uint8]) -> "torch.Tensor":
    """The host's memory as a tensor of bytes."""
    import torch

    return torch.from_numpy(memory)


def tensor_on_gpu(mapping: GpuMapping) -> "torch.Tensor":
    """A mapping's whole address range as a tensor of bytes ``[reserve]`` on its GPU, by way of cupy and DLPack.

    Raises ``ArenaUnavailable`` if cupy is not installed.
    """
    from torch.utils import dlpack

    try:
        import cupy
    except ImportError as error:
        raise ArenaUnavailable("cupy is not installed: pip install 'pagehold[cuda]'") from error
    memory = cupy.cuda.UnownedMemory(mapping.address, mapping.reserve, mapping.owner, mapping.ordinal)
    return dlpack.from_dlpack(cupy.ndarray((mapping.reserve,), cupy.uint8, cupy.cuda.MemoryPointer(memory, 0)))

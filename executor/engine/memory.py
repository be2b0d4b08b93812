"""The pool's memory as a device uses it, wherever it lies."""

from typing import Any, Protocol

import torch

from executor.models.model import PagedModel


class PoolMemory(Protocol):
    """A pool as this process has mapped it: what ``executor.manager.PoolMapping`` is to a device.

    The memory is the manager's. Blocks may be written as its replies allow.
    """

    block_bytes: int

    @property
    def host(self) -> Any:
        """The host tier; None without one."""

    def tensor(self) -> torch.Tensor:
        """All of the pool that may ever be mapped, flat, uint8, at an address that never changes."""

    def host_tensor(self, pinned: bool = False) -> torch.Tensor:
        """The host tier, flat, uint8."""

    def reach(self, block: int) -> None:
        """See to it that a block is mapped: the pool may have grown. Before the block is touched."""


def blocks_of(memory: torch.Tensor, block_bytes: int) -> torch.Tensor:
    """Whole blocks of flat memory: ``[blocks, block_bytes]``, a view."""
    blocks = len(memory) // block_bytes
    return memory[: blocks * block_bytes].view(blocks, block_bytes)


def pool_view(memory: PoolMemory, model: PagedModel, tokens_per_block: int) -> torch.Tensor:
    """The pool as the model has it: ``[num_blocks, num_layers, 2, key_value_heads, tokens_per_block, head_dim]``, those
    blocks included that may be mapped later. A view.
    """
    blocks = blocks_of(memory.tensor(), memory.block_bytes)
    return blocks.view(model.dtype).view(model.cache_shape.pool(len(blocks), tokens_per_block))

"""A pool of more elements than 32 bits count, in a file that is all holes but for the blocks in use."""

from __future__ import annotations

from pathlib import Path

import torch


def sparse_pool(folder: Path) -> torch.Tensor:
    """Return a float16 pool of 4100 blocks of 2^20 elements: offsets pass 2^31 at block 2048 and 2^32 at block 4096."""
    shape = (4100, 256, 2, 2, 16, 64)
    path = folder / "pool"
    path.touch()
    return torch.from_file(str(path), shared=True, size=4100 * 2**20, dtype=torch.float16).view(shape)

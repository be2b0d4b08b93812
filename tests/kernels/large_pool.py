"""A pool of more elements than 32 bits count, in a file that is all holes but for the blocks in use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from kernels.attention import paged_decode, paged_prefill
from tests.kernels.paged_batches import make_batch

_BLOCKS = 4100
_LAYERS = 256


def assert_large_block_ids_do_as_small_ones(folder: Path) -> None:
    """Compare attention on block ids whose offsets wrap in 32 bits with the same contents on small ids."""
    batch = make_batch([90, 20], [20, 1], heads=4, kv_heads=2, head_dim=64, block=16, dtype=torch.float16)
    # 2^20 elements a block, as in Llama-3.1-8B: offsets pass 2^31 at block 2048, and 2^32 at 4096.
    size = _BLOCKS * _LAYERS * 2 * 2 * 16 * 64
    path = folder / "pool"
    path.touch()
    pool = torch.from_file(str(path), shared=True, size=size, dtype=torch.float16)
    pool = pool.view(_BLOCKS, _LAYERS, 2, 2, 16, 64)
    assert pool.stride(0) == 2**20
    moved = torch.tensor([2047, 2048, 2049, 2050, 3000, 4000, 4095, 4096, 4097, 4099])
    used = batch.tables.unique().long()
    places = torch.zeros(int(used.max()) + 1, dtype=torch.int32)
    places[used] = moved[: len(used)].to(torch.int32)
    pool[moved[: len(used)], 200, 0] = batch.key_cache[used]
    pool[moved[: len(used)], 200, 1] = batch.value_cache[used]
    far = replace(batch, key_cache=pool[:, 200, 0], value_cache=pool[:, 200, 1], tables=places[batch.tables.long()])
    assert torch.equal(paged_prefill(*far.paged, scale=0.125), paged_prefill(*batch.paged, scale=0.125))
    far, batch = far.of_last_tokens(), batch.of_last_tokens()
    assert torch.equal(paged_decode(*far.last_tokens, scale=0.125), paged_decode(*batch.last_tokens, scale=0.125))

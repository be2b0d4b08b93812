"""Moves a batch onto chosen block ids of a pool of another size."""

from __future__ import annotations

from dataclasses import replace

import torch

from tests.kernels.paged_batches import Batch


def moved(batch: Batch, pool: torch.Tensor, layer: int, ids: list[int]) -> Batch:
    """Copy the blocks that a batch uses to the blocks `ids` of a layer of a pool, and return the batch that lies there.

    Args:
        batch: what to move; of one's device and type.
        pool: [blocks, layers, 2, KV heads, tokens_per_block, head_dim].
        layer: which layer's keys and values to write.
        ids: where to, at least as many as the tables name.
    """
    used = batch.tables.unique().long()
    assert len(used) <= len(ids)
    targets = torch.tensor(ids[: len(used)], device=used.device)
    pool[targets, layer, 0] = batch.key_cache[used]
    pool[targets, layer, 1] = batch.value_cache[used]
    places = torch.zeros(int(used.max()) + 1, dtype=torch.int32, device=used.device)
    places[used] = targets.to(torch.int32)
    return replace(
        batch, key_cache=pool[:, layer, 0], value_cache=pool[:, layer, 1], tables=places[batch.tables.long()]
    )

"""One layer's part of the pool during one step: writing this step's keys and values, and attending to all of them."""

import torch

from executor.models.batch import AttentionBatch
from executor.models.rope import RopeRows
from kernels.attention import paged_decode, paged_prefill
from kernels.rope_cache import rope_and_cache, write_cache


class LayerCache:
    """The keys and values of one layer. The pool stays its owner's; only the slots of `batch` are written."""

    def __init__(self, pool: torch.Tensor, layer: int, batch: AttentionBatch) -> None:
        self.layer = layer
        self._keys = pool[:, layer, 0]
        self._values = pool[:, layer, 1]
        self._batch = batch

    def write(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rope: RopeRows | None) -> torch.Tensor:
        """Rotate this step's query and key, and put key and value into the pool.

        Args:
            query: [T, query_heads, head_dim]; may be overwritten.
            key: [T, key_value_heads, head_dim]; may be overwritten.
            value: [T, key_value_heads, head_dim].
            rope: the rotations, or None to leave query and key as they are.

        Returns:
            The query to attend with.
        """
        if rope is None:
            write_cache(key, value, self._keys, self._values, self._batch.slots)
            return query
        rotated, _ = rope_and_cache(
            query, key, value, rope.cos, rope.sin, rope.rows, self._keys, self._values, self._batch.slots
        )
        return rotated

    def attend(self, query: torch.Tensor, scale: float, window: int = 0, softcap: float = 0.0) -> torch.Tensor:
        """Attention of query [T, query_heads, head_dim] to every key written so far that its position may see."""
        batch = self._batch
        if batch.is_decode:
            return paged_decode(
                query,
                self._keys,
                self._values,
                batch.tables,
                batch.lengths,
                scale=scale,
                window=window,
                softcap=softcap,
            )
        starts, out = batch.query_starts, None
        if batch.singles is not None:
            out, starts = query.new_empty(query.shape), batch.singles.chunk_starts
            rows = min(len(query), len(batch.lengths))
            # Rows that are none of these get zeros here, and what they are to have from what follows.
            paged_decode(
                query[:rows],
                self._keys,
                self._values,
                batch.tables[:rows],
                batch.singles.lengths[:rows],
                scale=scale,
                window=window,
                softcap=softcap,
                out=out[:rows],
            )
        return paged_prefill(
            query,
            self._keys,
            self._values,
            batch.tables,
            starts,
            batch.lengths,
            scale=scale,
            window=window,
            softcap=softcap,
            max_query=batch.max_query,
            out=out,
        )

"""The shapes of attention's tiles: a table keyed by what the model looks like, never by what the batch looks like."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch


@dataclass(frozen=True)
class Tiles:
    """How attention cuts its work for one kind of model.

    `tile_tokens` and `split_tokens` decide the order in which a row's keys are added up, so they decide its bits, and
    decode and prefill share them. The other fields only decide who computes what, and may be tuned apart.

    Attributes:
        columns: the head size, padded to a power of two.
        tile_tokens: keys that one step of the inner loop takes; tiles start at multiples of it.
        split_tokens: keys that are added up before they are merged with the ones before; a multiple of `tile_tokens`.
        decode_rows: rows of a decode tile: the query heads of one KV head, padded to what `tl.dot` takes.
        decode_programs: programs that a decode launch aims at: enough to level out sequences of unlike lengths, few enough
            that those without work cost little.
        decode_warps: warps of a decode program.
        decode_stages: how deep its loads are pipelined.
        decode_registers: the most registers that one of its threads may have, so that more programs fit an SM; None: any.
        prefill_rows: rows of a prefill tile: query tokens × query heads of one KV head.
        prefill_warps: warps of a prefill program.
        prefill_stages: how deep its loads are pipelined.
        prefill_merges_inside: whether a split is merged inside the loop over all tiles of keys, which then never runs dry;
            otherwise each split has a loop of its own, which takes fewer registers.
    """

    columns: int
    tile_tokens: int
    split_tokens: int
    decode_rows: int
    decode_programs: int
    decode_warps: int
    decode_stages: int
    decode_registers: int | None
    prefill_rows: int
    prefill_warps: int
    prefill_stages: int
    prefill_merges_inside: bool


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is not below `number`."""
    return 1 << (number - 1).bit_length()


@cache
def tiles(head_dim: int, ratio: int, dtype: torch.dtype) -> Tiles:
    """Return the tiles for heads of `head_dim` where one KV head serves `ratio` query heads.

    The split grows with the ratio, because a split's partial results are `ratio` rows of float32, and 512 tokens of KV
    would no longer outweigh them.
    """
    columns = power_of_two(head_dim)
    row_bytes = columns * dtype.itemsize
    split_tokens = 512 * max(1, power_of_two(ratio) // 8)
    rows = max(16, power_of_two(ratio))
    return Tiles(
        columns=columns,
        tile_tokens=64 if row_bytes <= 256 else 32,
        split_tokens=split_tokens,
        decode_rows=rows,
        decode_programs=4096,
        decode_warps=4,
        decode_stages=3,
        decode_registers=None,
        prefill_rows=max(32, min(128, 32768 // row_bytes)),
        prefill_warps=8,
        prefill_stages=3,
        prefill_merges_inside=row_bytes <= 256,
    )

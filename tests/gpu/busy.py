"""A kernel that is never done in time: it counts in one place of memory for minutes."""

import torch
import triton
import triton.language as tl


@triton.jit
def _count(place, rounds):
    for _ in range(rounds):
        tl.atomic_add(place, 1)


def count_up(place: torch.Tensor, rounds: int = 2_000_000_000) -> None:
    """Launch it on a tensor of one int32, and do not wait."""
    _count[(1,)](place, rounds)

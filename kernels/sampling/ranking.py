"""The likeliest tokens of each row with their log-probabilities: the head of the ranking that sampling draws from."""

from __future__ import annotations

import torch

_AT_ONCE = 32
"""Rows that are worked on together: what that takes for a large vocabulary is to be little beside everything else."""


def rank(logits: torch.Tensor, count: int, *, vocabulary: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the `count` likeliest tokens of each row.

    Tokens rank by logit, the lower id first among equal logits. A row's result depends on nothing but the row: not on how
    many rows there are.

    Args:
        logits: [rows, width] float32, bfloat16 or float16.
        count: how many, 1 to `vocabulary`.
        vocabulary: ids from here on are never named, because a head may be padded; `width` by default. They do count in
            the sum that makes probabilities.

    Returns:
        Ids [rows, count] int64 and natural logarithms of their probabilities [rows, count] float32, the likeliest first.
        NaN where a row holds one.

    Raises:
        ValueError: `vocabulary` is outside 1 to `width`, or `count` outside 1 to that.
    """
    width = logits.shape[1]
    limit = width if vocabulary is None else vocabulary
    if not 1 <= limit <= width:
        raise ValueError(f"vocabulary is {limit}; the logits have {width} columns, and it must be 1 to that")
    if not 1 <= count <= limit:
        raise ValueError(f"count is {count}; it must be 1 to {limit}")
    pieces = [_rank(rows, count, limit) for rows in logits.split(_AT_ONCE)]
    ids, logprobs = zip(*pieces, strict=True)
    return torch.cat(ids), torch.cat(logprobs)


def _rank(logits: torch.Tensor, count: int, limit: int) -> tuple[torch.Tensor, torch.Tensor]:
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    # Every key is another one, so that the greatest are the same wherever and however they are found.
    keys = _ordinal(logprobs[:, :limit]).bitwise_left_shift_(32)
    keys |= torch.arange(limit - 1, -1, -1, device=logits.device)
    ids = limit - 1 - (keys.topk(count, dim=-1).values & 0xFFFFFFFF)
    return ids, logprobs.gather(1, ids)


def _ordinal(values: torch.Tensor) -> torch.Tensor:
    """Whole numbers in the order of floats, as int64. The two zeros are one."""
    bits = (values + 0.0).view(torch.int32)
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()

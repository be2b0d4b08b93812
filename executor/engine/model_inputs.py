"""A step's arrays as the model's inputs, on the CPU."""

import numpy as np
import torch

from executor.engine.step import Ints, Step
from executor.models.batch import AttentionBatch


def row_of_token(step: Step) -> Ints:
    """Which row each token belongs to ``[T]``."""
    return np.repeat(np.arange(len(step.counts), dtype=np.int64), step.counts)


def flat_positions(step: Step) -> torch.Tensor:
    """Position of each token in its sequence ``[T]``, int64."""
    before = np.cumsum(step.counts) - step.counts
    return torch.from_numpy(np.arange(len(step.ids), dtype=np.int64) + np.repeat(step.starts - before, step.counts))


def attention_batch(step: Step, tables: torch.Tensor, tokens_per_block: int) -> AttentionBatch:
    """The step's sequences as attention wants them.

    Args:
        step: the step.
        tables: block tables by slot ``[slots, width]``, int32, the step's changes made.
        tokens_per_block: tokens that a block holds.
    """
    lengths = step.starts + step.counts
    width = -(-int(lengths.max()) // tokens_per_block)
    own = tables[torch.from_numpy(step.slots), :width]
    positions = flat_positions(step)
    blocks = own[torch.from_numpy(row_of_token(step)), positions // tokens_per_block].long()
    return AttentionBatch(
        tables=own,
        query_starts=torch.from_numpy(np.concatenate(([0], np.cumsum(step.counts))).astype(np.int32)),
        lengths=torch.from_numpy(lengths.astype(np.int32)),
        slots=blocks * tokens_per_block + positions % tokens_per_block,
        max_query=int(step.counts.max()),
        is_decode=bool((step.counts == 1).all()),
        rope_lengths=torch.from_numpy(step.rope_lengths.astype(np.int32)),
    )

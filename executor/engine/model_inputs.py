"""A step's arrays as tensors on the model's device, and the model's work over them.

Everything behind ``inputs_of`` is tensor work whose amount depends on shapes alone: it runs on a CPU, on a GPU's stream, and
can be recorded there once and replayed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from executor.engine.step import FROM_DEVICE, Step
from executor.models.batch import AttentionBatch
from executor.models.model import PagedModel

Put = Callable[[NDArray[Any]], torch.Tensor]
"""Brings an array to the model's device. The tensor is right when work behind it on the device's stream reads it."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Sizes of the device's block tables."""

    slots: int
    width: int
    tokens_per_block: int


class SlotState:
    """What a device keeps for each slot: block tables ``[slots + 1, width]`` int32, and the id sampled last
    ``[slots + 1]`` int64. The slot behind the last one is nobody's: padding has it, and its table names the null block.
    """

    def __init__(self, sizes: Tables, device: torch.device) -> None:
        self.sizes = sizes
        self.tables = torch.zeros((sizes.slots + 1, sizes.width), dtype=torch.int32, device=device)
        self.last_ids = torch.zeros(sizes.slots + 1, dtype=torch.int64, device=device)

    @property
    def padding(self) -> int:
        """The slot of padding."""
        return self.sizes.slots

    def places(self, slots: NDArray[np.int64], indexes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where entries of tables stand among all entries."""
        return slots * self.sizes.width + indexes

    def change(self, places: torch.Tensor, blocks: torch.Tensor) -> None:
        """Enter blocks at ``places``, none twice."""
        self.tables.view(-1)[places] = blocks.to(torch.int32)


@dataclass(frozen=True, slots=True)
class Inputs:
    """A step of S rows with T tokens, row after row, on the model's device. A row of padding has length 0, and its token
    position -1.
    """

    slots: torch.Tensor
    """Slot of each row ``[S]``, int64."""
    ids: torch.Tensor
    """Token ids, or ``FROM_DEVICE`` ``[T]``, int64."""
    positions: torch.Tensor
    """Position of each token in its sequence ``[T]``, int64."""
    rows: torch.Tensor
    """Which row each token belongs to ``[T]``, int64."""
    query_starts: torch.Tensor
    """Where each row's tokens start, and T ``[S + 1]``, int32."""
    lengths: torch.Tensor
    """Tokens of each sequence, those of this step included ``[S]``, int32."""
    rope_lengths: torch.Tensor
    """See ``AttentionBatch`` ``[S]``, int32."""
    width: int
    """Entries of a table that the longest sequence needs, at least."""
    max_query: int
    """Tokens of the row with most."""


def padded(step: Step, rows: int, slot: int) -> Step:
    """The step with so many rows of padding behind its own, each of one token at position -1."""
    if not rows:
        return step

    def more(array: NDArray[np.int64], value: int) -> NDArray[np.int64]:
        return np.concatenate((array, np.full(rows, value, dtype=np.int64)))

    return Step(
        number=step.number,
        slots=more(step.slots, slot),
        starts=more(step.starts, -1),
        counts=more(step.counts, 1),
        ids=more(step.ids, 0),
        rope_lengths=more(step.rope_lengths, 1),
        changes=step.changes,
        sampling=step.sampling,
    )


def inputs_of(step: Step, tokens_per_block: int, put: Put) -> Inputs:
    """Bring a step to the device."""
    before = np.cumsum(step.counts) - step.counts
    lengths = step.starts + step.counts
    rows = np.repeat(np.arange(len(step.counts), dtype=np.int64), step.counts)
    positions = np.arange(len(step.ids), dtype=np.int64) + (step.starts - before)[rows]
    return Inputs(
        slots=put(step.slots),
        ids=put(step.ids),
        positions=put(positions),
        rows=put(rows),
        query_starts=put(np.append(before, len(step.ids)).astype(np.int32)),
        lengths=put(lengths.astype(np.int32)),
        rope_lengths=put(step.rope_lengths.astype(np.int32)),
        width=max(-(-int(lengths.max()) // tokens_per_block), 1),
        max_query=int(step.counts.max()),
    )


def forward(model: PagedModel, inputs: Inputs, state: SlotState, pool: torch.Tensor) -> torch.Tensor:
    """Run the model over a step. Returns hidden states ``[T, hidden_size]``, those of padding without meaning."""
    size = state.sizes.tokens_per_block
    tables = state.tables[:, : inputs.width][inputs.slots]
    fed = inputs.positions.clamp(min=0)
    blocks = tables[inputs.rows, fed // size].long()
    batch = AttentionBatch(
        tables=tables,
        query_starts=inputs.query_starts,
        lengths=inputs.lengths,
        slots=(blocks * size + fed % size).masked_fill(inputs.positions < 0, -1),
        max_query=inputs.max_query,
        is_decode=inputs.max_query == 1,
        rope_lengths=inputs.rope_lengths,
    )
    ids = torch.where(inputs.ids == FROM_DEVICE, state.last_ids[inputs.slots[inputs.rows]], inputs.ids)
    return model.forward(ids, fed, batch, pool)

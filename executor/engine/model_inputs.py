"""A step's arrays as tensors on the model's device, and the model's work over them.

Everything behind ``Inputs`` is tensor work whose amount depends on shapes alone: it runs on a CPU, on a GPU's stream, and
can be recorded there once and replayed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from executor.engine.step import FROM_DEVICE, Ints, Step
from executor.models.batch import AttentionBatch, Singles
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

    def places(self, slots: Ints, indexes: Ints) -> Ints:
        """Where entries of tables stand among all entries."""
        return slots * self.sizes.width + indexes

    def change(self, places: torch.Tensor, blocks: torch.Tensor) -> None:
        """Enter blocks at ``places``, none twice."""
        self.tables.view(-1)[places] = blocks.to(torch.int32)


@dataclass(frozen=True, slots=True)
class Inputs:
    """A step of S rows with T tokens, row after row, on the model's device. A row of padding has length 0; a token of
    padding has position -1, and may stand behind those of all rows.
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
    """Where each row's tokens start, and where the last one's end ``[S + 1]``, int32."""
    lengths: torch.Tensor
    """Tokens of each sequence, those of this step included ``[S]``, int32."""
    rope_lengths: torch.Tensor
    """See ``AttentionBatch`` ``[S]``, int32."""
    width: int
    """Entries of a table that the longest sequence needs, at least."""
    max_query: int
    """Tokens of the row with most."""
    singles: torch.Tensor | None = None
    """How many rows at the beginning have one token ``[1]``, int64, where they are to be told from those behind them."""


@dataclass(frozen=True, slots=True)
class InputArrays:
    """What ``Inputs`` has, as arrays of int64 on the host."""

    slots: Ints
    ids: Ints
    positions: Ints
    rows: Ints
    query_starts: Ints
    lengths: Ints
    rope_lengths: Ints
    width: int
    max_query: int
    singles: int
    """Rows at the beginning that have one token."""

    @classmethod
    def of(cls, step: Step, tokens_per_block: int) -> "InputArrays":
        """A step's."""
        before = np.cumsum(step.counts) - step.counts
        lengths = step.starts + step.counts
        rows = np.repeat(np.arange(len(step.counts), dtype=np.int64), step.counts)
        return cls(
            slots=step.slots,
            ids=step.ids,
            positions=np.arange(len(step.ids), dtype=np.int64) + (step.starts - before)[rows],
            rows=rows,
            query_starts=np.append(before, len(step.ids)),
            lengths=lengths,
            rope_lengths=step.rope_lengths,
            width=max(-(-int(lengths.max()) // tokens_per_block), 1),
            max_query=int(step.counts.max()),
            singles=int(np.argmax(np.append(step.counts, 2) > 1)),
        )

    def padded(self, rows: int, tokens: int, slot: int) -> "InputArrays":
        """The same with padding up to so many rows and tokens: rows of one token each, where all others are, too; or else
        rows without tokens, and tokens of no row, which nothing is computed for that counts.
        """
        more_rows, more = rows - len(self.slots), tokens - len(self.ids)
        if not (more_rows or more):
            return self
        each = 1 if self.max_query == 1 and more_rows == more else 0
        end = len(self.ids)
        return InputArrays(
            slots=_longer(self.slots, more_rows, slot),
            ids=_longer(self.ids, more, 0),
            positions=_longer(self.positions, more, -1),
            rows=np.append(self.rows, len(self.slots) + np.arange(more) if each else np.zeros(more, dtype=np.int64)),
            query_starts=np.append(self.query_starts, end + each * np.arange(1, more_rows + 1)),
            lengths=_longer(self.lengths, more_rows, 0),
            rope_lengths=_longer(self.rope_lengths, more_rows, 1),
            width=self.width,
            max_query=self.max_query,
            singles=self.singles,
        )

    def put(self, put: Put, *, split: bool = False) -> Inputs:
        """Bring them to the device. ``split``: single tokens are told from chunks."""
        return Inputs(
            slots=put(self.slots),
            ids=put(self.ids),
            positions=put(self.positions),
            rows=put(self.rows),
            query_starts=put(self.query_starts.astype(np.int32)),
            lengths=put(self.lengths.astype(np.int32)),
            rope_lengths=put(self.rope_lengths.astype(np.int32)),
            width=self.width,
            max_query=self.max_query,
            singles=put(np.array([self.singles], dtype=np.int64)) if split else None,
        )


def _longer(array: Ints, count: int, value: int) -> Ints:
    return np.append(array, np.full(count, value, dtype=np.int64))


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
        singles=_singles(inputs),
    )
    ids = torch.where(inputs.ids == FROM_DEVICE, state.last_ids[inputs.slots[inputs.rows]], inputs.ids)
    return model.forward(ids, fed, batch, pool)


def _singles(inputs: Inputs) -> Singles | None:
    if inputs.singles is None or inputs.max_query == 1:
        return None
    numbers = torch.arange(len(inputs.lengths), device=inputs.lengths.device)
    return Singles(
        lengths=inputs.lengths.masked_fill(numbers >= inputs.singles, 0),
        chunk_starts=torch.maximum(inputs.query_starts, inputs.singles.to(torch.int32)),
    )

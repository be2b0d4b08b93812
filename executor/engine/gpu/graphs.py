"""Decode steps recorded as CUDA graphs: one launch instead of hundreds, for steps of one token a row."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from executor.engine.gpu.runtime import Runtime, Stream
from executor.engine.model_inputs import Inputs, SlotState
from executor.engine.step import Ints, Step

LEAST_ROWS = 8
"""Rows of a step at least. From here on no matrix product's row depends on how many there are, where they are pinned."""

FIRST_WIDTH, WIDTH_GROWTH = 2048, 4
"""Tokens of the longest sequence that the narrowest tables are made for, and the factor between widths."""

Forward = Callable[[Inputs], torch.Tensor]


def row_counts(most: int) -> list[int]:
    """Numbers of rows to record, in ascending order: each step is filled up to one of them, with padding of less than an
    eighth from 64 rows on. The last is ``most``, filled up to a multiple of ``LEAST_ROWS``.
    """
    counts, step = [], LEAST_ROWS
    count = LEAST_ROWS
    while count < most:
        counts.append(count)
        step = max(LEAST_ROWS, 1 << (count.bit_length() - 1) >> 3)
        count += step
    return [*counts, -(-most // LEAST_ROWS) * LEAST_ROWS]


def table_widths(most: int, tokens_per_block: int) -> list[int]:
    """Widths of block tables to record, in ascending order. Attention's workspace and its idle programs grow with the
    width, so that short sequences are not to pay for the longest possible one.
    """
    widths, width = [], -(-FIRST_WIDTH // tokens_per_block)
    while width < most:
        widths.append(width)
        width *= WIDTH_GROWTH
    return [*widths, most]


@dataclass(frozen=True, slots=True)
class DecodeGraph:
    """One recorded step."""

    rows: int
    width: int
    replay: Callable[[], None]


class DecodeGraphs:
    """Recorded decode steps by rows and width. All read the same inputs and leave hidden states in the same place, and
    work in the same memory: they are replayed one after the other, on one stream.

    Owns inputs ``[4, rows]`` (slots, starts, ids, rope lengths) and hidden states ``[rows, hidden_size]``.
    """

    def __init__(self, runtime: Runtime, state: SlotState, most_rows: int) -> None:
        self._runtime = runtime
        self._state = state
        self._counts = row_counts(most_rows)
        self._widths = table_widths(state.sizes.width, state.sizes.tokens_per_block)
        rows, device = self._counts[-1], runtime.device
        self._fed = torch.zeros((4, rows), dtype=torch.int64, device=device)
        self._fed[0] = state.padding
        self._fed[1] = -1
        self._row_numbers = torch.arange(rows, device=device)
        self._query_starts = torch.arange(rows + 1, dtype=torch.int32, device=device)
        self._hidden: torch.Tensor | None = None
        self._graphs: dict[tuple[int, int], DecodeGraph] = {}

    @property
    def wanted(self) -> list[tuple[int, int]]:
        """Rows and widths to be recorded, largest first, so that the rest fits into the memory of the first."""
        return [(rows, width) for rows in reversed(self._counts) for width in reversed(self._widths)]

    def __len__(self) -> int:
        return len(self._graphs)

    def find(self, rows: int, width: int) -> DecodeGraph | None:
        """The smallest recorded step that holds so many rows and such tables, if there is one."""
        if rows > self._counts[-1] or width > self._widths[-1]:
            return None
        fitting = self._counts[bisect_left(self._counts, rows)], self._widths[bisect_left(self._widths, width)]
        return self._graphs.get(fitting)

    def record(self, stream: Stream, rows: int, width: int, forward: Forward) -> None:
        """Record ``forward`` for so many rows and such tables. Waits for the GPU."""
        hidden = self._hidden
        if hidden is None:
            raise RuntimeError("nothing can be recorded before it was done once, by `try_out`")

        def work() -> None:
            hidden[:rows].copy_(forward(self._inputs(rows, width)))

        self._graphs[rows, width] = DecodeGraph(rows, width, self._runtime.record(stream, work))

    def try_out(self, rows: int, width: int, forward: Forward) -> None:
        """Do what is to be recorded, over rows of padding: what it needs is compiled and loaded then."""
        made = forward(self._inputs(rows, width))
        if self._hidden is None:
            self._hidden = torch.zeros((self._counts[-1], made.shape[1]), dtype=made.dtype, device=made.device)

    def _inputs(self, rows: int, width: int) -> Inputs:
        """Inputs of so many rows, made of what stands in the memory that recorded steps read: part of the recorded work."""
        slots, starts, ids, rope_lengths = (row[:rows] for row in self._fed)
        return Inputs(
            slots=slots,
            ids=ids,
            positions=starts,
            rows=self._row_numbers[:rows],
            query_starts=self._query_starts[: rows + 1],
            lengths=(starts + 1).to(torch.int32),
            rope_lengths=rope_lengths.to(torch.int32),
            width=width,
            max_query=1,
        )

    def array(self, graph: DecodeGraph, step: Step) -> Ints:
        """A step's rows as a recorded one takes them ``[4, rows]``, filled up with padding."""
        rows = len(step.slots)
        fed = np.empty((4, graph.rows), dtype=np.int64)
        fed[:, rows:] = ((self._state.padding,), (-1,), (0,), (1,))
        fed[0, :rows], fed[1, :rows], fed[2, :rows], fed[3, :rows] = (
            step.slots,
            step.starts,
            step.ids,
            step.rope_lengths,
        )
        return fed

    def replay(self, graph: DecodeGraph, fed: torch.Tensor) -> torch.Tensor:
        """Do a recorded step over ``fed``, on the current stream. Returns hidden states ``[rows, hidden_size]``, which the
        next one overwrites.
        """
        assert self._hidden is not None
        self._fed[:, : graph.rows].copy_(fed)
        graph.replay()
        return self._hidden[: graph.rows]

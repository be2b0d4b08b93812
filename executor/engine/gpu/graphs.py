"""Steps recorded as CUDA graphs: one launch instead of hundreds."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from executor.engine.gpu.runtime import Runtime, Stream
from executor.engine.model_inputs import InputArrays, Inputs, SlotState
from executor.engine.step import Ints

LEAST_ROWS = 8
"""Rows of a product at least. From here on no matrix product's row depends on how many there are, where they are pinned."""

LEAST_TOKENS, MOST_TOKENS = 32, 2048
"""Tokens of recorded steps with chunks of prompts. Larger ones take a GPU longer than it takes to launch them, but for small
models.
"""

ROW_PART, TOKEN_PART = 4, 8
"""Steps are filled up by less than this part of them. Rows of decode cost a GPU little; each recorded step costs time at the
start.
"""

FIRST_WIDTH, WIDTH_GROWTH = 2048, 4
"""Tokens of the longest sequence that the narrowest tables are made for, and the factor between widths."""

Forward = Callable[[Inputs], torch.Tensor]


def counts_up_to(most: int, least: int, part: int) -> list[int]:
    """Numbers of rows or tokens to record, ascending, in multiples of ``least``: each step is filled up to one of them, by
    less than ``least`` or less than a ``part``-th. The last is ``most``, filled up to such a multiple.
    """
    counts, count = [], least
    while count < most:
        counts.append(count)
        count += max(least, (1 << (count.bit_length() - 1)) // part // least * least)
    return [*counts, -(-most // least) * least]


def table_widths(most: int, tokens_per_block: int) -> list[int]:
    """Widths of block tables to record decode steps for, ascending. Decode's workspace and its idle programs grow with the
    width: short sequences are not to pay for the longest possible one. The last is ``most``, the one before it at most half.
    """
    widths, width = [], -(-FIRST_WIDTH // tokens_per_block)
    while 2 * width <= most:
        widths.append(width)
        width *= WIDTH_GROWTH
    return [*widths, most]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a recorded step has room for: rows, tokens, and entries of each row's table."""

    rows: int
    tokens: int
    width: int
    is_decode: bool
    """Each row has one token. Otherwise chunks of prompts and single tokens may be mixed."""

    @property
    def parts(self) -> list[int]:
        """Lengths of a step's arrays, in the order in which they lie one behind the other."""
        return [self.tokens] * 3 + [self.rows] * 3 + [self.rows + 1, 1]


class StepGraphs:
    """Recorded steps by shape. All read the same inputs and leave hidden states in the same place, and work in the same
    memory: they are replayed one after the other, on one stream.

    Steps of one token a row are recorded by rows and width, others by tokens alone, with as many rows and as wide tables as
    there may be: neither costs them anything.
    """

    def __init__(self, runtime: Runtime, state: SlotState, most_rows: int, most_tokens: int) -> None:
        self._runtime = runtime
        self._state = state
        self._rows = counts_up_to(most_rows, LEAST_ROWS, ROW_PART)
        self._widths = table_widths(state.sizes.width, state.sizes.tokens_per_block)
        self._tokens = counts_up_to(min(most_tokens, MOST_TOKENS), LEAST_TOKENS, TOKEN_PART)
        room = max(sum(shape.parts) for shape in self.wanted)
        self._fed = torch.zeros(room, dtype=torch.int64, device=runtime.device)
        self._hidden: torch.Tensor | None = None
        self._graphs: dict[Shape, Callable[[], None]] = {}

    @property
    def wanted(self) -> list[Shape]:
        """Shapes to be recorded, largest first, so that the rest fits into the memory of the first."""
        most, widest = self._rows[-1], self._widths[-1]
        mixed = [Shape(most, tokens, widest, is_decode=False) for tokens in reversed(self._tokens)]
        return mixed + [
            Shape(rows, rows, width, is_decode=True)
            for rows in reversed(self._rows)
            for width in reversed(self._widths)
        ]

    def __len__(self) -> int:
        return len(self._graphs)

    def find(self, arrays: InputArrays) -> Shape | None:
        """The smallest recorded shape that has room for a step, if there is one."""
        rows = len(arrays.slots)
        if arrays.max_query == 1:
            filled = _least(self._rows, rows)
            shape = Shape(filled, filled, _least(self._widths, arrays.width), is_decode=True)
        else:
            filled = _least(self._tokens, len(arrays.ids))
            shape = Shape(self._rows[-1], filled, self._widths[-1], is_decode=False)
        return shape if shape in self._graphs and rows <= shape.rows else None

    def record(self, stream: Stream, shape: Shape, forward: Forward) -> None:
        """Record ``forward`` for a shape. Waits for the GPU."""
        hidden = self._hidden
        if hidden is None:
            raise RuntimeError("nothing can be recorded before it was done once, by `try_out`")

        def work() -> None:
            hidden[: shape.tokens].copy_(forward(self._inputs(shape)))

        self._graphs[shape] = self._runtime.record(stream, work)

    def try_out(self, shape: Shape, forward: Forward) -> None:
        """Do what is to be recorded, over padding alone: what it needs is compiled and loaded then."""
        nothing = np.zeros(0, dtype=np.int64)
        starts = np.zeros(1, dtype=np.int64)
        padding = self.array(shape, InputArrays(nothing, nothing, nothing, nothing, starts, nothing, nothing, 1, 1, 0))
        self._fed[: len(padding)].copy_(torch.from_numpy(padding))
        made = forward(self._inputs(shape))
        if self._hidden is None:
            most = max(shape.tokens for shape in self.wanted)
            self._hidden = torch.zeros((most, made.shape[1]), dtype=made.dtype, device=made.device)

    def _inputs(self, shape: Shape) -> Inputs:
        """Inputs made of what stands in the memory that recorded steps read: part of the recorded work."""
        parts = self._fed[: sum(shape.parts)].split(shape.parts)
        ids, positions, rows, slots, lengths, rope_lengths, query_starts, singles = parts
        return Inputs(
            slots=slots,
            ids=ids,
            positions=positions,
            rows=rows,
            query_starts=query_starts.to(torch.int32),
            lengths=lengths.to(torch.int32),
            rope_lengths=rope_lengths.to(torch.int32),
            width=shape.width,
            max_query=1 if shape.is_decode else max(shape.tokens, 2),
            singles=singles,
        )

    def array(self, shape: Shape, arrays: InputArrays) -> Ints:
        """A step's arrays as a recorded one takes them, one behind the other, filled up with padding."""
        full = arrays.padded(shape.rows, shape.tokens, self._state.padding)
        rows = full.slots, full.lengths, full.rope_lengths, full.query_starts, [full.singles]
        return np.concatenate((full.ids, full.positions, full.rows, *rows))

    def replay(self, shape: Shape, fed: torch.Tensor) -> torch.Tensor:
        """Do a recorded step over ``fed``, on the current stream. Returns hidden states ``[tokens, hidden_size]``, which the
        next one overwrites.
        """
        assert self._hidden is not None
        self._fed[: len(fed)].copy_(fed)
        self._graphs[shape]()
        return self._hidden[: shape.tokens]


def _least(counts: list[int], count: int) -> int:
    """The smallest of some counts that is enough; 0: none is."""
    place = bisect_left(counts, count)
    return counts[place] if place < len(counts) else 0

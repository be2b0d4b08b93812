"""From a plan to a step: what the rows of a step are, as arrays."""

from collections.abc import Sequence as Many
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from executor.engine.sequence import Sequence
from executor.engine.step import FROM_DEVICE, Ints, Sampling, Step, TableChanges


@dataclass(frozen=True, slots=True)
class Row:
    """A sequence's part of a step that has been launched."""

    sequence: Sequence
    start: int
    count: int
    samples: bool

    @property
    def end(self) -> int:
        """Position behind its last one."""
        return self.start + self.count


class PendingChanges:
    """Entries of block tables that the next step brings to the device; later ones replace earlier ones."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, int], int] = {}

    def note(self, slot: int, entries: list[tuple[int, int]]) -> None:
        """The table of ``slot`` has new entries: index and block of each."""
        for index, block in entries:
            self._entries[slot, index] = block

    def take(self) -> TableChanges:
        """All there is, once."""
        places = np.array(list(self._entries), dtype=np.int64).reshape(-1, 2)
        blocks = np.array(list(self._entries.values()), dtype=np.int64)
        self._entries = {}
        return TableChanges(places[:, 0], places[:, 1], blocks)


@dataclass(frozen=True, slots=True)
class _Fixed:
    """What stays the same of some sequences from step to step: arrays ``[S]``."""

    sequences: list[Sequence]
    slots: Ints
    rope_lengths: Ints
    temperature: NDArray[np.float32]
    top_k: Ints
    top_p: NDArray[np.float32]
    min_p: NDArray[np.float32]
    seeds: Ints
    unmasked_from: Ints
    ranking: Ints

    @classmethod
    def of(cls, sequences: list[Sequence]) -> "_Fixed":
        """Read the requests."""
        requests = [sequence.request for sequence in sequences]
        parameters = [request.parameters for request in requests]
        return cls(
            sequences=sequences,
            slots=_ints([sequence.slot for sequence in sequences]),
            rope_lengths=_ints([request.longest for request in requests]),
            temperature=np.array([one.temperature for one in parameters], dtype=np.float32),
            top_k=_ints([one.top_k for one in parameters]),
            top_p=np.array([one.top_p for one in parameters], dtype=np.float32),
            min_p=np.array([one.min_p for one in parameters], dtype=np.float32),
            seeds=_ints([request.seed for request in requests]),
            unmasked_from=_ints([request.unmasked_from for request in requests]),
            ranking=_ints([sequence.ranking for sequence in sequences]),
        )


class Assembler:
    """Puts steps together. Mostly a step has the sequences of the one before: then what stays is not read again.

    ``masked`` are ids that end a sequence whatever its request says, for ``min_tokens``.
    """

    def __init__(self, masked: frozenset[int]) -> None:
        self._masked = masked
        self._fixed = _Fixed.of([])

    def assemble(self, number: int, rows: Many[Row], changes: TableChanges) -> Step:
        """A step of rows as they were launched: a token behind those known to the engine is one that a step before it
        samples.
        """
        sequences = [row.sequence for row in rows]
        if sequences != self._fixed.sequences:
            self._fixed = _Fixed.of(sequences)
        starts = _ints([row.start for row in rows])
        counts = _ints([row.count for row in rows])
        return Step(
            number=number,
            slots=self._fixed.slots,
            starts=starts,
            counts=counts,
            ids=_token_ids(rows),
            rope_lengths=self._fixed.rope_lengths,
            changes=changes,
            sampling=self._sampling(rows, starts + counts),
        )

    def _sampling(self, rows: Many[Row], ends: Ints) -> Sampling:
        places = np.flatnonzero([row.samples for row in rows])
        fixed, positions = self._fixed, ends[places]
        ranking = fixed.ranking[places]
        held_back = np.flatnonzero(positions < fixed.unmasked_from[places]).tolist()
        masks = [
            (place, id_) for place in held_back for id_ in rows[places[place]].sequence.request.end_ids | self._masked
        ]
        return Sampling(
            rows=places,
            temperature=fixed.temperature[places],
            top_k=fixed.top_k[places],
            top_p=fixed.top_p[places],
            min_p=fixed.min_p[places],
            seeds=fixed.seeds[places],
            positions=positions,
            masked_rows=_ints([place for place, _ in masks]),
            masked_ids=_ints([id_ for _, id_ in masks]),
            ranked=np.flatnonzero(ranking),
            ranking=int(ranking.max(initial=0)),
        )


def assemble(number: int, rows: Many[Row], changes: TableChanges, masked: frozenset[int]) -> Step:
    """Put one step together, see ``Assembler``."""
    return Assembler(masked).assemble(number, rows, changes)


def _token_ids(rows: Many[Row]) -> Ints:
    ids: list[int] = []
    for row in rows:
        known, start = row.sequence.tokens, row.start
        if start >= len(known):
            ids.append(FROM_DEVICE)
        elif row.count == 1:
            ids.append(known[start])
        else:
            ids += known[start : start + row.count]
    return _ints(ids)


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)

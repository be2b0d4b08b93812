"""From a plan to a step: what the rows of a step are, as arrays."""

from collections.abc import Sequence as Many
from dataclasses import dataclass

import numpy as np

from executor.engine.sequence import Sequence
from executor.engine.step import FROM_DEVICE, Sampling, Step, TableChanges


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


def assemble(number: int, rows: Many[Row], changes: TableChanges, masked: frozenset[int]) -> Step:
    """Put a step together. ``masked`` are ids that end a sequence whatever its request says, for ``min_tokens``.

    Takes the rows as launched: a token behind those known to the engine is one that a step before it samples.
    """
    ids: list[int] = []
    for row in rows:
        known = row.sequence.tokens
        if row.start < len(known):
            ids += known[row.start : row.end]
        else:
            ids.append(FROM_DEVICE)
    return Step(
        number=number,
        slots=_ints([row.sequence.slot for row in rows]),
        starts=_ints([row.start for row in rows]),
        counts=_ints([row.count for row in rows]),
        ids=_ints(ids),
        rope_lengths=_ints([row.sequence.request.longest for row in rows]),
        changes=changes,
        sampling=_sampling(rows, masked),
    )


def _sampling(rows: Many[Row], masked: frozenset[int]) -> Sampling:
    places = [place for place, row in enumerate(rows) if row.samples]
    requests = [rows[place].sequence.request for place in places]
    positions = [rows[place].end for place in places]
    parameters = [request.parameters for request in requests]
    masks = [
        (place, id_)
        for place, (request, position) in enumerate(zip(requests, positions, strict=True))
        if position < request.unmasked_from
        for id_ in request.end_ids | masked
    ]
    return Sampling(
        rows=_ints(places),
        temperature=np.array([one.temperature for one in parameters], dtype=np.float32),
        top_k=np.array([one.top_k for one in parameters], dtype=np.int64),
        top_p=np.array([one.top_p for one in parameters], dtype=np.float32),
        min_p=np.array([one.min_p for one in parameters], dtype=np.float32),
        seeds=_ints([request.seed for request in requests]),
        positions=_ints(positions),
        masked_rows=_ints([place for place, _ in masks]),
        masked_ids=_ints([id_ for _, id_ in masks]),
    )


def _ints(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)

"""What a device is given to execute, and what it says when it is done: plain arrays, no torch.

A step has S rows, one for each sequence in it, with T tokens in all, row after row.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def nothing() -> Ints:
    """Whole numbers, none."""
    return np.zeros(0, dtype=np.int64)


FROM_DEVICE = -1
"""Stands in ``Step.ids`` for the id that was sampled last for the row's slot: nobody else may know it yet."""


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Entries of block tables that are new: the table of ``slots[i]`` has ``blocks[i]`` at ``indexes[i]``. None twice."""

    slots: Ints
    indexes: Ints
    blocks: Ints


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the rows that sample do it: R rows, in order."""

    rows: Ints
    """Which rows of the step these are ``[R]``."""
    temperature: NDArray[np.float32]
    top_k: Ints
    top_p: NDArray[np.float32]
    min_p: NDArray[np.float32]
    seeds: Ints
    positions: Ints
    """Position that each new token takes in its sequence ``[R]``."""
    masked_rows: Ints
    """Places within R, parallel to ``masked_ids``: this id may not be chosen there."""
    masked_ids: Ints
    ranked: Ints = field(default_factory=nothing)
    """Places within R whose likeliest tokens are asked for: beams. Masks do not touch these."""
    ranking: int = 0
    """How many tokens of each of them."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step. The model runs over it once the changes to the tables are made."""

    number: int
    """Counted from 1."""
    slots: Ints
    """Slot of each row's sequence ``[S]``: its place in the device's tables."""
    starts: Ints
    """Position of each row's first token ``[S]``."""
    counts: Ints
    """Tokens of each row ``[S]``, at least 1."""
    ids: Ints
    """Token ids ``[T]``, or ``FROM_DEVICE``."""
    rope_lengths: Ints
    """Tokens that each row's sequence may have at most ``[S]``, for models whose rope depends on it."""
    changes: TableChanges
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of one block, by its ticket."""

    ticket: int
    source: int
    destination: int
    source_on_host: bool = False
    destination_on_host: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """A command has completed: a step or copies."""

    serial: int
    """Number of the command, steps and copies counted together."""
    step: int = 0
    """Number of the step; 0: it was copies."""
    ids: Ints = field(default_factory=nothing)
    """Of a step: the ids sampled ``[R]``; -1 where the logits held no number."""
    ranked_ids: Ints = field(default_factory=lambda: nothing().reshape(0, 0))
    """Of a step: the likeliest tokens of the rows that asked for them, in order, ``[ranked, ranking]``."""
    ranked_logprobs: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    """Natural logarithms of their probabilities, parallel to those."""
    tickets: tuple[int, ...] = ()
    """Of copies: their tickets."""
    error: str = ""
    """Why a step failed; empty: it has not. Nothing that it wrote counts."""
    follows_failure: bool = False
    """It was not tried, because a step before it failed."""
    seconds: float = 0.0
    """How long the device worked on it; of copies 0 where it does not know."""

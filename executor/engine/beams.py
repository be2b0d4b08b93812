"""Beam search as a function: from what beams are, and what may follow each, to what they become.

A group has as many beams as it is wide, all of one length, and the best of the outputs that have ended so far. Each step
every beam names its likeliest next tokens; of all continuations the best become the beams, and those of the best that end
become hypotheses. Scores are sums of log-probabilities in float32; a hypothesis is ranked by its score divided by its length
to the power of ``length_penalty``. This is the beam search of transformers, step for step. What that leaves open is settled
here: among equals the earlier beam, then the more likely token, then the lower id comes first; and of hypotheses the shorter,
then the one of lower ids.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np


class EarlyStopping(StrEnum):
    """When a group that has as many hypotheses as it is wide ends."""

    ON = "true"
    """At once."""
    OFF = "false"
    """When the best beam, ranked as it stands, is no better than the worst hypothesis."""
    NEVER = "never"
    """When no beam could become better than the worst hypothesis, however long it grew."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How a group searches."""

    width: int
    length_penalty: float
    early_stopping: EarlyStopping
    end_ids: frozenset[int]
    """Ids at which an output ends."""
    max_tokens: int
    """Tokens of an output at most."""
    min_tokens: int = 0
    """Until so many tokens are there, ``held_back`` is not chosen."""
    held_back: frozenset[int] = frozenset()

    @property
    def candidates(self) -> int:
        """How many next tokens each beam has to name, so that enough are left to go on however many end or are held back."""
        return self.width + len(self.end_ids | self.held_back if self.min_tokens else self.end_ids)

    def rank(self, score: float, length: int) -> float:
        """What an output of so many tokens is ranked by."""
        return float(np.float32(score) / np.float32(length**self.length_penalty))


@dataclass(frozen=True, slots=True)
class Candidates:
    """The likeliest tokens behind a beam, in order: by log-probability, the lower id first among equals."""

    ids: list[int]
    logprobs: list[float]
    """Natural logarithms, parallel to ``ids``."""


@dataclass(frozen=True, slots=True)
class Beam:
    """A continuation: beam ``parent`` and a token. ``score`` is the sum of its tokens' log-probabilities."""

    parent: int
    token: int
    score: float


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An output that has ended."""

    tokens: tuple[int, ...]
    """The output, its last token included."""
    rank: float
    """What hypotheses are compared by, the greater the better."""


@dataclass(frozen=True, slots=True)
class Advance:
    """What becomes of a group in a step."""

    beams: list[Beam]
    """The beams to go on with, the best first: as many as the group is wide, or none if none can go on."""
    ended: list[tuple[Beam, Hypothesis]]
    """What has ended now and is among the best."""
    hypotheses: list[Hypothesis]
    """The best of all that have ended, the best first; at most as many as the group is wide."""
    is_done: bool
    """Whether the search is over: ``hypotheses`` is what it has found."""


def advance(
    rules: Rules,
    outputs: Sequence[Sequence[int]],
    scores: Sequence[float],
    hypotheses: Sequence[Hypothesis],
    candidates: Sequence[Candidates],
) -> Advance:
    """One step of a group.

    Args:
        rules: how it searches.
        outputs: tokens of each beam's output; as long as each other.
        scores: each beam's score.
        hypotheses: the best of those that have ended so far, the best first.
        candidates: what may follow each beam, ``rules.candidates`` tokens of each. Before the first token all beams are the
            same: only what the first one names counts.
    """
    length = len(outputs[0]) + 1
    counting = candidates if length > 1 else candidates[:1]
    ranking = _ranking(rules, length, scores, counting)
    going = [beam for beam in ranking if not _ends(rules, beam, length)][: rules.width]
    ending = [beam for beam in ranking[: rules.width] if _ends(rules, beam, length)]
    ended = [(beam, Hypothesis((*outputs[beam.parent], beam.token), rules.rank(beam.score, length))) for beam in ending]
    kept = best([*hypotheses, *(hypothesis for _, hypothesis in ended)], rules.width)
    return Advance(
        going,
        [(beam, one) for beam, one in ended if any(one is other for other in kept)],
        kept,
        _is_done(rules, going, kept, length),
    )


def best(hypotheses: Iterable[Hypothesis], count: int) -> list[Hypothesis]:
    """The best of some hypotheses, the best first; among equals the shorter, then the one of lower ids: in whatever order they
    are given.
    """
    return sorted(hypotheses, key=lambda one: (-one.rank, len(one.tokens), one.tokens))[:count]


def _ranking(rules: Rules, length: int, scores: Sequence[float], candidates: Sequence[Candidates]) -> list[Beam]:
    """All continuations, the best first."""
    held_back = rules.held_back if length <= rules.min_tokens else frozenset()
    found = [
        Beam(parent, token, float(np.float32(scores[parent]) + np.float32(logprob)))
        for parent, named in enumerate(candidates)
        for token, logprob in zip(named.ids, named.logprobs, strict=True)
        if token not in held_back
    ]
    return sorted(found, key=lambda beam: -beam.score)


def _ends(rules: Rules, beam: Beam, length: int) -> bool:
    return beam.token in rules.end_ids or length >= rules.max_tokens


def _is_done(rules: Rules, going: Sequence[Beam], kept: Sequence[Hypothesis], length: int) -> bool:
    if not going:
        return True
    if len(kept) < rules.width:
        return False
    if rules.early_stopping is EarlyStopping.ON:
        return True
    # A positive penalty favours the long: what may yet become of a beam is judged by the longest that it could be.
    longest = rules.early_stopping is EarlyStopping.NEVER and rules.length_penalty > 0
    hoped = rules.rank(going[0].score, rules.max_tokens if longest else length)
    return hoped <= kept[-1].rank

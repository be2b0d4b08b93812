"""How beams diverge: a model of the scores of beam search, without a language model behind it.

At each step a language model gives every beam a distribution over the next token, and beam search keeps the ``width``
best of all continuations by the sum of log-probabilities. Here

- the weights of the candidates, in order, are the points of a Poisson–Dirichlet process: ``Γ_k ** (-1 / x)`` over the
  arrival times Γ of a Poisson process, normalised. It is what a softmax over very many independent, exponentially tailed
  logits looks like: a few tokens likely, a long tail. ``x`` in (0, 1) is set by the mean entropy ψ(1) − ψ(1 − x);
- the beams of a group, which mostly differ by a few words, see the same distribution at the same step but for noise: each
  beam's log-weights are moved by a normal variate of standard deviation ``noise`` before they are normalised.

So two beams' scores drift apart at random, and once the gap is wider than that between likely continuations, the better
beam's second choice takes the worse one's place. The more alike the beams' distributions, the longer beams live.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CANDIDATES = 48
"""Candidates of a step that are drawn; the mass of the tail behind them is beyond notice at a few nats of entropy."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The two parameters of the model.

    ``entropy``: mean entropy of the next token, in nats. ``noise``: standard deviation by which a beam's log-weights
    differ from its group's.
    """

    entropy: float = 1.0
    noise: float = 0.1

    def __post_init__(self) -> None:
        if not 0.05 <= self.entropy <= 4:
            raise ValueError(f"entropy is {self.entropy}, but must lie in 0.05..4 nats")
        if not 0 <= self.noise <= 10:
            raise ValueError(f"noise is {self.noise}, but must lie in 0..10")


class BeamScores:
    """The scores of one group of beams, step by step."""

    def __init__(self, width: int, steps: int, divergence: Divergence, numbers: np.random.Generator) -> None:
        self.scores: NDArray[np.float64] = np.zeros(width)
        self._steps = _best_continuations(width, steps, divergence, numbers)
        self._next = 0

    def step(self) -> NDArray[np.int64]:
        """Choose the best continuations of all beams. Returns each new beam's parent; ``scores`` are the new beams'."""
        width = len(self.scores)
        sums = self.scores[:, None] + self._steps[self._next]
        if self._next == 0:
            # All beams are still the same one, so its continuations are the only ones.
            sums[1:] = -np.inf
        self._next += 1
        best = np.argsort(sums, axis=None, kind="stable")[::-1][:width]
        self.scores = sums.flat[best]
        parents = (best // sums.shape[1]).tolist()
        places = _stay_where_possible(parents)
        self.scores = self.scores[places]
        return np.array(parents, dtype=np.int64)[places]


def _stay_where_possible(parents: list[int]) -> list[int]:
    """Order new beams so that a beam which goes on keeps its place: an engine would not swap two beams' names either."""
    places = [-1] * len(parents)
    rest = []
    for new, parent in enumerate(parents):
        if places[parent] < 0:
            places[parent] = new
        else:
            rest.append(new)
    return [new if new >= 0 else rest.pop(0) for new in places]


def _best_continuations(
    width: int, steps: int, divergence: Divergence, numbers: np.random.Generator
) -> NDArray[np.float64]:
    """Log-probabilities of each beam's best continuations: ``[steps, width, width]``, best first.

    No beam can have more than ``width`` continuations among the ``width`` best of all.
    """
    arrivals = np.cumsum(numbers.exponential(size=(steps, 1, CANDIDATES)), axis=2)
    weights = -np.log(arrivals) / _exponent(divergence.entropy)
    weights = weights + divergence.noise * numbers.standard_normal((steps, width, CANDIDATES))
    weights = -np.sort(-weights, axis=2)
    likeliest = weights[:, :, :1]
    total = likeliest + np.log(np.exp(weights - likeliest).sum(axis=2, keepdims=True))
    best: NDArray[np.float64] = (weights - total)[:, :, :width]
    return best


def _exponent(entropy: float) -> float:
    """The x at which a Poisson–Dirichlet distribution has this mean entropy: solves ψ(1) − ψ(1 − x) = entropy."""
    low, high = 0.0, 1.0 - 1e-6
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _digamma(1.0) - _digamma(1.0 - middle) < entropy else (low, middle)
    return high


def _digamma(z: float) -> float:
    """ψ(z) for z > 0: shifted up by the recurrence, then the asymptotic series."""
    shift = 0.0
    while z < 8:
        shift -= 1 / z
        z += 1
    return shift + math.log(z) - 1 / (2 * z) - 1 / (12 * z**2) + 1 / (120 * z**4) - 1 / (252 * z**6)

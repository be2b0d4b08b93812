"""What a caller saw of a request. Moments are in seconds since the run began."""

from array import array
from dataclasses import dataclass, field


def _moments() -> "array[float]":
    return array("d")


def _counts() -> "array[int]":
    return array("I")


@dataclass(slots=True)
class Output:
    """When tokens of one output came, and how many came together."""

    moments: "array[float]" = field(default_factory=_moments)
    counts: "array[int]" = field(default_factory=_counts)

    @property
    def tokens(self) -> int:
        """Tokens that came."""
        return sum(self.counts)

    def gaps(self) -> list[float]:
        """Seconds between tokens, from the first on. Those that come together share the time since the ones before."""
        found: list[float] = []
        # What comes with the first token has no gap to it that anybody could see.
        for earlier, later, count in zip(self.moments, self.moments[1:], self.counts[1:], strict=False):
            found.extend([(later - earlier) / count] * count)
        return found


@dataclass(slots=True)
class Record:
    """One request: due, accepted and ended when, and its outputs by their index."""

    number: int
    due: float
    accepted: float | None = None
    ended: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    outputs: dict[int, Output] = field(default_factory=dict)
    finished: int = 0
    """Outputs that have ended."""
    failure: str = ""
    """Why it failed, in a word; empty: it did not."""
    explanation: str = ""
    """The same in a line."""

    @property
    def output_tokens(self) -> int:
        """Tokens of all its outputs."""
        return sum(output.tokens for output in self.outputs.values())

    @property
    def first_token(self) -> float | None:
        """When the first token of any output came."""
        return min((output.moments[0] for output in self.outputs.values() if output.moments), default=None)

    def fail(self, reason: str, explanation: str) -> None:
        """It failed."""
        self.failure, self.explanation = reason, explanation

"""What a generation tells: its events, and the whole of them as a ``Completion``.

Data only. Tokens are counted, times are in seconds. The names are those of ``pagehold.inference.v1``.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class EndReason(StrEnum):
    """Why an output ended."""

    UNKNOWN = "unknown"
    """A reason that this client does not know yet."""
    STOP = "stop"
    """An end-of-sequence token, or a stop string or token of the request."""
    LENGTH = "length"
    """As many tokens as were allowed."""
    CANCELLED = "cancelled"
    """Somebody cancelled it, or the one who listened to it hung up."""
    DEADLINE = "deadline"
    """Its ``time_budget`` was used up."""


@dataclass(frozen=True, slots=True)
class SamplingParameters:
    """How tokens are chosen. None: not said."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True)
class BeamSearchParameters:
    """How a beam search goes. ``early_stopping``: True, False, or "never"."""

    beam_width: int
    length_penalty: float
    early_stopping: bool | str


@dataclass(frozen=True, slots=True)
class StoppingParameters:
    """Where an output ends. None: not said."""

    max_tokens: int | None = None
    min_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool | None = None


@dataclass(frozen=True, slots=True)
class CacheParameters:
    """How a request uses the prefix cache. None: not said."""

    salt: str | None = None
    bypass: bool | None = None
    no_store: bool | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The request was accepted, with these parameters in effect. It goes on from now on, whatever dies."""

    id: str
    request_id: str | None
    model: str
    prompt_tokens: int
    cached_tokens: int
    sampling: SamplingParameters
    stopping: StoppingParameters
    cache: CacheParameters
    priority: int
    seeds: tuple[int, ...] = ()
    """The seed of each output: a request of its own with that seed has the same tokens."""
    beam_search: BeamSearchParameters | None = None
    """None: it is no beam search."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a long prompt has been computed, cached tokens included; and of a beam search, how long its beams are."""

    computed_tokens: int
    prompt_tokens: int
    beam_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Delta:
    """New tokens of one output, each delivered once; ``first_token`` is the index of the first of them.

    ``text`` is what is new of the text, in whole characters. It may come later than its ids.
    """

    output: int
    first_token: int
    ids: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, counted; ``cached_tokens`` are those of the prompt that came from the prefix cache."""

    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Timings:
    """Where the time went, in seconds from when the server got the request.

    Until it was accepted, until its first token (None: there was none), and until its end. Where a connection broke,
    they are what this client saw.
    """

    queued: float
    first_token: float | None
    total: float


@dataclass(frozen=True, slots=True)
class Finished:
    """An output has ended, at the stop string ``stop``, at the token ``stop_token_id``, or at neither. ``score`` is what an
    output of a beam search is ranked by.
    """

    output: int
    reason: EndReason
    stop: str | None
    stop_token_id: int | None
    usage: Usage
    timings: Timings
    score: float | None = None


Event = Started | Progress | Delta | Finished
"""What a stream yields: Started, Progress for long prompts, Deltas, and a Finished for each output."""


@dataclass(frozen=True, slots=True)
class Output:
    """One output of a generation, whole. ``ids`` begin at the token that the stream was asked to begin at."""

    index: int
    ids: tuple[int, ...]
    text: str
    finished: Finished


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole generation. ``text``, ``ids``, ``reason`` and ``timings`` are those of its first output."""

    started: Started
    outputs: tuple[Output, ...]

    @property
    def id(self) -> str:
        """The server's id of the request."""
        return self.started.id

    @property
    def text(self) -> str:
        """The text."""
        return self.outputs[0].text

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids."""
        return self.outputs[0].ids

    @property
    def reason(self) -> EndReason:
        """Why it ended."""
        return self.outputs[0].finished.reason

    @property
    def usage(self) -> Usage:
        """Tokens, counted: the prompt once, the output tokens of all outputs."""
        first = self.outputs[0].finished.usage
        return replace(first, output_tokens=sum(output.finished.usage.output_tokens for output in self.outputs))

    @property
    def timings(self) -> Timings:
        """Where the time went."""
        return self.outputs[0].finished.timings

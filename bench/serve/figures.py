"""The figures of a run, out of its records."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.serve.records import Record

PERCENTILES = (50, 90, 99)

BUSY = 0.8
"""Part of a core from which on a client process may be what is measured."""

NOT_BEGUN = "not_begun"


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """p50, p90 and p99, between the nearest two values, and the mean; empty where there is no value."""
    ordered = sorted(values)
    if not ordered:
        return {}
    found = {}
    for which in PERCENTILES:
        place = (len(ordered) - 1) * which / 100
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        found[f"p{which}"] = ordered[low] + (ordered[high] - ordered[low]) * (place - low)
    return found | {"mean": sum(ordered) / len(ordered)}


@dataclass(frozen=True)
class Figures:
    """What a run comes to. Times are in seconds; tokens of requests that failed count in no rate and no time.

    ``ttft``: from when a request was due to its first token. ``tpot``: between tokens, the mean of each output. ``itl``:
    between tokens, each gap by itself. ``e2e``: from when it was due to its end. ``queued``: until it was accepted.
    """

    requests: int
    completed: int
    failed: dict[str, int]
    explanations: dict[str, str]
    seconds: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    times: dict[str, dict[str, float]]

    @property
    def output_rate(self) -> float:
        """Tokens of output a second."""
        return self.output_tokens / self.seconds if self.seconds else 0.0

    @property
    def total_rate(self) -> float:
        """Tokens of prompt and output a second."""
        return (self.prompt_tokens + self.output_tokens) / self.seconds if self.seconds else 0.0

    @property
    def request_rate(self) -> float:
        """Requests completed a second."""
        return self.completed / self.seconds if self.seconds else 0.0

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        rates = {name: getattr(self, name) for name in ("output_rate", "total_rate", "request_rate")}
        return asdict(self) | rates


def figures_of(records: Sequence[Record], requests: int, seconds: float) -> Figures:
    """The figures of so many requests, of which those without a record were not begun in time."""
    good = [record for record in records if not record.failure]
    failed = Counter(record.failure for record in records if record.failure)
    explanations = {record.failure: record.explanation for record in reversed(records) if record.failure}
    if missing := requests - len(records):
        failed[NOT_BEGUN] = missing
        explanations[NOT_BEGUN] = "the run's time limit was over before they were due or their turn came"
    return Figures(
        requests=requests,
        completed=len(good),
        failed=dict(failed.most_common()),
        explanations=explanations,
        seconds=seconds,
        prompt_tokens=sum(record.prompt_tokens for record in good),
        cached_tokens=sum(record.cached_tokens for record in good),
        output_tokens=sum(record.output_tokens for record in good),
        times=_times(good),
    )


def _times(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    outputs = [output for record in records for output in record.outputs.values()]
    firsts = [(record.first_token, record.due) for record in records]
    return {
        "ttft": percentiles(first - due for first, due in firsts if first is not None),
        "tpot": percentiles(
            (output.moments[-1] - output.moments[0]) / (output.tokens - 1) for output in outputs if output.tokens > 1
        ),
        "itl": percentiles(gap for output in outputs for gap in output.gaps()),
        "e2e": percentiles(record.ended - record.due for record in records),
        "queued": percentiles(record.accepted - record.due for record in records if record.accepted is not None),
    }

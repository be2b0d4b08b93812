"""Workloads by name, and out of files: JSON lines, a request each; and what of them a server cannot be asked."""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.serve.workloads import WORKLOADS, Request, WorkloadError, limited
from pagehold.client.parameters import Parameters

PROMPT_TOKENS = "prompt_tokens"
"""In place of a prompt: so many random tokens."""

PARAMETERS = frozenset(Parameters.__annotations__)
"""What the client can ask for beside a prompt's text."""


def requests_of(workload: str, vocabulary: int, count: int | None, max_tokens: int | None) -> list[Request]:
    """The requests of a workload by name, or of a file. Raises WorkloadError."""
    if workload in WORKLOADS:
        return limited(list(WORKLOADS[workload](vocabulary)), count, max_tokens)
    path = Path(workload)
    try:
        with path.open(encoding="utf-8") as lines:
            found = limited(list(read_requests(lines, path.name, vocabulary)), count, max_tokens)
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(WORKLOADS)
        raise WorkloadError(f"{workload} is none of {known}, and no file that can be read: {error}") from None
    if not found:
        raise WorkloadError(f"{workload} holds no request")
    return found


def read_requests(lines: Iterable[str], name: str, vocabulary: int) -> Iterator[Request]:
    """The requests of a file: each line an object of the client's parameters, with `prompt` or `prompt_tokens`.

    Raises WorkloadError, naming file and line.
    """
    numbers = random.Random(name)
    for place, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            parameters = json.loads(line)
        except ValueError as error:
            raise WorkloadError(f"{name}:{place}: no JSON: {error}") from None
        if not isinstance(parameters, dict):
            raise WorkloadError(f"{name}:{place}: {line.strip()[:40]} is no object")
        if PROMPT_TOKENS in parameters:
            parameters["ids"] = _random_ids(parameters.pop(PROMPT_TOKENS), f"{name}:{place}", numbers, vocabulary)
        yield Request(parameters, _outputs(parameters, f"{name}:{place}"))


def _random_ids(count: Any, where: str, numbers: random.Random, vocabulary: int) -> list[int]:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise WorkloadError(f"{where}: {PROMPT_TOKENS} is {count!r}: it is a number of tokens, at least 1")
    return numbers.choices(range(vocabulary), k=count)


def _outputs(parameters: dict[str, Any], where: str) -> int:
    count = parameters.get("n", 1)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise WorkloadError(f"{where}: n is {count!r}: it is a number of outputs, at least 1")
    return count


def check(requests: Iterable[Request], max_length: int) -> None:
    """Refuse what this client cannot say or the server can never answer, before anything is sent. Raises WorkloadError."""
    for place, request in enumerate(requests):
        unknown = request.parameters.keys() - PARAMETERS - {"prompt"}
        if unknown:
            raise WorkloadError(f"request {place}: there is no parameter {min(unknown)!r}")
        needed = request.prompt_tokens + request.max_tokens
        if needed > max_length:
            raise WorkloadError(
                f"request {place} has {request.prompt_tokens} tokens of prompt and {request.max_tokens} of output: "
                f"the model's context is {max_length} tokens"
            )

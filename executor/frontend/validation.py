"""Requests looked at before anything is begun: everything that is wrong with one is found at once."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from executor.frontend.errors import InvalidRequest, Violation
from pagehold.inference.v1 import generation_pb2, parameters_pb2, prompt_pb2

LONGEST_REQUEST_ID = 128
TEMPERATURES = (0.0, 100.0)
PRIORITIES = (-100, 100)
LONGEST_TIME_BUDGET = 86_400.0
MOST_STOPS, LONGEST_STOP = 16, 1024
MOST_STOP_IDS = 64
LONGEST_SALT = 256
SHOWN_IDS = 3
"""Wrong ids of one list that are named one by one."""
PIECE = 1 << 15
"""Ids looked at without letting other threads run: some milliseconds' worth."""
LONGEST_SHOWN = 40
"""Characters of a wrong value that are shown."""


class Findings:
    """Collects what is wrong."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def add(self, field: str, value: object, limit: str) -> None:
        """A field, what it is, and what it must be."""
        shown = repr(value) if isinstance(value, str) else str(value)
        shown = shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + "…"
        self.violations.append(Violation(field, f"is {shown}, but {limit}"))

    def check(self, right: bool, field: str, value: object, limit: str) -> None:
        """Note it unless it is right."""
        if not right:
            self.add(field, value, limit)

    def ids(self, field: str, ids: Sequence[int], vocabulary: int) -> None:
        """Ids must be known. The first few that are not are named."""
        wrong = [
            start + place
            for start in range(0, len(ids), PIECE)
            # Most pieces are right, and told to be so without a loop.
            if max(piece := ids[start : start + PIECE]) >= vocabulary
            for place, token in enumerate(piece)
            if token >= vocabulary
        ]
        limit = f"must lie in 0..{vocabulary - 1}, the model's vocabulary"
        for place in wrong[:SHOWN_IDS]:
            self.add(f"{field}[{place}]", ids[place], limit)
        if len(wrong) > SHOWN_IDS:
            self.add(field, f"wrong in {len(wrong) - SHOWN_IDS} more places", limit)

    def raise_if_any(self) -> None:
        """Raises InvalidRequest with all that was found."""
        if self.violations:
            raise InvalidRequest(self.violations)


def check_generate(request: generation_pb2.GenerateRequest, vocabulary: int, max_length: int) -> None:
    """All of a request that can be judged before its prompt is tokenised. Raises InvalidRequest."""
    found = Findings()
    if request.HasField("request_id"):
        check_request_id(found, request.request_id)
    check_prompt(found, request.HasField("prompt"), request.prompt, vocabulary)
    _check_sampling(found, request.sampling)
    _check_stopping(found, request.stopping, vocabulary, max_length)
    size = len(request.cache.salt.encode())
    found.check(size <= LONGEST_SALT, "cache.salt", f"{size} bytes long", f"may have at most {LONGEST_SALT}")
    low, high = PRIORITIES
    found.check(low <= request.priority <= high, "priority", request.priority, f"must lie in {low}..{high}")
    if request.HasField("time_budget"):
        right = 0 < request.time_budget <= LONGEST_TIME_BUDGET
        limit = f"must be above 0 and at most {LONGEST_TIME_BUDGET:.0f} seconds"
        found.check(right, "time_budget", request.time_budget, limit)
    found.raise_if_any()


def check_request_id(found: Findings, request_id: str) -> None:
    """A caller's own name for a request."""
    size = len(request_id.encode())
    right = 1 <= size <= LONGEST_REQUEST_ID and request_id.isprintable()
    found.check(right, "request_id", request_id, f"must be 1 to {LONGEST_REQUEST_ID} bytes of printable text")


def check_prompt(found: Findings, present: bool, prompt: prompt_pb2.Prompt, vocabulary: int) -> None:
    """A prompt: there, and not empty."""
    kind = prompt.WhichOneof("content") if present else None
    if kind is None:
        found.add("prompt", "absent", "text, ids or a chat is required")
    elif kind == "text":
        found.check(bool(prompt.text), "prompt.text", "empty", "must have at least one character")
    elif kind == "ids":
        found.check(bool(prompt.ids.ids), "prompt.ids.ids", "empty", "must have at least one id")
        found.ids("prompt.ids.ids", prompt.ids.ids, vocabulary)
    else:
        found.check(bool(prompt.chat.messages), "prompt.chat.messages", "empty", "must have at least one message")
        for place, message in enumerate(prompt.chat.messages):
            found.check(bool(message.role), f"prompt.chat.messages[{place}].role", "empty", "must say who speaks")


def _check_sampling(found: Findings, sampling: parameters_pb2.SamplingParameters) -> None:
    low, high = TEMPERATURES
    number(found, sampling, "temperature", lambda value: low <= value <= high, f"must lie in {low:.0f}..{high:.0f}")
    number(found, sampling, "top_k", lambda value: value >= -1, "must be at least -1; -1 and 0 keep all")
    number(found, sampling, "top_p", lambda value: 0 < value <= 1, "must be above 0 and at most 1")
    number(found, sampling, "min_p", lambda value: 0 <= value <= 1, "must lie in 0..1")


def number(found: Findings, message: Any, name: str, right: Any, limit: str, group: str = "sampling") -> None:
    """A number that may be absent. Not-a-number is never right, since no comparison with it holds."""
    if message.HasField(name):
        value = getattr(message, name)
        found.check(math.isfinite(value) and right(value), f"{group}.{name}", value, limit)


def _check_stopping(
    found: Findings, stopping: parameters_pb2.StoppingParameters, vocabulary: int, max_length: int
) -> None:
    most = max_length - 1
    limit = f"must lie in 1..{most}: prompt and output together have at most {max_length} tokens"
    number(found, stopping, "max_tokens", lambda value: 1 <= value <= most, limit, "stopping")
    highest = stopping.max_tokens if stopping.HasField("max_tokens") else most
    number(
        found,
        stopping,
        "min_tokens",
        lambda value: value <= highest,
        f"may be at most {highest}, as max_tokens",
        "stopping",
    )
    count = len(stopping.stop)
    found.check(count <= MOST_STOPS, "stopping.stop", f"{count} texts", f"may be at most {MOST_STOPS}")
    for place, stop in enumerate(stopping.stop):
        limit = f"must have 1 to {LONGEST_STOP} characters"
        found.check(1 <= len(stop) <= LONGEST_STOP, f"stopping.stop[{place}]", f"{len(stop)} characters long", limit)
    count = len(stopping.stop_token_ids)
    found.check(count <= MOST_STOP_IDS, "stopping.stop_token_ids", f"{count} ids", f"may be at most {MOST_STOP_IDS}")
    found.ids("stopping.stop_token_ids", stopping.stop_token_ids, vocabulary)


def check_length(prompt_tokens: int, request: generation_pb2.GenerateRequest, max_length: int) -> None:
    """Prompt and output together must fit the model's context. Raises InvalidRequest naming the numbers."""
    found = Findings()
    if prompt_tokens == 0:
        found.add("prompt", "0 tokens long", "must have at least one")
    if prompt_tokens >= max_length:
        limit = f"may have at most {max_length - 1}: prompt and output together have at most {max_length}"
        found.add("prompt", f"{prompt_tokens} tokens long", limit)
    elif request.stopping.max_tokens > max_length - prompt_tokens:
        limit = f"may be at most {max_length - prompt_tokens}: the prompt has {prompt_tokens} tokens of {max_length}"
        found.add("stopping.max_tokens", request.stopping.max_tokens, limit)
    elif request.stopping.min_tokens > max_length - prompt_tokens:
        limit = f"may be at most {max_length - prompt_tokens}: the prompt has {prompt_tokens} tokens of {max_length}"
        found.add("stopping.min_tokens", request.stopping.min_tokens, limit)
    found.raise_if_any()


def check_each(field: str, values: Iterable[int], vocabulary: int) -> None:
    """Ids of a request that has nothing else. Raises InvalidRequest."""
    found = Findings()
    found.ids(field, list(values), vocabulary)
    found.raise_if_any()

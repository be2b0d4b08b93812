"""Requests looked at before anything is begun: everything that is wrong with one is found at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from executor.found_outputs import MOST_PENALTY, MOST_WIDTH
from executor.frontend.errors import InvalidRequest, Violation
from executor.frontend.parameters import STOPPING
from executor.frontend.wire import pieces
from executor.outputs import MOST_OUTPUTS
from pagehold.inference.v1 import generation_pb2, parameters_pb2, prompt_pb2

LONGEST_REQUEST_ID = 128
TEMPERATURES = (0.0, 100.0)
PRIORITIES = (-100, 100)
LONGEST_TIME_BUDGET = 86_400.0
MOST_STOPS, LONGEST_STOP = 16, 1024
MOST_STOP_IDS = 64
LONGEST_SALT = 256
LONGEST_TEXT = 4 << 20
"""Characters of a text, and of all that is said in a conversation."""
MOST_MESSAGES = 10_000
MOST_IDS = 1 << 19
"""Ids of a request that is no prompt, and of its answer."""
SHOWN = 3
"""Wrong ones of one list that are named one by one."""
LONGEST_SHOWN = 40
"""Characters of a wrong name that are shown."""


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """What a model takes. Lengths in tokens, of prompt and output together, and in characters."""

    vocabulary: int
    max_length: int
    longest_text: int = LONGEST_TEXT


class Findings:
    """Collects what is wrong."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def add(self, field: str, value: object, limit: str) -> None:
        """A field, what it is, and what it must be."""
        self.violations.append(Violation(field, f"is {value}, but {limit}"))

    def check(self, right: bool, field: str, value: object, limit: str) -> None:
        """Note it unless it is right."""
        if not right:
            self.add(field, value, limit)

    def ids(self, field: str, ids: Sequence[int], vocabulary: int, most: int) -> None:
        """At most so many ids, each known. The first few that are not are named."""
        if len(ids) > most:
            self.add(field, f"{len(ids)} ids long", f"may have at most {most}")
            return
        wrong: list[int] = []
        start = 0
        for piece in pieces(ids):
            # Most pieces are right, and told to be so without a loop.
            if max(piece) >= vocabulary:
                wrong.extend(start + place for place, token in enumerate(piece) if token >= vocabulary)
            start += len(piece)
        for place in wrong[:SHOWN]:
            self.add(f"{field}[{place}]", ids[place], f"must lie in 0..{vocabulary - 1}, the model's vocabulary")
        self.count_rest(field, wrong)

    def count_rest(self, field: str, wrong: Sequence[int]) -> None:
        """Wrong places of a list, of which the first few were named: how many more there are."""
        if len(wrong) > SHOWN:
            self.add(field, f"wrong in {len(wrong) - SHOWN} more places", "each must be right")

    def raise_if_any(self) -> None:
        """Raises InvalidRequest with all that was found."""
        if self.violations:
            raise InvalidRequest(self.violations)


def check_generate(request: generation_pb2.GenerateRequest, limits: PromptLimits) -> None:
    """All of a request that can be judged before its prompt is tokenised. Raises InvalidRequest."""
    found = Findings()
    if request.HasField("request_id"):
        check_request_id(found, request.request_id)
    check_prompt(found, request.HasField("prompt"), request.prompt, limits)
    _check_sampling(found, request.sampling)
    _check_stopping(found, request.stopping, limits)
    if request.HasField("beam_search"):
        _check_search(found, request)
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
    shown = request_id if size <= LONGEST_SHOWN else request_id[:LONGEST_SHOWN] + "…"
    found.check(right, "request_id", repr(shown), f"must be 1 to {LONGEST_REQUEST_ID} bytes of printable text")


def check_prompt(found: Findings, present: bool, prompt: prompt_pb2.Prompt, limits: PromptLimits) -> None:
    """A prompt: there, not empty, and not longer than any prompt can be."""
    kind = prompt.WhichOneof("content") if present else None
    if kind is None:
        found.add("prompt", "absent", "text, ids or a chat is required")
    elif kind == "text":
        _check_text(found, "prompt.text", len(prompt.text), limits.longest_text)
    elif kind == "ids":
        found.check(bool(prompt.ids.ids), "prompt.ids.ids", "empty", "must have at least one id")
        if len(prompt.ids.ids) < limits.max_length:
            found.ids("prompt.ids.ids", prompt.ids.ids, limits.vocabulary, limits.max_length)
        else:
            found.add("prompt.ids.ids", f"{len(prompt.ids.ids)} tokens long", _context(limits.max_length))
    else:
        _check_chat(found, prompt.chat, limits)


def _check_text(found: Findings, field: str, characters: int, most: int) -> None:
    limit = f"must have at least one character and may have at most {most}"
    found.check(1 <= characters <= most, field, f"{characters} characters long", limit)


def _check_chat(found: Findings, chat: prompt_pb2.Chat, limits: PromptLimits) -> None:
    count, field = len(chat.messages), "prompt.chat.messages"
    if not 1 <= count <= MOST_MESSAGES:
        found.add(field, f"{count} messages long", f"must have 1 to {MOST_MESSAGES}")
        return
    silent = [place for place, message in enumerate(chat.messages) if not message.role]
    for place in silent[:SHOWN]:
        found.add(f"{field}[{place}].role", "empty", "must say who speaks")
    found.count_rest(field, silent)
    characters = sum(len(message.content) for message in chat.messages)
    limit = f"may have at most {limits.longest_text} together"
    found.check(characters <= limits.longest_text, field, f"{characters} characters long", limit)


def _check_sampling(found: Findings, sampling: parameters_pb2.SamplingParameters) -> None:
    low, high = TEMPERATURES
    number(found, sampling, "temperature", lambda value: low <= value <= high, f"must lie in {low:.0f}..{high:.0f}")
    number(found, sampling, "top_k", lambda value: value >= -1, "must be at least -1; -1 and 0 keep all")
    number(found, sampling, "top_p", lambda value: 0 < value <= 1, "must be above 0 and at most 1")
    number(found, sampling, "min_p", lambda value: 0 <= value <= 1, "must lie in 0..1")
    number(found, sampling, "n", lambda value: 1 <= value <= MOST_OUTPUTS, f"must lie in 1..{MOST_OUTPUTS}")


def _check_search(found: Findings, request: generation_pb2.GenerateRequest) -> None:
    """A beam search, and what cannot stand beside one."""
    search, sampling = request.beam_search, request.sampling
    limit = f"must lie in 1..{MOST_WIDTH}"
    right = search.HasField("beam_width") and 1 <= search.beam_width <= MOST_WIDTH
    width = search.beam_width if search.HasField("beam_width") else "absent"
    found.check(right, "beam_search.beam_width", width, limit)
    limit = f"must lie in -{MOST_PENALTY}..{MOST_PENALTY}"
    number(found, search, "length_penalty", lambda value: abs(value) <= MOST_PENALTY, limit, "beam_search")
    limit = "must be EARLY_STOPPING_OFF, EARLY_STOPPING_ON or EARLY_STOPPING_NEVER"
    number(found, search, "early_stopping", lambda value: value in STOPPING, limit, "beam_search")
    for name in ("temperature", "top_k", "top_p", "min_p", "n"):
        if sampling.HasField(name) and (name != "temperature" or sampling.temperature):
            found.add(f"sampling.{name}", getattr(sampling, name), "a beam search draws nothing: leave it out")
    count = len(request.stopping.stop)
    found.check(not count, "stopping.stop", f"{count} texts", "a beam search ends at tokens alone: leave it out")


def number(found: Findings, message: Any, name: str, right: Any, limit: str, group: str = "sampling") -> None:
    """A number that may be absent. Not-a-number is never right, since no comparison with it holds."""
    if message.HasField(name):
        value = getattr(message, name)
        found.check(math.isfinite(value) and right(value), f"{group}.{name}", value, limit)


def _check_stopping(found: Findings, stopping: parameters_pb2.StoppingParameters, limits: PromptLimits) -> None:
    most = limits.max_length - 1
    limit = f"must lie in 1..{most}: prompt and output together have at most {limits.max_length} tokens"
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
    for place, stop in enumerate(stopping.stop[:MOST_STOPS]):
        limit = f"must have 1 to {LONGEST_STOP} characters"
        found.check(1 <= len(stop) <= LONGEST_STOP, f"stopping.stop[{place}]", f"{len(stop)} characters long", limit)
    found.ids("stopping.stop_token_ids", stopping.stop_token_ids, limits.vocabulary, MOST_STOP_IDS)


def check_text(field: str, characters: int, most: int) -> None:
    """A text that may be empty. Raises InvalidRequest where it is too long."""
    if characters > most:
        raise InvalidRequest.of(field, f"is {characters} characters long, but may have at most {most}")


def check_context(prompt_tokens: int, max_length: int) -> None:
    """A prompt has a token, and leaves room for another in the model's context. Raises InvalidRequest."""
    if prompt_tokens == 0:
        raise InvalidRequest.of("prompt", "is 0 tokens long, but must have at least one")
    if prompt_tokens >= max_length:
        raise InvalidRequest.of("prompt", f"is {prompt_tokens} tokens long, but {_context(max_length)}")


def _context(max_length: int) -> str:
    return f"may have at most {max_length - 1}: prompt and output together have at most {max_length}"


def check_length(prompt_tokens: int, request: generation_pb2.GenerateRequest, max_length: int) -> None:
    """Prompt and output together must fit the model's context. Raises InvalidRequest naming the numbers."""
    found = Findings()
    if request.stopping.max_tokens > max_length - prompt_tokens:
        limit = f"may be at most {max_length - prompt_tokens}: the prompt has {prompt_tokens} tokens of {max_length}"
        found.add("stopping.max_tokens", request.stopping.max_tokens, limit)
    elif request.stopping.min_tokens > max_length - prompt_tokens:
        limit = f"may be at most {max_length - prompt_tokens}: the prompt has {prompt_tokens} tokens of {max_length}"
        found.add("stopping.min_tokens", request.stopping.min_tokens, limit)
    found.raise_if_any()

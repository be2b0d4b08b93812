"""What is asked: requests of token ids, the same ones in every run.

Lengths come from a generator of their own, so that they do not depend on the vocabulary that the ids are drawn from.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

PREFIX_TOKENS, SUFFIX_TOKENS, PREFIX_OUTPUT = 4096, 64, 64


class WorkloadError(Exception):
    """A workload cannot be had, or the server cannot be asked it; the text says why, in a line."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its parameters as the client takes them, and the outputs it has."""

    parameters: dict[str, Any]
    outputs: int = 1

    @property
    def prompt_tokens(self) -> int:
        """Tokens of its prompt; 0 where the prompt is a text, whose tokens the server counts."""
        return len(self.parameters.get("ids") or ())

    @property
    def max_tokens(self) -> int:
        """Tokens of each output at most; 0 where the server's default counts."""
        return int(self.parameters.get("max_tokens") or 0)


def seed(vocabulary: int) -> Iterator[Request]:
    """1,000 requests, greedy: prompts of 50 to 500 tokens, outputs of 20 to 200."""
    lengths, ids = random.Random(42), random.Random("seed")
    for _ in range(1000):
        prompt, output = lengths.randint(50, 500), lengths.randint(20, 200)
        yield _request(_ids(ids, prompt, vocabulary), output, temperature=0.0)


def small(vocabulary: int) -> Iterator[Request]:
    """256 requests at temperature 0.6: prompts and outputs of 100 to 1,024 tokens."""
    lengths, ids = random.Random(0), random.Random("small")
    for number in range(256):
        prompt, output = lengths.randint(100, 1024), lengths.randint(100, 1024)
        yield _request(_ids(ids, prompt, vocabulary), output, temperature=0.6, seed=number)


def prefix(vocabulary: int) -> Iterator[Request]:
    """64 requests, greedy: a prefix of 4,096 tokens that all share, 64 tokens of their own, outputs of 64."""
    ids = random.Random("prefix")
    shared = _ids(ids, PREFIX_TOKENS, vocabulary)
    for _ in range(64):
        yield _request(shared + _ids(ids, SUFFIX_TOKENS, vocabulary), PREFIX_OUTPUT, temperature=0.0)


def sampling(vocabulary: int) -> Iterator[Request]:
    """64 prompts of 512 tokens, 8 outputs of 128 tokens of each, at temperature 1."""
    ids = random.Random("sampling")
    for number in range(64):
        parameters = {"temperature": 1.0, "seed": number, "n": 8}
        yield _request(_ids(ids, 512, vocabulary), 128, outputs=8, **parameters)


def single(vocabulary: int) -> Iterator[Request]:
    """One request, greedy: a prompt of 128 tokens, an output of 256."""
    yield _request(_ids(random.Random("single"), 128, vocabulary), 256, temperature=0.0)


WORKLOADS: dict[str, Callable[[int], Iterator[Request]]] = {
    "single": single,
    "seed": seed,
    "small": small,
    "prefix": prefix,
    "sampling": sampling,
}


def _ids(numbers: random.Random, count: int, vocabulary: int) -> list[int]:
    return numbers.choices(range(vocabulary), k=count)


def _request(ids: list[int], output: int, *, outputs: int = 1, **parameters: Any) -> Request:
    return Request({"ids": ids, "max_tokens": output, "ignore_eos": True, **parameters}, outputs)


def limited(requests: list[Request], count: int | None, max_tokens: int | None) -> list[Request]:
    """The first ``count`` requests, with outputs cut to ``max_tokens``; None: no limit."""
    kept = requests[:count]
    if max_tokens is None:
        return kept
    return [
        Request({**one.parameters, "max_tokens": min(one.max_tokens or max_tokens, max_tokens)}, one.outputs)
        for one in kept
    ]

"""Requests to simulate: the lengths of their prompts and outputs."""

import random
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Request:
    """Tokens of a prompt and of the output that follows it."""

    prompt: int
    output: int

    @property
    def final(self) -> int:
        """Tokens at the end."""
        return self.prompt + self.output


def uniform_requests(count: int = 1000, seed: int = 42) -> list[Request]:
    """Prompts of 50 to 500 tokens and outputs of 20 to 200, each length as likely as any other."""
    numbers = random.Random(seed)
    return [Request(numbers.randint(50, 500), numbers.randint(20, 200)) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class LengthMix:
    """Lengths drawn from geometric distributions of given means, and cut at ``limit`` tokens in all.

    Of the data sets only the means are published with the PagedAttention paper's figures; the geometric distribution is
    the one that assumes nothing else (of all on 1, 2, 3… with that mean it has the largest entropy).
    """

    name: str
    prompt_mean: float
    output_mean: float
    limit: int = 2048

    def draw(self, count: int, numbers: np.random.Generator) -> list[Request]:
        """Draw ``count`` requests, each with a token of prompt and one of output at least."""
        prompts = np.minimum(numbers.geometric(1 / self.prompt_mean, count), self.limit - 1)
        outputs = np.minimum(numbers.geometric(1 / self.output_mean, count), self.limit - prompts)
        return [Request(prompt, output) for prompt, output in zip(prompts.tolist(), outputs.tolist(), strict=True)]


ALPACA = LengthMix("Alpaca", 19, 58)
SHAREGPT = LengthMix("ShareGPT", 161, 338)

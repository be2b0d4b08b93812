"""Who is in the next step, and with how many tokens."""

from collections.abc import Iterable
from dataclasses import dataclass

from executor.engine.sequence import Sequence

Part = tuple[Sequence, int]
"""A sequence and how many of its positions a step feeds."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How large a step may be."""

    step_tokens: int
    """Tokens in a step at most, decodes and chunks of prompts together."""
    chunk: int
    """Tokens of one prompt in a step at most."""
    rows: int
    """Sequences in a step at most."""


def plan(sequences: Iterable[Sequence], budget: Budget, tokens_per_block: int) -> list[Part]:
    """The next step: first all that decode, then chunks of prompts in the order of ``sequences``, up to the budget.

    Decodes come first because somebody reads along; what they leave of the budget keeps prompts from waiting. Changes
    nothing.
    """
    decodes: list[Part] = []
    prompts: list[Sequence] = []
    for sequence in sequences:
        if not sequence.wants_to_run():
            continue
        if sequence.is_prefill:
            prompts.append(sequence)
        elif len(decodes) < min(budget.rows, budget.step_tokens) and sequence.runnable(1, tokens_per_block):
            decodes.append((sequence, 1))
    return decodes + _chunks(prompts, budget, len(decodes), tokens_per_block)


def _chunks(prompts: list[Sequence], budget: Budget, decodes: int, tokens_per_block: int) -> list[Part]:
    parts: list[Part] = []
    left = budget.step_tokens - decodes
    for sequence in prompts:
        if left <= 0 or decodes + len(parts) >= budget.rows:
            break
        count = sequence.runnable(min(budget.chunk, left), tokens_per_block)
        if count:
            parts.append((sequence, count))
            left -= count
    return parts

"""Rows of the sequence table as readers get them: copies of one moment, by name."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

NO_FINAL = -1
"""``final`` of a sequence whose end is not fixed yet."""


@dataclass(frozen=True, slots=True)
class SequenceTokens:
    """What a front door delivers from. ``tokens`` holds prompt and output."""

    handle: int
    uuid: bytes
    tokens: NDArray[np.int32]
    prompt: int
    final: int
    """Tokens, prompt included, after which the sequence ends, or ``NO_FINAL``."""

    @property
    def output(self) -> NDArray[np.int32]:
        """The tokens that count, without the prompt: none beyond ``final``."""
        last = len(self.tokens) if self.final == NO_FINAL else min(self.final, len(self.tokens))
        return self.tokens[self.prompt : last]


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceRow:
    """Everything that the ledger holds about a sequence: what its next executor needs to go on with it."""

    handle: int
    uuid: bytes
    caller: bytes
    body: bytes
    """Digest of the request, as compared when it is sent again."""
    root: bytes
    """Root of its chain of block hashes."""
    request: bytes
    """The serialised request."""
    tokens: NDArray[np.int32]
    """Prompt and output, ``[count]``."""
    logprobs: NDArray[np.float32]
    """``[count]``; zero where none were asked for."""
    table: NDArray[np.int64]
    """The block table in the ledger's numbering, ``[blocks]``: from ``geometry.host_base`` on lies the host tier."""
    score: float
    created: float
    """Seconds since 1970."""
    request_length: int
    owner: int
    epoch: int
    priority: int
    flags: int
    """``SequenceFlags``."""
    family: int
    attachment: int
    deaths: int
    death_count: int
    cancel: int
    final: int
    """Tokens, prompt included, after which the sequence ends, or ``NO_FINAL``."""
    residency: int
    """``Residency``."""
    prompt: int
    """Tokens of the prompt."""
    blocks: int
    launched: int
    """Positions below it are written by steps that were launched."""
    computed: int
    """Positions below it are written by completed steps."""
    published: int
    """Leading blocks that others may hit."""
    state: int
    """``SequenceState``."""
    count: int
    """Tokens recorded."""

    @property
    def resume(self) -> int:
        """Position of the next token to feed: KV is valid below it, and the last recorded token is always fed again."""
        return max(0, min(self.computed, self.count - 1))

    @classmethod
    def numbers(cls) -> list[str]:
        """Names of the fields that are columns of numbers."""
        return [known.name for known in fields(cls) if known.type in (int, float) and known.name != "handle"]

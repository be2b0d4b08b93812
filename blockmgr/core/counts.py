"""What a pool has done since its manager started, in numbers. Nothing is decided by them, and none is stored."""

from collections import Counter
from dataclasses import dataclass, field

from blockmgr.core.events import KeptEvents


@dataclass(slots=True)
class Counts:
    """Sums that only rise, but for what a transaction counted that is undone."""

    turns: int = 0
    """Messages handled."""
    repeated_turns: int = 0
    """Messages that came again and got their stored reply."""
    prompt_tokens: int = 0
    """Tokens of the prompts admitted."""
    cached_prompt_tokens: int = 0
    """Of these, tokens whose KV was there already, when they were admitted or looked again."""
    output_tokens: int = 0
    """Tokens recorded behind prompts."""
    events: Counter[str] = field(default_factory=Counter)
    """Events by kind."""
    blocks: Counter[str] = field(default_factory=Counter)
    """Blocks named by events of a kind."""

    def tokens(self) -> tuple[int, int, int]:
        """The sums that rise within a transaction, to be set back to if it is undone."""
        return self.prompt_tokens, self.cached_prompt_tokens, self.output_tokens

    def set_back(self, tokens: tuple[int, int, int]) -> None:
        """A transaction that began at these sums is undone."""
        self.prompt_tokens, self.cached_prompt_tokens, self.output_tokens = tokens

    def happened(self, events: KeptEvents) -> None:
        """Count a committed transaction's events."""
        for kind, blocks in events.blocks_by_kind():
            self.events[kind] += 1
            self.blocks[kind] += blocks

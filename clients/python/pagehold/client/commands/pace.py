"""How fast an answer came."""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagehold.client import Event


class Pace:
    """Counts the tokens of one answer and takes their times, from when it is made."""

    def __init__(self) -> None:
        self.tokens = 0
        self._asked = time.monotonic()
        self._first: float | None = None
        self._last = self._asked
        self._first_tokens = 0
        self._at_once = False
        """Whether all of it comes in the end, when a search has found it: it was the search that took time."""

    def note(self, event: "Event") -> None:
        """Take the time of an event."""
        from pagehold.client import Delta, Started

        if isinstance(event, Started):
            self._at_once = event.beam_search is not None
        if not isinstance(event, Delta) or not event.ids:
            return
        self._last = time.monotonic()
        self.tokens += len(event.ids)
        if self._first is None:
            self._first, self._first_tokens = self._last, self.tokens

    def __str__(self) -> str:
        """In words: "42 tokens, the first after 0.21 s, then 31.5 tokens/s"; of a search "42 tokens in 1.60 s"."""
        if self._first is None:
            return f"no tokens in {time.monotonic() - self._asked:.2f} s"
        text = f"{self.tokens} token{'s' * (self.tokens != 1)}"
        if self._at_once:
            return f"{text} in {self._last - self._asked:.2f} s"
        text += f", the first after {self._first - self._asked:.2f} s"
        rest, seconds = self.tokens - self._first_tokens, self._last - self._first
        return text + (f", then {rest / seconds:.1f} tokens/s" if rest and seconds > 0 else "")

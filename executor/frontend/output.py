"""The text of one output, token by token: the same tokens give the same pieces, whoever delivers them and when."""

from collections.abc import Collection, Iterable, Sequence

from executor.frontend.detokenizer import Detokenizer
from executor.frontend.stops import StopFinder
from executor.frontend.tokenizer import Tokenizer


class OutputText:
    """Turns an output's tokens into text, and finds where a stop string ends it.

    A token that ends the output says nothing. The text that comes with the first ``min_tokens`` tokens is shown
    unsearched, so no stop string begins in it.
    """

    def __init__(
        self, tokenizer: Tokenizer, stops: Sequence[str] = (), end_ids: Collection[int] = (), min_tokens: int = 0
    ) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._finder = StopFinder(stops)
        self._end_ids = frozenset(end_ids)
        self._min_tokens = min_tokens
        self.tokens = 0
        """Tokens taken."""

    @property
    def stop(self) -> str | None:
        """The stop string that was found: the output ends with the last token taken."""
        return self._finder.found

    def push(self, ids: Iterable[int]) -> str:
        """Take tokens, up to the one that completes a stop string; returns the text that they add."""
        pieces = []
        for token in ids:
            self.tokens += 1
            if token not in self._end_ids:
                pieces.append(self._search(self._detokenizer.push(token)))
            if self.stop is not None:
                break
        return "".join(pieces)

    def flush(self) -> str:
        """The output has ended: the text that was held back. A stop string may turn up in it."""
        text = self._search(self._detokenizer.flush())
        return text if self.stop is not None else text + self._finder.flush()

    def _search(self, text: str) -> str:
        return text if self.tokens <= self._min_tokens else self._finder.push(text)

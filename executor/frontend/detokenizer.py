"""Tokens to text, one by one: never part of a character, and all pieces together are what decoding at once gives."""

from executor.frontend.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"
"""What bytes are decoded to that are no character, or not yet."""

CONTEXT = 6
"""Tokens kept before a new one. A character has at most four bytes, so one that is under way begins within them."""

LONGEST_WINDOW = 24
"""Tokens that are decoded anew with each further one, at most."""


class Detokenizer:
    """Decodes a window of the last tokens again with each new one, and returns what is new and will not change.

    The last character of a text may change while it is U+FFFD, for the bytes that it stands for may be the beginning of
    a character. Where tokens are bytes that are judged together (byte fallback), a run of them is held until it ends: one
    wrong byte makes all of the run U+FFFD.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._window: list[int] = []
        self._shown = 0
        """Characters of the window's text that were returned."""

    def push(self, token: int) -> str:
        """What one more token adds to the text; may be nothing, and may be what earlier ones were waiting for."""
        if not self._tokenizer.says_something(token):
            return ""
        self._window.append(token)
        if token in self._tokenizer.byte_ids:
            return ""
        text = self._tokenizer.decode(self._window)
        sure = len(text) - text.endswith(REPLACEMENT)
        new = text[self._shown : sure]
        self._shown = max(sure, self._shown)
        if len(self._window) > LONGEST_WINDOW:
            self._forget(text)
        return new

    def flush(self) -> str:
        """Nothing more comes: the rest of the text, as it is."""
        text = self._tokenizer.decode(self._window) if self._window else ""
        rest, self._shown = text[self._shown :], len(text)
        return rest

    def _forget(self, text: str) -> None:
        """Keep the last tokens as context: how a token is decoded may depend on whether something stands before it."""
        kept = self._window[-CONTEXT:]
        waiting = len(text) - self._shown
        shown = len(self._tokenizer.decode(kept)) - waiting
        # Without a shown character in front, what decoders strip from a text's start would be stripped in its midst.
        if shown > 0:
            self._window, self._shown = kept, shown

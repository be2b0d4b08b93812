"""A model's tokenizer: text to tokens and back, and its chat template.

Everything here is synchronous and may take long: call it from a thread. Encoding lets other threads run meanwhile.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import jinja2
from transformers import PreTrainedTokenizerFast

from executor.frontend.errors import InvalidRequest, Unsuitable

TOKENIZER_FILE = "tokenizer.json"

FEW = 1024
"""Tokens that are decoded faster than another thread can be let run."""


class TooManyTokens(Exception):
    """A text has more tokens than were wanted."""

    def __init__(self, tokens: int) -> None:
        super().__init__(f"{tokens} tokens")
        self.tokens = tokens


class Tokenizer(Protocol):
    """What a front door asks of a tokenizer."""

    size: int
    """Ids below it are known."""
    longest_token: int
    """Characters that one token stands for at most; 0: nothing can be said, as where spaces or odd words vanish."""
    byte_ids: frozenset[int]
    """Ids of tokens that are one byte each; bytes that stand together are decoded together."""
    has_chat_template: bool

    def encode(self, text: str, special: bool = True, most: int | None = None) -> list[int]:
        """Tokens of a text, with the model's own special tokens at its start if ``special``.

        Raises TooManyTokens for more than ``most``, before a list is made of them.
        """

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """Text of tokens. Ids that are not known say nothing; bytes that are no whole character become U+FFFD."""

    def says_something(self, token: int) -> bool:
        """Whether a token belongs to the text: it is known, and is no special token."""

    def render(self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool) -> str:
        """A conversation as the model's chat template writes it."""


class FastTokenizer:
    """A tokenizer out of a model's folder."""

    def __init__(self, folder: Path) -> None:
        """Load it; takes a second at first. Raises OSError or ValueError where the folder holds none that can be read."""
        self._wrapped: Any = PreTrainedTokenizerFast.from_pretrained(folder)
        self._backend = self._wrapped.backend_tokenizer
        # A prompt is encoded alone, and has its own limit: one padded or cut by settings of training would be wrong.
        self._backend.no_padding()
        self._backend.no_truncation()
        vocabulary = self._backend.get_vocab(with_added_tokens=True)
        self.size = max(vocabulary.values(), default=-1) + 1
        # Only byte-level encodings lose nothing of a text on its way to tokens.
        loses_nothing = type(self._backend.decoder).__name__ == "ByteLevel" and self._backend.normalizer is None
        self.longest_token = max(map(len, vocabulary), default=0) if loses_nothing else 0
        self._known = frozenset(vocabulary.values())
        added = self._backend.get_added_tokens_decoder()
        self._special = frozenset(number for number, token in added.items() if token.special)
        self.byte_ids = self._find_byte_ids(vocabulary)
        self.has_chat_template = self._wrapped.chat_template is not None
        mask = self._encode("a", special=True).special_tokens_mask
        self._behind = next((place for place, added in enumerate(reversed(mask)) if not added), 0)
        """Tokens that the model's template puts behind a text."""

    def _find_byte_ids(self, vocabulary: dict[str, int]) -> frozenset[int]:
        """Ids of "<0x00>" to "<0xFF>", if the decoder takes them for bytes."""
        letter = vocabulary.get("<0x41>")
        if letter is None or self.decode([letter]) != "A":
            return frozenset()
        return frozenset(vocabulary[name] for byte in range(256) if (name := f"<0x{byte:02X}>") in vocabulary)

    def encode(self, text: str, special: bool = True, most: int | None = None) -> list[int]:
        """Tokens of a text. What a template puts behind a text, such as an end of sequence, is left out."""
        encoding = self._encode(text, special)
        tokens = len(encoding) - (self._behind if special else 0)
        if most is not None and tokens > most:
            raise TooManyTokens(tokens)
        ids: list[int] = encoding.ids
        return ids[:tokens]

    def _encode(self, text: str, special: bool) -> Any:
        # Of the library's ways to encode only this one lets go of the interpreter's lock.
        return self._backend.encode_batch_fast([text], add_special_tokens=special)[0]

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """Text of tokens, exactly as they stand: spaces are not tidied up."""
        if len(ids) <= FEW:
            text: str = self._backend.decode(ids, skip_special_tokens=skip_special)
            return text
        # As with encoding, only this way lets go of the interpreter's lock.
        (text,) = self._backend.decode_batch([ids], skip_special_tokens=skip_special)
        return text

    def says_something(self, token: int) -> bool:
        """Whether a token belongs to the text."""
        return token in self._known and token not in self._special

    def render(self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool) -> str:
        """A conversation as text. Raises Unsuitable without a chat template, InvalidRequest where that refuses it."""
        if not self.has_chat_template:
            raise Unsuitable("the model has no chat template; send text or token ids instead of a conversation")
        try:
            text: str = self._wrapped.apply_chat_template(
                list(messages), add_generation_prompt=add_generation_prompt, tokenize=False
            )
        except jinja2.TemplateError as error:
            raise InvalidRequest.of("prompt.chat", f"is refused by the model's chat template: {error}") from error
        return text


class NoTokenizer:
    """Stands in where a model's folder has no tokenizer: tokens go in and out, and there is no text."""

    longest_token = 0
    byte_ids: frozenset[int] = frozenset()
    has_chat_template = False

    def __init__(self, size: int) -> None:
        """With so many ids, all of which say nothing."""
        self.size = size

    def encode(self, text: str, special: bool = True, most: int | None = None) -> list[int]:
        """Refused."""
        raise Unsuitable("the model has no tokenizer; send token ids instead of text")

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """Nothing."""
        return ""

    def says_something(self, token: int) -> bool:
        """Never."""
        return False

    def render(self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool) -> str:
        """Refused."""
        raise Unsuitable("the model has no tokenizer, and so no chat template; send token ids")


def load_tokenizer(folder: Path, vocabulary: int) -> Tokenizer:
    """The tokenizer of a model's folder, or what stands in for one that is not there."""
    if not (folder / TOKENIZER_FILE).exists():
        return NoTokenizer(vocabulary)
    return FastTokenizer(folder)

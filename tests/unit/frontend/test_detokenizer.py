"""Tokens to text one by one: the same text as at once, and never part of a character."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from executor.frontend.detokenizer import LONGEST_WINDOW, REPLACEMENT, Detokenizer
from executor.frontend.tokenizer import FastTokenizer

EMOJI = "👩‍👩‍👧 naïve Ω 日本語 🇫🇷 é é\u0301 ok"


def pieces(tokenizer: FastTokenizer, ids: Sequence[int]) -> list[str]:
    """What each token adds, and the rest."""
    detokenizer = Detokenizer(tokenizer)
    return [*(detokenizer.push(token) for token in ids), detokenizer.flush()]


def at_once(tokenizer: FastTokenizer, ids: Sequence[int]) -> str:
    return tokenizer.decode(list(ids), skip_special=True)


@settings(max_examples=400)
@given(data=st.data())
def test_pieces_of_any_tokens_are_the_text_at_once(demo_tokenizer: FastTokenizer, data: st.DataObject) -> None:
    # The first few hundred ids are special tokens and single bytes, of which hardly any stand for characters.
    token = st.integers(0, demo_tokenizer.size + 5) | st.integers(0, 300)
    ids = data.draw(st.lists(token, max_size=3 * LONGEST_WINDOW))
    assert "".join(pieces(demo_tokenizer, ids)) == at_once(demo_tokenizer, ids)


@settings(max_examples=200)
@given(text=st.text(max_size=60))
def test_pieces_of_any_text_are_that_text(demo_tokenizer: FastTokenizer, text: str) -> None:
    ids = demo_tokenizer.encode(text, special=False)
    assert "".join(pieces(demo_tokenizer, ids)) == at_once(demo_tokenizer, ids)


@settings(max_examples=400)
@given(data=st.data())
def test_bytes_that_are_judged_together_are_held_together(llama_tokenizer: FastTokenizer, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, llama_tokenizer.size + 2), max_size=3 * LONGEST_WINDOW))
    assert "".join(pieces(llama_tokenizer, ids)) == at_once(llama_tokenizer, ids)


def test_a_character_of_several_tokens_comes_whole(demo_tokenizer: FastTokenizer) -> None:
    ids = demo_tokenizer.encode(EMOJI, special=False)
    assert len(ids) > len(EMOJI), "some characters take several tokens"
    shown = pieces(demo_tokenizer, ids)
    assert "".join(shown) == EMOJI
    assert not any(REPLACEMENT in piece for piece in shown)


def test_bytes_that_never_become_a_character_are_shown_and_forgotten(demo_tokenizer: FastTokenizer) -> None:
    broken = demo_tokenizer.encode("👩", special=False)[:1] * 500
    detokenizer = Detokenizer(demo_tokenizer)
    shown = "".join(detokenizer.push(token) for token in broken)
    assert len(shown) >= 499
    assert len(detokenizer._window) <= LONGEST_WINDOW + 1


def test_special_and_unknown_tokens_say_nothing(demo_tokenizer: FastTokenizer) -> None:
    assert pieces(demo_tokenizer, [0, 1, 2, demo_tokenizer.size, 1 << 30]) == ["", "", "", "", "", ""]


def test_a_space_at_the_beginning_of_a_later_piece_stays(llama_tokenizer: FastTokenizer) -> None:
    the = next(i for i in range(llama_tokenizer.size) if llama_tokenizer.decode([i]) == "the")
    assert "".join(pieces(llama_tokenizer, [the] * 100)) == " ".join(["the"] * 100)

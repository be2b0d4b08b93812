"""An output's text: end tokens, stop strings, the least number of tokens, and what is held back until the end."""

from pathlib import Path

import pytest

from executor.frontend.output import OutputText
from executor.frontend.tokenizer import FastTokenizer
from tests.scripted.tokenizers import EOS, FIRST_PIECE, write_pieces

PIECES = ["DEF", "G", "HI", "J", "The quick br", "own", " fox", "...Mars?", "ple", "as", "x"]
IDS = {piece: FIRST_PIECE + place for place, piece in enumerate(PIECES)}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> FastTokenizer:
    return FastTokenizer(write_pieces(Path(tmp_path_factory.mktemp("pieces")), PIECES))


def ids(*pieces: str) -> list[int]:
    return [IDS[piece] for piece in pieces]


def test_a_stop_string_ends_the_output_with_the_token_that_completes_it(tokenizer: FastTokenizer) -> None:
    output = OutputText(tokenizer, ["own fox"])
    assert output.push(ids("The quick br", "own", " fox", "x")) == "The quick br"
    assert (output.stop, output.tokens) == ("own fox", 3)


def test_what_was_held_back_comes_at_the_end(tokenizer: FastTokenizer) -> None:
    output = OutputText(tokenizer, ["assistant"], end_ids=[EOS])
    assert output.push([*ids("ple", "as"), EOS]) == "ple"
    assert output.flush() == "as"
    assert output.stop is None


def test_the_last_characters_stay_where_no_stop_follows(tokenizer: FastTokenizer) -> None:
    output = OutputText(tokenizer, ["\n"], end_ids=[EOS])
    assert output.push([*ids("...Mars?"), EOS]) + output.flush() == "...Mars?"


def test_a_token_that_ends_the_output_says_nothing_though_it_has_text(tokenizer: FastTokenizer) -> None:
    output = OutputText(tokenizer, end_ids=ids("J"))
    assert output.push(ids("HI", "J")) + output.flush() == "HI"
    assert output.tokens == 2


def test_an_end_of_sequence_alone_is_an_empty_text_of_one_token(tokenizer: FastTokenizer) -> None:
    output = OutputText(tokenizer, ["x"], end_ids=[EOS])
    assert output.push([EOS]) + output.flush() == ""
    assert output.tokens == 1


def test_stop_strings_are_not_looked_for_within_the_least_number_of_tokens(tokenizer: FastTokenizer) -> None:
    output = OutputText(tokenizer, ["x"], min_tokens=2)
    assert output.push(ids("x", "x", "G", "x")) == "xxG"
    assert (output.stop, output.tokens) == ("x", 4)


@pytest.mark.parametrize("cut", range(5))
def test_pieces_do_not_depend_on_how_many_tokens_come_at_once(tokenizer: FastTokenizer, cut: int) -> None:
    tokens = ids("DEF", "G", "HI", "x")
    at_once, in_two = (OutputText(tokenizer, ["DEFGHIJ"]) for _ in range(2))
    assert in_two.push(tokens[:cut]) + in_two.push(tokens[cut:]) == at_once.push(tokens) == "DEFGHIx"

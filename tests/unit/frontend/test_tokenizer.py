"""A model's tokenizer: what stands around a prompt, what unknown ids are, and what a template may refuse."""

import threading
from pathlib import Path

import pytest

from executor.frontend.errors import InvalidRequest, Unsuitable
from executor.frontend.tokenizer import FastTokenizer, NoTokenizer, load_tokenizer
from tests.scripted.tokenizers import BOS, EOS, FIRST_PIECE, write_pieces


def test_a_prompt_gets_the_models_special_tokens_at_its_start_alone(tmp_path: Path) -> None:
    tokenizer = FastTokenizer(write_pieces(tmp_path, ["a", "b"], bos=True))
    assert tokenizer.encode("a b") == [BOS, FIRST_PIECE, FIRST_PIECE + 1]
    assert tokenizer.encode("a b", special=False) == [FIRST_PIECE, FIRST_PIECE + 1]
    assert tokenizer.encode("") == [BOS]
    assert tokenizer.encode("a </s>") == [BOS, FIRST_PIECE, EOS]


def test_special_tokens_are_spelt_out_or_left_out(tmp_path: Path) -> None:
    tokenizer = FastTokenizer(write_pieces(tmp_path, ["a", "b"]))
    assert tokenizer.decode([BOS, FIRST_PIECE, EOS]) == "<s>a</s>"
    assert tokenizer.decode([BOS, FIRST_PIECE, EOS], skip_special=True) == "a"


def test_ids_beyond_the_tokenizer_say_nothing(tmp_path: Path) -> None:
    tokenizer = FastTokenizer(write_pieces(tmp_path, ["a", "b"]))
    assert tokenizer.size == 5
    assert tokenizer.decode([FIRST_PIECE, 5, 1 << 31]) == "a"


def test_how_long_a_token_is_counts_only_where_no_text_vanishes(
    demo_tokenizer: FastTokenizer, llama_tokenizer: FastTokenizer, tmp_path: Path
) -> None:
    assert demo_tokenizer.longest_token > 10
    assert llama_tokenizer.longest_token == 0
    assert FastTokenizer(write_pieces(tmp_path, ["a", "b"])).longest_token == 0


def test_a_conversation_is_written_by_the_models_template(tmp_path: Path) -> None:
    tokenizer = FastTokenizer(write_pieces(tmp_path, ["a"], chat=True))
    assert tokenizer.render([{"role": "user", "content": "a"}], True) == "user a "
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('no systems') }}")
    with pytest.raises(InvalidRequest, match="refused by the model's chat template: no systems"):
        FastTokenizer(tmp_path).render([{"role": "system", "content": "a"}], True)


def test_a_model_without_a_template_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unsuitable, match="no chat template"):
        FastTokenizer(write_pieces(tmp_path, ["a"])).render([], True)


def test_a_folder_without_a_tokenizer_takes_ids_only(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(tmp_path, 131)
    assert isinstance(tokenizer, NoTokenizer)
    assert tokenizer.size == 131
    assert tokenizer.decode([1, 2]) == ""
    with pytest.raises(Unsuitable, match="send token ids"):
        tokenizer.encode("a")


def turns_while_encoding(tokenizer: FastTokenizer, text: str) -> int:
    """How often another thread gets its turn meanwhile."""
    done = threading.Event()
    turns = 0

    def encode() -> None:
        tokenizer.encode(text)
        done.set()

    thread = threading.Thread(target=encode)
    thread.start()
    while not done.wait(0.001):
        turns += 1
    thread.join()
    return turns


def test_other_threads_run_while_a_long_text_is_encoded(demo_tokenizer: FastTokenizer) -> None:
    sentences = (20_000 << doubled for doubled in range(6))
    # However long the text is, there would be one if the interpreter were held all the while.
    assert any(turns_while_encoding(demo_tokenizer, "The quick brown fox. " * count) > 3 for count in sentences)

"""Prompts to tokens."""

import pytest

from executor.frontend.errors import InvalidRequest
from executor.frontend.models import Model
from executor.frontend.prompts import text_of, tokens_of
from executor.frontend.tokenizer import FastTokenizer
from executor.frontend.validation import LONGEST_TEXT
from executor.frontend.wire import PIECE_IDS
from pagehold.blockmgr.v1 import pool_pb2
from pagehold.engine.v1 import description_pb2
from pagehold.inference.v1 import prompt_pb2


def model(tokenizer: FastTokenizer, max_length: int = 64) -> Model:
    description = description_pb2.ModelDescription(vocabulary=tokenizer.size, max_length=max_length)
    return Model(description, pool_pb2.Pool(), tokenizer)


def test_the_context_limits_a_text_where_tokens_have_a_longest(
    demo_tokenizer: FastTokenizer, llama_tokenizer: FastTokenizer
) -> None:
    assert model(demo_tokenizer).limits.longest_text == 64 * demo_tokenizer.longest_token
    assert model(demo_tokenizer, 1 << 30).limits.longest_text == LONGEST_TEXT
    assert model(llama_tokenizer).limits.longest_text == LONGEST_TEXT


@pytest.mark.parametrize("tokens", [64, 100])
def test_a_text_of_more_tokens_than_fit_is_refused_with_their_number(
    demo_tokenizer: FastTokenizer, tokens: int
) -> None:
    text = "".join(f" {number % 10}" for number in range(tokens // 2))
    with pytest.raises(InvalidRequest, match=f"prompt is {tokens} tokens long, but may have at most 63"):
        tokens_of(model(demo_tokenizer), prompt_pb2.Prompt(text=text))


def test_a_conversation_that_its_template_makes_too_long_is_refused(demo_tokenizer: FastTokenizer) -> None:
    small = model(demo_tokenizer, 2)
    messages = [prompt_pb2.ChatMessage(role="user", content="hello")] * 100
    with pytest.raises(InvalidRequest, match=f"characters long, but may have at most {small.limits.longest_text}"):
        text_of(small, prompt_pb2.Prompt(chat=prompt_pb2.Chat(messages=messages)))


def test_a_conversation_ends_with_what_begins_an_answer_unless_it_is_not_wanted(demo_tokenizer: FastTokenizer) -> None:
    chat = prompt_pb2.Chat(messages=[prompt_pb2.ChatMessage(role="user", content="hello")])
    with_it = tokens_of(model(demo_tokenizer), prompt_pb2.Prompt(chat=chat))
    chat.add_generation_prompt = False
    without = tokens_of(model(demo_tokenizer), prompt_pb2.Prompt(chat=chat))
    assert with_it[: len(without)] == without
    assert demo_tokenizer.decode(with_it[len(without) :]) == "<|im_start|>assistant\n"


@pytest.mark.parametrize("count", [1, PIECE_IDS, PIECE_IDS + 1, 2 * PIECE_IDS + 1])
def test_ids_are_taken_as_they_are_however_many(demo_tokenizer: FastTokenizer, count: int) -> None:
    ids = [number % 1000 for number in range(count)]
    assert tokens_of(model(demo_tokenizer, count + 1), prompt_pb2.Prompt(ids=prompt_pb2.TokenIds(ids=ids))) == ids

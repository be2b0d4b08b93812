"""Prompts to tokens."""

import asyncio

import pytest

from executor.frontend.errors import InvalidRequest
from executor.frontend.models import Model, Models
from executor.frontend.prompts import MANY, PIECE, list_of, tokens_of
from executor.frontend.tokenizer import FastTokenizer
from pagehold.blockmgr.v1 import pool_pb2
from pagehold.engine.v1 import description_pb2
from pagehold.inference.v1 import prompt_pb2


def tokens(tokenizer: FastTokenizer, prompt: prompt_pb2.Prompt, max_length: int = 64) -> list[int]:
    async def ask() -> list[int]:
        models = Models(threads=1, wait_seconds=0)
        description = description_pb2.ModelDescription(vocabulary=tokenizer.size, max_length=max_length)
        try:
            return await tokens_of(models, Model(description, pool_pb2.Pool(), tokenizer), prompt)
        finally:
            models.close()

    return asyncio.run(ask())


def test_a_text_that_can_never_fit_is_refused_before_it_is_tokenised(demo_tokenizer: FastTokenizer) -> None:
    most = 64 * demo_tokenizer.longest_token
    with pytest.raises(InvalidRequest, match=f"is {most + 1} characters long, but 64 tokens have at most {most}"):
        tokens(demo_tokenizer, prompt_pb2.Prompt(text="a" * (most + 1)))
    assert tokens(demo_tokenizer, prompt_pb2.Prompt(text="a" * 50))


def test_a_conversation_ends_with_what_begins_an_answer_unless_it_is_not_wanted(demo_tokenizer: FastTokenizer) -> None:
    chat = prompt_pb2.Chat(messages=[prompt_pb2.ChatMessage(role="user", content="hello")])
    with_it = tokens(demo_tokenizer, prompt_pb2.Prompt(chat=chat))
    chat.add_generation_prompt = False
    without = tokens(demo_tokenizer, prompt_pb2.Prompt(chat=chat))
    assert with_it[: len(without)] == without
    assert demo_tokenizer.decode(with_it[len(without) :]) == "<|im_start|>assistant\n"


@pytest.mark.parametrize("count", [1, MANY, MANY + 1, 2 * PIECE, 2 * PIECE + 1])
def test_ids_are_taken_as_they_are_however_many(demo_tokenizer: FastTokenizer, count: int) -> None:
    ids = [number % 1000 for number in range(count)]
    assert list_of(ids) == ids
    assert tokens(demo_tokenizer, prompt_pb2.Prompt(ids=prompt_pb2.TokenIds(ids=ids))) == ids

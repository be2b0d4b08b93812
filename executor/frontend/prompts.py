"""Prompts to tokens."""

from collections.abc import Sequence

from executor.frontend.errors import InvalidRequest
from executor.frontend.models import Model, Models
from pagehold.inference.v1 import prompt_pb2

MANY = 1 << 14
"""Ids of a prompt from which on what is done with it is done in a thread."""

PIECE = 1 << 15
"""Ids copied without letting other threads run: some milliseconds' worth."""


def list_of(ids: Sequence[int]) -> list[int]:
    """Copy ids, piece by piece."""
    copied: list[int] = []
    for start in range(0, len(ids), PIECE):
        copied.extend(ids[start : start + PIECE])
    return copied


async def text_of(models: Models, model: Model, prompt: prompt_pb2.Prompt) -> str:
    """The text of a prompt that is not given as ids."""
    if prompt.WhichOneof("content") == "text":
        return prompt.text
    chat = prompt.chat
    messages = [{"role": message.role, "content": message.content} for message in chat.messages]
    generation = chat.add_generation_prompt if chat.HasField("add_generation_prompt") else True
    return await models.in_thread(model.tokenizer.render, messages, generation)


async def tokens_of(models: Models, model: Model, prompt: prompt_pb2.Prompt) -> list[int]:
    """The tokens of a prompt.

    Ids are taken as they are. A text gets the model's own special tokens at its start; a conversation gets what its
    template writes, and nothing else. Raises InvalidRequest for a text that is too long for any tokenising to help.
    """
    kind = prompt.WhichOneof("content")
    if kind == "ids":
        return await models.off_loop_if(len(prompt.ids.ids) > MANY, list_of, prompt.ids.ids)
    text = await text_of(models, model, prompt)
    longest = model.description.max_length * model.tokenizer.longest_token
    if 0 < longest < len(text):
        raise InvalidRequest.of(
            f"prompt.{kind}",
            f"is {len(text)} characters long, but {model.description.max_length} tokens have at most {longest}",
        )
    return await models.in_thread(model.tokenizer.encode, text, kind == "text")

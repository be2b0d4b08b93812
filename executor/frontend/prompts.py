"""Prompts to tokens. All of it takes as long as the prompt is: call it from a thread unless that is short."""

from executor.frontend.models import Model
from executor.frontend.tokenizer import TooManyTokens
from executor.frontend.validation import check_context, check_text
from executor.frontend.wire import list_of
from pagehold.inference.v1 import prompt_pb2


def text_of(model: Model, prompt: prompt_pb2.Prompt) -> str:
    """The text of a prompt that is not given as ids. Raises InvalidRequest for one that is too long for any model."""
    if prompt.WhichOneof("content") == "text":
        return prompt.text
    chat = prompt.chat
    messages = [{"role": message.role, "content": message.content} for message in chat.messages]
    generation = chat.add_generation_prompt if chat.HasField("add_generation_prompt") else True
    text = model.tokenizer.render(messages, generation)
    check_text("prompt.chat", len(text), model.limits.longest_text)
    return text


def tokens_of(model: Model, prompt: prompt_pb2.Prompt) -> list[int]:
    """The tokens of a prompt that was checked, at least one and at most as many as leave room for one more.

    Ids are taken as they are. A text gets the model's own special tokens at its start; a conversation gets what its
    template writes, and nothing else. Raises InvalidRequest, or Unsuitable where the model cannot take its kind.
    """
    kind, max_length = prompt.WhichOneof("content"), model.description.max_length
    if kind == "ids":
        ids = list_of(prompt.ids.ids)
    else:
        try:
            ids = model.tokenizer.encode(text_of(model, prompt), kind == "text", most=max_length - 1)
        except TooManyTokens as error:
            check_context(error.tokens, max_length)
            raise
    check_context(len(ids), max_length)
    return ids

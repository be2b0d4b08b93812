"""Text to tokens and back, and prompts as a generation would see them: all of it in threads, and answered as bytes."""

from typing import Any

from executor.frontend.door import Door
from executor.frontend.errors import InvalidRequest
from executor.frontend.models import Model
from executor.frontend.prompts import text_of, tokens_of
from executor.frontend.tokenizer import TooManyTokens
from executor.frontend.validation import LONGEST_TEXT, MOST_IDS, Findings, check_prompt, check_text
from executor.frontend.wire import MESSAGE_BYTES, list_of, written
from pagehold.inference.v1 import tokens_pb2


async def tokenize(door: Door, request: tokens_pb2.TokenizeRequest) -> bytes:
    """Text to tokens. Raises InvalidRequest for a text that is too long."""
    return await door.threads.run(_tokenize, await _model(door, request), request)


def _tokenize(model: Model, request: tokens_pb2.TokenizeRequest) -> bytes:
    text = request.text
    check_text("text", len(text), LONGEST_TEXT)
    special = request.add_special_tokens if request.HasField("add_special_tokens") else True
    try:
        ids = model.tokenizer.encode(text, special, most=MOST_IDS)
    except TooManyTokens as error:
        raise InvalidRequest.of("text", f"is {error.tokens} tokens long, but may have at most {MOST_IDS}") from None
    return written(tokens_pb2.TokenizeResponse, "ids", ids)


async def detokenize(door: Door, request: tokens_pb2.DetokenizeRequest) -> bytes:
    """Tokens to text. Raises InvalidRequest for ids that are not known, or too many."""
    return await door.threads.run(_detokenize, await _model(door, request), request)


def _detokenize(model: Model, request: tokens_pb2.DetokenizeRequest) -> bytes:
    found = Findings()
    found.ids("ids", request.ids, model.vocabulary, MOST_IDS)
    found.raise_if_any()
    skip = request.skip_special_tokens if request.HasField("skip_special_tokens") else True
    text = model.tokenizer.decode(list_of(request.ids), skip)
    return _sendable(tokens_pb2.DetokenizeResponse(text=text).SerializeToString())


async def render_prompt(door: Door, request: tokens_pb2.RenderPromptRequest) -> bytes:
    """A prompt as a generation would see it. Raises what is wrong with it."""
    return await door.threads.run(_render_prompt, await _model(door, request), request)


def _render_prompt(model: Model, request: tokens_pb2.RenderPromptRequest) -> bytes:
    found = Findings()
    check_prompt(found, request.HasField("prompt"), request.prompt, model.limits)
    found.raise_if_any()
    ids = tokens_of(model, request.prompt)
    is_chat = request.prompt.WhichOneof("content") == "chat"
    text = text_of(model, request.prompt) if is_chat else model.tokenizer.decode(ids)
    head = tokens_pb2.RenderPromptResponse(text=text).SerializeToString()
    return _sendable(head + written(tokens_pb2.RenderPromptResponse, "ids", ids))


async def _model(door: Door, request: Any) -> Model:
    return await door.models.find(request.model if request.HasField("model") else None)


def _sendable(answer: bytes) -> bytes:
    """An answer that clients can take. Raises InvalidRequest for one that is larger."""
    if len(answer) > MESSAGE_BYTES:
        text = f"has an answer of {len(answer)} bytes, but one may have at most {MESSAGE_BYTES}"
        raise InvalidRequest.of("request", text)
    return answer

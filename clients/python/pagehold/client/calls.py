"""The unary calls: what each sends, how its answer is read, and when it is made again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc

from pagehold.client.decoding import load_of, model_of, request_of, server_of
from pagehold.client.descriptions import Load, Model, RenderedPrompt, RequestsInFlight, RequestSummary, ServerInfo
from pagehold.client.effects import Invoke, Pause, Procedure
from pagehold.client.errors import BadStream, GenerationLost, Overloaded, PageholdError, Unavailable
from pagehold.client.parameters import message_of, prompt_of
from pagehold.client.persistence import BackOff, Deadline, Persistence
from pagehold.inference.v1 import requests_pb2, server_pb2, tokens_pb2

Answer = TypeVar("Answer")

_BREAKS = frozenset((grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL))
"""What the end of a server may look like besides UNAVAILABLE, if no reason is given."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """A unary call: all of them may be repeated."""

    method: str
    request: Any
    read: Callable[[Any], Answer]


def is_break(failure: PageholdError) -> bool:
    """Whether a failure is a broken connection's or a missing server's, and not the server's word on the call."""
    if isinstance(failure, GenerationLost | BadStream):
        return False
    return isinstance(failure, Unavailable) or (not failure.reason and failure.code in _BREAKS)


def pause_after(failure: PageholdError, back_off: BackOff, deadline: Deadline, *, overload: bool = False) -> float:
    """Seconds until a call that failed is made again. Raises the failure where that cannot help, or takes too long.

    ``overload``: a busy server is asked again, as long as the deadline allows.
    """
    overloaded = isinstance(failure, Overloaded) and overload
    if not overloaded and not is_break(failure):
        raise failure
    pause = back_off.pause(failure.retry_after, endless=overloaded)
    if pause is None or not deadline.allows(pause):
        raise failure
    return pause


def make(call: Call[Answer], persistence: Persistence, deadline: Deadline) -> Procedure[Answer]:
    """Make a call, again if its connection breaks. Raises ``PageholdError``."""
    back_off = BackOff(persistence)
    while True:
        try:
            answer = yield Invoke(call.method, call.request, deadline.left())
            persistence.answered = True
            return call.read(answer)
        except PageholdError as failure:
            persistence.answered |= bool(failure.reason)
            pause = pause_after(failure, back_off, deadline)
        yield Pause(pause)


def key_of(id_: str | None, request_id: str | None) -> dict[str, str]:
    """What names a request: exactly one of the two. Raises ``TypeError``."""
    if (id_ is None) == (request_id is None):
        raise TypeError("name the request by its id or by its request_id")
    return {"id": id_} if id_ is not None else {"request_id": str(request_id)}


def cancel(key: dict[str, str]) -> Call[bool]:
    """End a request; whether it was in flight."""
    return Call("Cancel", message_of(requests_pb2.CancelRequest, **key), lambda answer: bool(answer.cancelled))


def get_request(key: dict[str, str]) -> Call[RequestSummary]:
    """How a request stands."""
    return Call(
        "GetRequest", message_of(requests_pb2.GetRequestRequest, **key), lambda answer: request_of(answer.request)
    )


def list_requests(limit: int | None) -> Call[RequestsInFlight]:
    """The requests in flight."""

    def read(answer: Any) -> RequestsInFlight:
        return RequestsInFlight(tuple(map(request_of, answer.requests)), answer.total)

    return Call("ListRequests", message_of(requests_pb2.ListRequestsRequest, limit=limit), read)


def tokenize(text: str, model: str | None, add_special_tokens: bool | None) -> Call[list[int]]:
    """Text into tokens."""
    request = message_of(tokens_pb2.TokenizeRequest, model=model, text=text, add_special_tokens=add_special_tokens)
    return Call("Tokenize", request, lambda answer: list(answer.ids))


def detokenize(ids: Any, model: str | None, skip_special_tokens: bool | None) -> Call[str]:
    """Tokens into text."""
    request = message_of(
        tokens_pb2.DetokenizeRequest, model=model, ids=list(ids), skip_special_tokens=skip_special_tokens
    )
    return Call("Detokenize", request, lambda answer: str(answer.text))


def render_prompt(model: str | None, parameters: dict[str, Any]) -> Call[RenderedPrompt]:
    """A prompt as the model sees it."""
    request = message_of(tokens_pb2.RenderPromptRequest, model=model)
    request.prompt.CopyFrom(prompt_of(parameters))
    return Call("RenderPrompt", request, lambda answer: RenderedPrompt(answer.text, tuple(answer.ids)))


def list_models() -> Call[list[Model]]:
    """The models."""
    return Call("ListModels", server_pb2.ListModelsRequest(), lambda answer: list(map(model_of, answer.models)))


def get_model(name: str | None) -> Call[Model]:
    """One model."""
    return Call("GetModel", message_of(server_pb2.GetModelRequest, name=name), lambda answer: model_of(answer.model))


def server_info() -> Call[ServerInfo]:
    """What the server is."""
    return Call("GetServerInfo", server_pb2.GetServerInfoRequest(), server_of)


def load() -> Call[Load]:
    """How busy the server is."""
    return Call("GetLoad", server_pb2.GetLoadRequest(), load_of)

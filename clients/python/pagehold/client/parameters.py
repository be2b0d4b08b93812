"""What a caller asks for, as keyword arguments, and the messages made of it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar
from uuid import uuid4

import grpc
from google.protobuf.descriptor import FieldDescriptor

from pagehold.client.errors import Details, InvalidRequest
from pagehold.inference.v1 import generation_pb2, parameters_pb2, prompt_pb2

Built = TypeVar("Built")


class Parameters(TypedDict, total=False):
    """Parameters of a generation beside its prompt. One left out, or None, takes the model's or the server's default.

    In place of a prompt's text: ``ids``, its tokens, or ``messages``, a conversation of mappings with ``role`` and
    ``content``, rendered with the model's chat template.
    """

    ids: Sequence[int] | None
    messages: Sequence[Mapping[str, str]] | None
    add_generation_prompt: bool | None
    """Whether what begins an answer is put behind the messages; it is, unless said otherwise."""
    model: str | None
    request_id: str | None
    """The caller's own name for the request; one is drawn if there is none."""
    temperature: float | None
    """Divides the logits; 0 takes the likeliest token."""
    top_k: int | None
    top_p: float | None
    min_p: float | None
    seed: int | None
    """Same seed, prompt and parameters, same tokens."""
    n: int | None
    """Outputs: so many samples of the prompt, each with a seed of its own (``Started.seeds``)."""
    beam_width: int | None
    """Search for the likeliest outputs with so many beams, in place of sampling: as many outputs, the best first."""
    length_penalty: float | None
    """Of a beam search: an output is ranked by its log-probability divided by its length to the power of this."""
    early_stopping: bool | Literal["never"] | None
    """Of a beam search: whether it ends as soon as as many outputs have ended as there are beams; "never": only once none
    can become better.
    """
    max_tokens: int | None
    min_tokens: int | None
    stop: str | Sequence[str] | None
    """Texts at which the output ends; the text ends right before them."""
    stop_token_ids: Sequence[int] | None
    ignore_eos: bool | None
    cache_salt: str | None
    """Prompts share cached blocks only under the same salt."""
    cache_bypass: bool | None
    """Take no cached blocks."""
    cache_no_store: bool | None
    """Leave no blocks for others to hit."""
    priority: int | None
    """A greater one is served earlier; -100 to 100."""
    detached: bool | None
    """Go on when this caller hangs up, or its connection breaks."""
    time_budget: float | None
    """Seconds after which the output ends with what it has."""


class Request(Parameters, total=False):
    """One request of a batch: a prompt and its parameters."""

    prompt: str | None


_PATHS = {
    "model": "model",
    "request_id": "request_id",
    "temperature": "sampling.temperature",
    "top_k": "sampling.top_k",
    "top_p": "sampling.top_p",
    "min_p": "sampling.min_p",
    "seed": "sampling.seed",
    "n": "sampling.n",
    "beam_width": "beam_search.beam_width",
    "length_penalty": "beam_search.length_penalty",
    "early_stopping": "beam_search.early_stopping",
    "max_tokens": "stopping.max_tokens",
    "min_tokens": "stopping.min_tokens",
    "stop": "stopping.stop",
    "stop_token_ids": "stopping.stop_token_ids",
    "ignore_eos": "stopping.ignore_eos",
    "cache_salt": "cache.salt",
    "cache_bypass": "cache.bypass",
    "cache_no_store": "cache.no_store",
    "priority": "priority",
    "detached": "detached",
    "time_budget": "time_budget",
}
"""Where each parameter stands in a ``GenerateRequest``. Errors name fields so, the server's and this module's."""

_STOPPING = (
    (True, parameters_pb2.EARLY_STOPPING_ON),
    (False, parameters_pb2.EARLY_STOPPING_OFF),
    ("never", parameters_pb2.EARLY_STOPPING_NEVER),
)

_INTEGERS = {
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_SINT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_FIXED64: (0, 2**64 - 1),
}
"""What fits into a field of whole numbers, by its type."""

_OF_PROMPT = frozenset({"prompt", "ids", "messages", "add_generation_prompt"})


class _Violations(dict[str, tuple[str, ...]]):
    """What does not fit into its field, by the field's path."""

    def put(self, message: Any, path: str, value: Any) -> None:
        """Set the field at ``path``, or note that the value does not fit it."""
        *parents, field = path.split(".")
        for parent in parents:
            message = getattr(message, parent)
        try:
            if isinstance(value, list):
                getattr(message, field).extend(value)
            else:
                setattr(message, field, value)
        except (TypeError, ValueError) as error:
            self[path] = (f"is {_clipped(value)}{_instead(message.DESCRIPTOR.fields_by_name[field], value, error)}",)

    def check(self) -> None:
        """Raise ``InvalidRequest`` if there is any."""
        if self:
            raise InvalidRequest("the request is not valid", grpc.StatusCode.INVALID_ARGUMENT, Details(violations=self))


def generate_request(parameters: Mapping[str, Any]) -> generation_pb2.GenerateRequest:
    """The request that the parameters ask for, under a name drawn for it if they have none.

    Raises ``InvalidRequest`` for values that do not fit their fields, all at once; ``TypeError`` for a parameter that
    does not exist.
    """
    unknown = parameters.keys() - _PATHS.keys() - _OF_PROMPT
    if unknown:
        raise TypeError(f"there is no parameter {sorted(unknown)[0]!r}; there are {', '.join((*_PATHS, *_OF_PROMPT))}")
    request, violations = generation_pb2.GenerateRequest(), _Violations()
    _put_prompt(request.prompt, parameters, violations)
    for name, path in _PATHS.items():
        if (value := parameters.get(name)) is not None:
            violations.put(request, path, _as_sent(name, value))
    violations.check()
    if not request.HasField("request_id"):
        request.request_id = f"py-{uuid4().hex}"
    return request


def message_of(kind: Callable[[], Built], **fields: Any) -> Built:
    """A message of those fields that are not None. Raises ``InvalidRequest`` for values that do not fit theirs."""
    message, violations = kind(), _Violations()
    for name, value in fields.items():
        if value is not None:
            violations.put(message, name, value)
    violations.check()
    return message


def prompt_of(parameters: Mapping[str, Any]) -> prompt_pb2.Prompt:
    """The prompt alone. Raises ``InvalidRequest``."""
    prompt, violations = prompt_pb2.Prompt(), _Violations()
    _put_prompt(prompt, parameters, violations)
    violations.check()
    return prompt


def _put_prompt(prompt: prompt_pb2.Prompt, parameters: Mapping[str, Any], violations: _Violations) -> None:
    given = [name for name in ("prompt", "ids", "messages") if parameters.get(name) is not None]
    if len(given) != 1:
        said = f"{' and '.join(given)} are given" if given else "is missing"
        violations["prompt"] = (f"{said}: it is one of a text, ids and messages",)
        return
    (kind,) = given
    if kind == "prompt":
        violations.put(prompt, "text", parameters["prompt"])
    elif kind == "ids":
        prompt.ids.SetInParent()
        violations.put(prompt, "ids.ids", list(parameters["ids"]))
    else:
        _put_chat(prompt.chat, parameters, violations)


def _put_chat(chat: prompt_pb2.Chat, parameters: Mapping[str, Any], violations: _Violations) -> None:
    chat.SetInParent()
    for place, message in enumerate(parameters["messages"]):
        added = chat.messages.add()
        if not isinstance(message, Mapping) or message.keys() != {"role", "content"}:
            violations[f"messages[{place}]"] = (f"is {_clipped(message)}: it is a mapping with role and content",)
            continue
        violations.put(added, "role", message["role"])
        violations.put(added, "content", message["content"])
    if (wanted := parameters.get("add_generation_prompt")) is not None:
        violations.put(chat, "add_generation_prompt", wanted)


def _as_sent(name: str, value: Any) -> Any:
    """A list where the field takes one; a single stop string need not be in a list. When a beam search ends, by number."""
    if name == "early_stopping":
        # By identity: a 1 is no answer to whether.
        found = [number for said, number in _STOPPING if value is said or value == said == "never"]
        return found[0] if found else str(value)
    if name == "stop" and isinstance(value, str):
        return [value]
    return list(value) if name in ("stop", "stop_token_ids") and isinstance(value, Iterable) else value


def _instead(field: FieldDescriptor, value: Any, error: Exception) -> str:
    """What a field takes in place of a value that does not fit it, as far as it can be said better than by the error."""
    if field.type == FieldDescriptor.TYPE_ENUM:
        return f", but must be {' or '.join(repr(said) for said, _ in _STOPPING)}"
    bounds = _INTEGERS.get(field.type)
    if bounds is None or not isinstance(error, ValueError):
        return f": {error}"
    lowest, highest = bounds
    return f", but {'each ' * isinstance(value, list)}must lie in {lowest}..{highest}"


def _clipped(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."

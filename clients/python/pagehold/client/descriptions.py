"""What a server says of itself, its models and its requests. Data only."""

from dataclasses import dataclass
from enum import StrEnum

from pagehold.client.events import EndReason, SamplingParameters


class RequestState(StrEnum):
    """Where a request is."""

    UNKNOWN = "unknown"
    """A state that this client does not know yet."""
    WAITING = "waiting"
    """Waits to be accepted."""
    RUNNING = "running"
    """Is being computed."""
    ORPHANED = "orphaned"
    """Its executor died; it waits for another."""
    FINISHED = "finished"
    """Has ended, and is kept for a while."""


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """How a request stands. Moments are in seconds since 1970; None: not reached, or not known."""

    id: str
    request_id: str | None
    state: RequestState
    prompt_tokens: int
    output_tokens: int
    reason: EndReason | None
    created: float | None
    finished: float | None


@dataclass(frozen=True, slots=True)
class RequestsInFlight:
    """Requests in flight, the oldest first, and how many there are in all."""

    requests: tuple[RequestSummary, ...]
    total: int


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A prompt as the model sees it."""

    text: str
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A model: at most ``max_length`` tokens of prompt and output together, ids below ``vocabulary``.

    ``chat``: it has a chat template. ``defaults``: what counts where a request says nothing. ``ready``: an engine that
    runs it is ready.
    """

    name: str
    revision: str
    max_length: int
    vocabulary: int
    eos_token_ids: tuple[int, ...]
    chat: bool
    defaults: SamplingParameters
    ready: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server takes at most: requests at once, tokens of output unless said otherwise, bytes of a message, requests
    of a batch, characters of a text, messages of a conversation, ids to be tokenised or detokenised.
    """

    max_requests: int
    default_max_tokens: int
    max_message_bytes: int
    max_batch: int
    max_text_characters: int
    max_chat_messages: int
    max_token_ids: int


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server is; ``started`` is in seconds since 1970, ``door`` the name of the front door that answered."""

    version: str
    started: float
    limits: Limits
    door: str


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a server is, as its engine said ``age`` seconds ago (None: never)."""

    running: int
    waiting: int
    in_flight: int
    blocks: int
    free_blocks: int
    age: float | None

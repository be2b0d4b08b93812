"""Messages of ``pagehold.inference.v1`` as the client's own types."""

from typing import Any

from pagehold.client.descriptions import (
    Limits,
    Load,
    Model,
    RequestState,
    RequestSummary,
    ServerInfo,
)
from pagehold.client.events import (
    BeamSearchParameters,
    CacheParameters,
    Delta,
    EndReason,
    Event,
    Finished,
    Progress,
    SamplingParameters,
    Started,
    StoppingParameters,
    Timings,
    Usage,
)
from pagehold.inference.v1 import generation_pb2, parameters_pb2, requests_pb2, server_pb2

_REASONS = {
    generation_pb2.END_REASON_STOP: EndReason.STOP,
    generation_pb2.END_REASON_LENGTH: EndReason.LENGTH,
    generation_pb2.END_REASON_CANCELLED: EndReason.CANCELLED,
    generation_pb2.END_REASON_DEADLINE: EndReason.DEADLINE,
}
_STOPPING: dict[int, bool | str] = {
    parameters_pb2.EARLY_STOPPING_ON: True,
    parameters_pb2.EARLY_STOPPING_OFF: False,
    parameters_pb2.EARLY_STOPPING_NEVER: "never",
}
_STATES = {
    requests_pb2.REQUEST_STATE_WAITING: RequestState.WAITING,
    requests_pb2.REQUEST_STATE_RUNNING: RequestState.RUNNING,
    requests_pb2.REQUEST_STATE_ORPHANED: RequestState.ORPHANED,
    requests_pb2.REQUEST_STATE_FINISHED: RequestState.FINISHED,
}


def event_of(message: generation_pb2.GenerationEvent) -> Event | None:
    """An event; None: one of a kind that this client does not know yet."""
    kind = message.WhichOneof("content")
    if kind == "started":
        return started_of(message.started)
    if kind == "progress":
        progress = message.progress
        return Progress(progress.computed_tokens, progress.prompt_tokens, progress.beam_tokens)
    if kind == "delta":
        delta = message.delta
        return Delta(delta.output, delta.first_token, tuple(delta.ids), delta.text)
    if kind == "finished":
        return finished_of(message.finished)
    return None


def started_of(message: generation_pb2.Started) -> Started:
    """What was accepted."""
    return Started(
        id=message.id,
        request_id=_said(message, "request_id"),
        model=message.model,
        prompt_tokens=message.prompt_tokens,
        cached_tokens=message.cached_tokens,
        sampling=sampling_of(message.sampling),
        stopping=_stopping_of(message.stopping),
        cache=_cache_of(message.cache),
        priority=message.priority,
        seeds=tuple(message.seeds),
        beam_search=_beam_search_of(message.beam_search) if message.HasField("beam_search") else None,
    )


def finished_of(message: generation_pb2.Finished) -> Finished:
    """How an output ended."""
    usage, timings = message.usage, message.timings
    return Finished(
        output=message.output,
        reason=_REASONS.get(message.reason, EndReason.UNKNOWN),
        stop=_said(message, "stop"),
        stop_token_id=_said(message, "stop_token_id"),
        usage=Usage(usage.prompt_tokens, usage.cached_tokens, usage.output_tokens),
        timings=Timings(timings.queued, _said(timings, "first_token"), timings.total),
        score=_said(message, "score"),
    )


def sampling_of(message: parameters_pb2.SamplingParameters) -> SamplingParameters:
    """How tokens are chosen."""
    return SamplingParameters(**{name: _said(message, name) for name in SamplingParameters.__slots__})


def _stopping_of(message: parameters_pb2.StoppingParameters) -> StoppingParameters:
    return StoppingParameters(
        max_tokens=_said(message, "max_tokens"),
        min_tokens=_said(message, "min_tokens"),
        stop=tuple(message.stop),
        stop_token_ids=tuple(message.stop_token_ids),
        ignore_eos=_said(message, "ignore_eos"),
    )


def _beam_search_of(message: parameters_pb2.BeamSearchParameters) -> BeamSearchParameters:
    return BeamSearchParameters(
        message.beam_width, message.length_penalty, _STOPPING.get(message.early_stopping, False)
    )


def _cache_of(message: parameters_pb2.CacheParameters) -> CacheParameters:
    return CacheParameters(**{name: _said(message, name) for name in CacheParameters.__slots__})


def request_of(message: requests_pb2.RequestSummary) -> RequestSummary:
    """How a request stands."""
    ended = message.state == requests_pb2.REQUEST_STATE_FINISHED or message.reason
    return RequestSummary(
        id=message.id,
        request_id=_said(message, "request_id"),
        state=_STATES.get(message.state, RequestState.UNKNOWN),
        prompt_tokens=message.prompt_tokens,
        output_tokens=message.output_tokens,
        reason=_REASONS.get(message.reason, EndReason.UNKNOWN) if ended else None,
        created=_said(message, "created"),
        finished=_said(message, "finished"),
    )


def model_of(message: server_pb2.Model) -> Model:
    """A model."""
    return Model(
        name=message.name,
        revision=message.revision,
        max_length=message.max_length,
        vocabulary=message.vocabulary,
        eos_token_ids=tuple(message.eos_token_ids),
        chat=message.chat,
        defaults=sampling_of(message.defaults),
        ready=message.ready,
    )


def server_of(message: server_pb2.GetServerInfoResponse) -> ServerInfo:
    """What a server is."""
    limits = message.limits
    return ServerInfo(
        version=message.version,
        started=message.started,
        limits=Limits(
            max_requests=limits.max_requests,
            default_max_tokens=limits.default_max_tokens,
            max_message_bytes=limits.max_message_bytes,
            max_batch=limits.max_batch,
            max_text_characters=limits.max_text_characters,
            max_chat_messages=limits.max_chat_messages,
            max_token_ids=limits.max_token_ids,
        ),
        door=message.door,
    )


def load_of(message: server_pb2.GetLoadResponse) -> Load:
    """How busy a server is."""
    return Load(
        running=message.running,
        waiting=message.waiting,
        in_flight=message.in_flight,
        blocks=message.blocks,
        free_blocks=message.free_blocks,
        age=_said(message, "age"),
    )


def _said(message: Any, field: str) -> Any:
    """The value of an optional field; None: absent."""
    return getattr(message, field) if message.HasField(field) else None

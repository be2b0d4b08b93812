from pagehold.common.v1 import errors_pb2 as _errors_pb2
from pagehold.inference.v1 import parameters_pb2 as _parameters_pb2
from pagehold.inference.v1 import prompt_pb2 as _prompt_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EndReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    END_REASON_UNSPECIFIED: _ClassVar[EndReason]
    END_REASON_STOP: _ClassVar[EndReason]
    END_REASON_LENGTH: _ClassVar[EndReason]
    END_REASON_CANCELLED: _ClassVar[EndReason]
    END_REASON_DEADLINE: _ClassVar[EndReason]
END_REASON_UNSPECIFIED: EndReason
END_REASON_STOP: EndReason
END_REASON_LENGTH: EndReason
END_REASON_CANCELLED: EndReason
END_REASON_DEADLINE: EndReason

class GenerateRequest(_message.Message):
    __slots__ = ("model", "request_id", "prompt", "sampling", "stopping", "cache", "priority", "detached", "time_budget", "beam_search")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    CACHE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    TIME_BUDGET_FIELD_NUMBER: _ClassVar[int]
    BEAM_SEARCH_FIELD_NUMBER: _ClassVar[int]
    model: str
    request_id: str
    prompt: _prompt_pb2.Prompt
    sampling: _parameters_pb2.SamplingParameters
    stopping: _parameters_pb2.StoppingParameters
    cache: _parameters_pb2.CacheParameters
    priority: int
    detached: bool
    time_budget: float
    beam_search: _parameters_pb2.BeamSearchParameters
    def __init__(self, model: _Optional[str] = ..., request_id: _Optional[str] = ..., prompt: _Optional[_Union[_prompt_pb2.Prompt, _Mapping]] = ..., sampling: _Optional[_Union[_parameters_pb2.SamplingParameters, _Mapping]] = ..., stopping: _Optional[_Union[_parameters_pb2.StoppingParameters, _Mapping]] = ..., cache: _Optional[_Union[_parameters_pb2.CacheParameters, _Mapping]] = ..., priority: _Optional[int] = ..., detached: _Optional[bool] = ..., time_budget: _Optional[float] = ..., beam_search: _Optional[_Union[_parameters_pb2.BeamSearchParameters, _Mapping]] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: GenerationEvent
    def __init__(self, event: _Optional[_Union[GenerationEvent, _Mapping]] = ...) -> None: ...

class BatchGenerateRequest(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[GenerateRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[GenerateRequest, _Mapping]]] = ...) -> None: ...

class BatchGenerateResponse(_message.Message):
    __slots__ = ("item", "event", "failure")
    ITEM_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    item: int
    event: GenerationEvent
    failure: ItemFailure
    def __init__(self, item: _Optional[int] = ..., event: _Optional[_Union[GenerationEvent, _Mapping]] = ..., failure: _Optional[_Union[ItemFailure, _Mapping]] = ...) -> None: ...

class ItemFailure(_message.Message):
    __slots__ = ("code", "reason", "message", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: _errors_pb2.ErrorReason
    message: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[_Union[_errors_pb2.ErrorReason, str]] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class AttachRequest(_message.Message):
    __slots__ = ("id", "request_id", "from_token", "detached")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    from_token: int
    detached: bool
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ..., from_token: _Optional[int] = ..., detached: _Optional[bool] = ...) -> None: ...

class AttachResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: GenerationEvent
    def __init__(self, event: _Optional[_Union[GenerationEvent, _Mapping]] = ...) -> None: ...

class GenerationEvent(_message.Message):
    __slots__ = ("started", "progress", "delta", "finished")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    started: Started
    progress: Progress
    delta: Delta
    finished: Finished
    def __init__(self, started: _Optional[_Union[Started, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., delta: _Optional[_Union[Delta, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("id", "request_id", "model", "prompt_tokens", "cached_tokens", "sampling", "stopping", "cache", "priority", "seeds", "beam_search")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    CACHE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SEEDS_FIELD_NUMBER: _ClassVar[int]
    BEAM_SEARCH_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    model: str
    prompt_tokens: int
    cached_tokens: int
    sampling: _parameters_pb2.SamplingParameters
    stopping: _parameters_pb2.StoppingParameters
    cache: _parameters_pb2.CacheParameters
    priority: int
    seeds: _containers.RepeatedScalarFieldContainer[int]
    beam_search: _parameters_pb2.BeamSearchParameters
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ..., model: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., sampling: _Optional[_Union[_parameters_pb2.SamplingParameters, _Mapping]] = ..., stopping: _Optional[_Union[_parameters_pb2.StoppingParameters, _Mapping]] = ..., cache: _Optional[_Union[_parameters_pb2.CacheParameters, _Mapping]] = ..., priority: _Optional[int] = ..., seeds: _Optional[_Iterable[int]] = ..., beam_search: _Optional[_Union[_parameters_pb2.BeamSearchParameters, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("computed_tokens", "prompt_tokens", "beam_tokens")
    COMPUTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    BEAM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    computed_tokens: int
    prompt_tokens: int
    beam_tokens: int
    def __init__(self, computed_tokens: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., beam_tokens: _Optional[int] = ...) -> None: ...

class Delta(_message.Message):
    __slots__ = ("output", "first_token", "ids", "text")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    output: int
    first_token: int
    ids: _containers.RepeatedScalarFieldContainer[int]
    text: str
    def __init__(self, output: _Optional[int] = ..., first_token: _Optional[int] = ..., ids: _Optional[_Iterable[int]] = ..., text: _Optional[str] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("output", "reason", "stop", "stop_token_id", "usage", "timings", "score")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    output: int
    reason: EndReason
    stop: str
    stop_token_id: int
    usage: Usage
    timings: Timings
    score: float
    def __init__(self, output: _Optional[int] = ..., reason: _Optional[_Union[EndReason, str]] = ..., stop: _Optional[str] = ..., stop_token_id: _Optional[int] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ..., score: _Optional[float] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("prompt_tokens", "cached_tokens", "output_tokens")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    def __init__(self, prompt_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ...) -> None: ...

class Timings(_message.Message):
    __slots__ = ("queued", "first_token", "total")
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    queued: float
    first_token: float
    total: float
    def __init__(self, queued: _Optional[float] = ..., first_token: _Optional[float] = ..., total: _Optional[float] = ...) -> None: ...

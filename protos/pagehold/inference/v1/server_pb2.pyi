from pagehold.inference.v1 import parameters_pb2 as _parameters_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ...) -> None: ...

class GetModelRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetModelResponse(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: Model
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "revision", "max_length", "vocabulary", "eos_token_ids", "chat", "defaults", "ready")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    name: str
    revision: str
    max_length: int
    vocabulary: int
    eos_token_ids: _containers.RepeatedScalarFieldContainer[int]
    chat: bool
    defaults: _parameters_pb2.SamplingParameters
    ready: bool
    def __init__(self, name: _Optional[str] = ..., revision: _Optional[str] = ..., max_length: _Optional[int] = ..., vocabulary: _Optional[int] = ..., eos_token_ids: _Optional[_Iterable[int]] = ..., chat: _Optional[bool] = ..., defaults: _Optional[_Union[_parameters_pb2.SamplingParameters, _Mapping]] = ..., ready: _Optional[bool] = ...) -> None: ...

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "started", "limits", "door")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    DOOR_FIELD_NUMBER: _ClassVar[int]
    version: str
    started: float
    limits: Limits
    door: str
    def __init__(self, version: _Optional[str] = ..., started: _Optional[float] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., door: _Optional[str] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("max_requests", "default_max_tokens", "max_message_bytes", "max_batch", "max_text_characters", "max_chat_messages", "max_token_ids")
    MAX_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_FIELD_NUMBER: _ClassVar[int]
    MAX_TEXT_CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    MAX_CHAT_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    max_requests: int
    default_max_tokens: int
    max_message_bytes: int
    max_batch: int
    max_text_characters: int
    max_chat_messages: int
    max_token_ids: int
    def __init__(self, max_requests: _Optional[int] = ..., default_max_tokens: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., max_batch: _Optional[int] = ..., max_text_characters: _Optional[int] = ..., max_chat_messages: _Optional[int] = ..., max_token_ids: _Optional[int] = ...) -> None: ...

class GetLoadRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetLoadResponse(_message.Message):
    __slots__ = ("running", "waiting", "in_flight", "blocks", "free_blocks", "age")
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    FREE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    running: int
    waiting: int
    in_flight: int
    blocks: int
    free_blocks: int
    age: float
    def __init__(self, running: _Optional[int] = ..., waiting: _Optional[int] = ..., in_flight: _Optional[int] = ..., blocks: _Optional[int] = ..., free_blocks: _Optional[int] = ..., age: _Optional[float] = ...) -> None: ...

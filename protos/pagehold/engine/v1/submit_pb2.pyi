from pagehold.common.v1 import states_pb2 as _states_pb2
from pagehold.engine.v1 import request_pb2 as _request_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RefusedBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFUSED_BY_UNSPECIFIED: _ClassVar[RefusedBy]
    REFUSED_BY_QUEUE: _ClassVar[RefusedBy]
    REFUSED_BY_DRAINING: _ClassVar[RefusedBy]
    REFUSED_BY_CANCEL: _ClassVar[RefusedBy]
    REFUSED_BY_DEADLINE: _ClassVar[RefusedBy]
REFUSED_BY_UNSPECIFIED: RefusedBy
REFUSED_BY_QUEUE: RefusedBy
REFUSED_BY_DRAINING: RefusedBy
REFUSED_BY_CANCEL: RefusedBy
REFUSED_BY_DEADLINE: RefusedBy

class SubmitRequest(_message.Message):
    __slots__ = ("door", "starts", "follows", "cancels", "forgets")
    DOOR_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    CANCELS_FIELD_NUMBER: _ClassVar[int]
    FORGETS_FIELD_NUMBER: _ClassVar[int]
    door: str
    starts: _containers.RepeatedCompositeFieldContainer[Start]
    follows: _containers.RepeatedScalarFieldContainer[bytes]
    cancels: _containers.RepeatedScalarFieldContainer[bytes]
    forgets: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, door: _Optional[str] = ..., starts: _Optional[_Iterable[_Union[Start, _Mapping]]] = ..., follows: _Optional[_Iterable[bytes]] = ..., cancels: _Optional[_Iterable[bytes]] = ..., forgets: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("uuid", "prompt", "request", "caller", "body")
    UUID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    prompt: _containers.RepeatedScalarFieldContainer[int]
    request: _request_pb2.Request
    caller: bytes
    body: bytes
    def __init__(self, uuid: _Optional[bytes] = ..., prompt: _Optional[_Iterable[int]] = ..., request: _Optional[_Union[_request_pb2.Request, _Mapping]] = ..., caller: _Optional[bytes] = ..., body: _Optional[bytes] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("accepted", "refused", "recorded", "computing", "ended", "unknown", "load")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    COMPUTING_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    accepted: _containers.RepeatedCompositeFieldContainer[Accepted]
    refused: _containers.RepeatedCompositeFieldContainer[Refused]
    recorded: Recorded
    computing: _containers.RepeatedCompositeFieldContainer[Computing]
    ended: _containers.RepeatedCompositeFieldContainer[Ended]
    unknown: _containers.RepeatedScalarFieldContainer[bytes]
    load: Load
    def __init__(self, accepted: _Optional[_Iterable[_Union[Accepted, _Mapping]]] = ..., refused: _Optional[_Iterable[_Union[Refused, _Mapping]]] = ..., recorded: _Optional[_Union[Recorded, _Mapping]] = ..., computing: _Optional[_Iterable[_Union[Computing, _Mapping]]] = ..., ended: _Optional[_Iterable[_Union[Ended, _Mapping]]] = ..., unknown: _Optional[_Iterable[bytes]] = ..., load: _Optional[_Union[Load, _Mapping]] = ...) -> None: ...

class Accepted(_message.Message):
    __slots__ = ("uuid", "handle", "prompt_tokens", "cached_tokens", "tokens")
    UUID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    handle: int
    prompt_tokens: int
    cached_tokens: int
    tokens: int
    def __init__(self, uuid: _Optional[bytes] = ..., handle: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., tokens: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("uuid", "refusal", "by", "needed", "available", "detail")
    UUID_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    refusal: _states_pb2.Refusal
    by: RefusedBy
    needed: int
    available: int
    detail: str
    def __init__(self, uuid: _Optional[bytes] = ..., refusal: _Optional[_Union[_states_pb2.Refusal, str]] = ..., by: _Optional[_Union[RefusedBy, str]] = ..., needed: _Optional[int] = ..., available: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class Recorded(_message.Message):
    __slots__ = ("handles", "tokens")
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    tokens: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, handles: _Optional[_Iterable[int]] = ..., tokens: _Optional[_Iterable[int]] = ...) -> None: ...

class Computing(_message.Message):
    __slots__ = ("handle", "computed_tokens")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    handle: int
    computed_tokens: int
    def __init__(self, handle: _Optional[int] = ..., computed_tokens: _Optional[int] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("uuid", "reason", "tokens", "tail_start", "tail", "error_id")
    UUID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TAIL_START_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    ERROR_ID_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    reason: _states_pb2.FinishReason
    tokens: int
    tail_start: int
    tail: _containers.RepeatedScalarFieldContainer[int]
    error_id: str
    def __init__(self, uuid: _Optional[bytes] = ..., reason: _Optional[_Union[_states_pb2.FinishReason, str]] = ..., tokens: _Optional[int] = ..., tail_start: _Optional[int] = ..., tail: _Optional[_Iterable[int]] = ..., error_id: _Optional[str] = ...) -> None: ...

class Load(_message.Message):
    __slots__ = ("running", "waiting", "blocks", "free_blocks", "age", "draining")
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    FREE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    running: int
    waiting: int
    blocks: int
    free_blocks: int
    age: float
    draining: bool
    def __init__(self, running: _Optional[int] = ..., waiting: _Optional[int] = ..., blocks: _Optional[int] = ..., free_blocks: _Optional[int] = ..., age: _Optional[float] = ..., draining: _Optional[bool] = ...) -> None: ...

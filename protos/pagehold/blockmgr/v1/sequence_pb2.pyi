from pagehold.common.v1 import states_pb2 as _states_pb2
from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AdoptSequencesRequest(_message.Message):
    __slots__ = ("epoch", "predecessors")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREDECESSORS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    predecessors: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, epoch: _Optional[int] = ..., predecessors: _Optional[_Iterable[str]] = ...) -> None: ...

class AdoptSequencesResponse(_message.Message):
    __slots__ = ("version", "adopted")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    adopted: _containers.RepeatedCompositeFieldContainer[Adopted]
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., adopted: _Optional[_Iterable[_Union[Adopted, _Mapping]]] = ...) -> None: ...

class Adopted(_message.Message):
    __slots__ = ("handle", "previous", "resume", "tokens", "suspect")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    SUSPECT_FIELD_NUMBER: _ClassVar[int]
    handle: int
    previous: int
    resume: int
    tokens: int
    suspect: bool
    def __init__(self, handle: _Optional[int] = ..., previous: _Optional[int] = ..., resume: _Optional[int] = ..., tokens: _Optional[int] = ..., suspect: _Optional[bool] = ...) -> None: ...

class LookupSequenceRequest(_message.Message):
    __slots__ = ("pool", "uuid", "caller")
    POOL_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    pool: str
    uuid: bytes
    caller: bytes
    def __init__(self, pool: _Optional[str] = ..., uuid: _Optional[bytes] = ..., caller: _Optional[bytes] = ...) -> None: ...

class LookupSequenceResponse(_message.Message):
    __slots__ = ("version", "live", "finished")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    live: LiveSequence
    finished: FinishedSequence
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., live: _Optional[_Union[LiveSequence, _Mapping]] = ..., finished: _Optional[_Union[FinishedSequence, _Mapping]] = ...) -> None: ...

class LiveSequence(_message.Message):
    __slots__ = ("uuid", "handle", "slot", "state", "executor", "executor_epoch", "prompt", "tokens", "final_length", "body", "attachment", "cancelled")
    UUID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    FINAL_LENGTH_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    ATTACHMENT_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    handle: int
    slot: int
    state: _states_pb2.SequenceState
    executor: str
    executor_epoch: int
    prompt: int
    tokens: int
    final_length: int
    body: bytes
    attachment: int
    cancelled: bool
    def __init__(self, uuid: _Optional[bytes] = ..., handle: _Optional[int] = ..., slot: _Optional[int] = ..., state: _Optional[_Union[_states_pb2.SequenceState, str]] = ..., executor: _Optional[str] = ..., executor_epoch: _Optional[int] = ..., prompt: _Optional[int] = ..., tokens: _Optional[int] = ..., final_length: _Optional[int] = ..., body: _Optional[bytes] = ..., attachment: _Optional[int] = ..., cancelled: _Optional[bool] = ...) -> None: ...

class FinishedSequence(_message.Message):
    __slots__ = ("uuid", "prompt", "final_length", "reason", "ids", "logprobs", "score", "created", "finished", "body", "request")
    UUID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    FINAL_LENGTH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    prompt: int
    final_length: int
    reason: _states_pb2.FinishReason
    ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    score: float
    created: float
    finished: float
    body: bytes
    request: bytes
    def __init__(self, uuid: _Optional[bytes] = ..., prompt: _Optional[int] = ..., final_length: _Optional[int] = ..., reason: _Optional[_Union[_states_pb2.FinishReason, str]] = ..., ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[float]] = ..., score: _Optional[float] = ..., created: _Optional[float] = ..., finished: _Optional[float] = ..., body: _Optional[bytes] = ..., request: _Optional[bytes] = ...) -> None: ...

class AttachSequenceRequest(_message.Message):
    __slots__ = ("pool", "uuid")
    POOL_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    pool: str
    uuid: bytes
    def __init__(self, pool: _Optional[str] = ..., uuid: _Optional[bytes] = ...) -> None: ...

class AttachSequenceResponse(_message.Message):
    __slots__ = ("version", "attachment", "live", "finished")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ATTACHMENT_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    attachment: int
    live: LiveSequence
    finished: FinishedSequence
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., attachment: _Optional[int] = ..., live: _Optional[_Union[LiveSequence, _Mapping]] = ..., finished: _Optional[_Union[FinishedSequence, _Mapping]] = ...) -> None: ...

class CancelSequenceRequest(_message.Message):
    __slots__ = ("pool", "handle", "uuid", "attachment")
    POOL_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    ATTACHMENT_FIELD_NUMBER: _ClassVar[int]
    pool: str
    handle: int
    uuid: bytes
    attachment: int
    def __init__(self, pool: _Optional[str] = ..., handle: _Optional[int] = ..., uuid: _Optional[bytes] = ..., attachment: _Optional[int] = ...) -> None: ...

class CancelSequenceResponse(_message.Message):
    __slots__ = ("version", "asked")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    asked: bool
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., asked: _Optional[bool] = ...) -> None: ...

class SetFinalLengthRequest(_message.Message):
    __slots__ = ("pool", "handle", "length")
    POOL_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    pool: str
    handle: int
    length: int
    def __init__(self, pool: _Optional[str] = ..., handle: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class SetFinalLengthResponse(_message.Message):
    __slots__ = ("version", "length")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    length: int
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., length: _Optional[int] = ...) -> None: ...

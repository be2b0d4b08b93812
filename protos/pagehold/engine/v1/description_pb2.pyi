from pagehold.blockmgr.v1 import pool_pb2 as _pool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("name", "instance", "pool", "model", "max_waiting", "max_running")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MAX_WAITING_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_FIELD_NUMBER: _ClassVar[int]
    name: str
    instance: bytes
    pool: _pool_pb2.Pool
    model: ModelDescription
    max_waiting: int
    max_running: int
    def __init__(self, name: _Optional[str] = ..., instance: _Optional[bytes] = ..., pool: _Optional[_Union[_pool_pb2.Pool, _Mapping]] = ..., model: _Optional[_Union[ModelDescription, _Mapping]] = ..., max_waiting: _Optional[int] = ..., max_running: _Optional[int] = ...) -> None: ...

class ModelDescription(_message.Message):
    __slots__ = ("name", "revision", "folder", "max_length", "vocabulary", "eos_token_ids", "temperature", "top_k", "top_p", "min_p", "do_sample")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    DO_SAMPLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    revision: str
    folder: str
    max_length: int
    vocabulary: int
    eos_token_ids: _containers.RepeatedScalarFieldContainer[int]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    do_sample: bool
    def __init__(self, name: _Optional[str] = ..., revision: _Optional[str] = ..., folder: _Optional[str] = ..., max_length: _Optional[int] = ..., vocabulary: _Optional[int] = ..., eos_token_ids: _Optional[_Iterable[int]] = ..., temperature: _Optional[float] = ..., top_k: _Optional[int] = ..., top_p: _Optional[float] = ..., min_p: _Optional[float] = ..., do_sample: _Optional[bool] = ...) -> None: ...

class ListWorkRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class ListWorkResponse(_message.Message):
    __slots__ = ("work", "total")
    WORK_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    work: _containers.RepeatedCompositeFieldContainer[Work]
    total: int
    def __init__(self, work: _Optional[_Iterable[_Union[Work, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class Work(_message.Message):
    __slots__ = ("uuid", "request_id", "handle", "prompt_tokens", "output_tokens", "arrived")
    UUID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    request_id: str
    handle: int
    prompt_tokens: int
    output_tokens: int
    arrived: float
    def __init__(self, uuid: _Optional[bytes] = ..., request_id: _Optional[str] = ..., handle: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., arrived: _Optional[float] = ...) -> None: ...

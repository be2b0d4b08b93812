from pagehold.common.v1 import states_pb2 as _states_pb2
from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VerifyInvariantsRequest(_message.Message):
    __slots__ = ("pool", "limit")
    POOL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    pool: str
    limit: int
    def __init__(self, pool: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class VerifyInvariantsResponse(_message.Message):
    __slots__ = ("version", "violations", "violation_count", "blocks", "sequences", "table_entries", "index_entries", "tickets", "seconds")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    VIOLATION_COUNT_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    TABLE_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    INDEX_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    TICKETS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    violations: _containers.RepeatedCompositeFieldContainer[Violation]
    violation_count: int
    blocks: int
    sequences: int
    table_entries: int
    index_entries: int
    tickets: int
    seconds: float
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., violations: _Optional[_Iterable[_Union[Violation, _Mapping]]] = ..., violation_count: _Optional[int] = ..., blocks: _Optional[int] = ..., sequences: _Optional[int] = ..., table_entries: _Optional[int] = ..., index_entries: _Optional[int] = ..., tickets: _Optional[int] = ..., seconds: _Optional[float] = ...) -> None: ...

class Violation(_message.Message):
    __slots__ = ("invariant", "detail", "block", "tier", "handle")
    INVARIANT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    invariant: int
    detail: str
    block: int
    tier: _states_pb2.Tier
    handle: int
    def __init__(self, invariant: _Optional[int] = ..., detail: _Optional[str] = ..., block: _Optional[int] = ..., tier: _Optional[_Union[_states_pb2.Tier, str]] = ..., handle: _Optional[int] = ...) -> None: ...

from pagehold.common.v1 import states_pb2 as _states_pb2
from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DumpBlockTablesRequest(_message.Message):
    __slots__ = ("pool",)
    POOL_FIELD_NUMBER: _ClassVar[int]
    pool: str
    def __init__(self, pool: _Optional[str] = ...) -> None: ...

class DumpBlockTablesResponse(_message.Message):
    __slots__ = ("version", "tables")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    tables: _containers.RepeatedCompositeFieldContainer[TablePart]
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[TablePart, _Mapping]]] = ...) -> None: ...

class TablePart(_message.Message):
    __slots__ = ("handle", "uuid", "tokens", "computed", "first", "blocks", "tiers", "group")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    handle: int
    uuid: str
    tokens: int
    computed: int
    first: int
    blocks: _containers.RepeatedScalarFieldContainer[int]
    tiers: _containers.RepeatedScalarFieldContainer[_states_pb2.Tier]
    group: int
    def __init__(self, handle: _Optional[int] = ..., uuid: _Optional[str] = ..., tokens: _Optional[int] = ..., computed: _Optional[int] = ..., first: _Optional[int] = ..., blocks: _Optional[_Iterable[int]] = ..., tiers: _Optional[_Iterable[_Union[_states_pb2.Tier, str]]] = ..., group: _Optional[int] = ...) -> None: ...

from pagehold.admin.v1 import block_pb2 as _block_pb2
from pagehold.common.v1 import states_pb2 as _states_pb2
from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EvictRequest(_message.Message):
    __slots__ = ("pool", "blocks", "count", "tier", "dry_run")
    POOL_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    pool: str
    blocks: BlockList
    count: int
    tier: _states_pb2.Tier
    dry_run: bool
    def __init__(self, pool: _Optional[str] = ..., blocks: _Optional[_Union[BlockList, _Mapping]] = ..., count: _Optional[int] = ..., tier: _Optional[_Union[_states_pb2.Tier, str]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class BlockList(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedCompositeFieldContainer[_block_pb2.BlockId]
    def __init__(self, ids: _Optional[_Iterable[_Union[_block_pb2.BlockId, _Mapping]]] = ...) -> None: ...

class EvictResponse(_message.Message):
    __slots__ = ("version", "evicted", "kept")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EVICTED_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    evicted: _containers.RepeatedCompositeFieldContainer[_block_pb2.BlockId]
    kept: _containers.RepeatedCompositeFieldContainer[KeptBlock]
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., evicted: _Optional[_Iterable[_Union[_block_pb2.BlockId, _Mapping]]] = ..., kept: _Optional[_Iterable[_Union[KeptBlock, _Mapping]]] = ...) -> None: ...

class KeptBlock(_message.Message):
    __slots__ = ("id", "state", "detail")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    id: _block_pb2.BlockId
    state: _states_pb2.BlockState
    detail: str
    def __init__(self, id: _Optional[_Union[_block_pb2.BlockId, _Mapping]] = ..., state: _Optional[_Union[_states_pb2.BlockState, str]] = ..., detail: _Optional[str] = ...) -> None: ...

class FlushRequest(_message.Message):
    __slots__ = ("pool", "tier", "dry_run")
    POOL_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    pool: str
    tier: _states_pb2.Tier
    dry_run: bool
    def __init__(self, pool: _Optional[str] = ..., tier: _Optional[_Union[_states_pb2.Tier, str]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class FlushResponse(_message.Message):
    __slots__ = ("version", "device_blocks", "host_blocks", "kept")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DEVICE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    HOST_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    device_blocks: int
    host_blocks: int
    kept: int
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., device_blocks: _Optional[int] = ..., host_blocks: _Optional[int] = ..., kept: _Optional[int] = ...) -> None: ...

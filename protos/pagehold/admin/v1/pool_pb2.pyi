from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListPoolsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListPoolsResponse(_message.Message):
    __slots__ = ("version", "pools")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    pools: _containers.RepeatedCompositeFieldContainer[PoolSummary]
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., pools: _Optional[_Iterable[_Union[PoolSummary, _Mapping]]] = ...) -> None: ...

class PoolSummary(_message.Message):
    __slots__ = ("name", "revision", "device_blocks", "available_blocks", "sequences", "executors")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DEVICE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    name: str
    revision: int
    device_blocks: int
    available_blocks: int
    sequences: int
    executors: int
    def __init__(self, name: _Optional[str] = ..., revision: _Optional[int] = ..., device_blocks: _Optional[int] = ..., available_blocks: _Optional[int] = ..., sequences: _Optional[int] = ..., executors: _Optional[int] = ...) -> None: ...

class ResizeRequest(_message.Message):
    __slots__ = ("pool", "device_blocks")
    POOL_FIELD_NUMBER: _ClassVar[int]
    DEVICE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    pool: str
    device_blocks: int
    def __init__(self, pool: _Optional[str] = ..., device_blocks: _Optional[int] = ...) -> None: ...

class ResizeResponse(_message.Message):
    __slots__ = ("version", "device_blocks_before", "device_blocks", "in_use_beyond")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DEVICE_BLOCKS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    IN_USE_BEYOND_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    device_blocks_before: int
    device_blocks: int
    in_use_beyond: int
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., device_blocks_before: _Optional[int] = ..., device_blocks: _Optional[int] = ..., in_use_beyond: _Optional[int] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("pool", "executor_epoch")
    POOL_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    pool: str
    executor_epoch: int
    def __init__(self, pool: _Optional[str] = ..., executor_epoch: _Optional[int] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("version", "sequences")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    sequences: int
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., sequences: _Optional[int] = ...) -> None: ...

class UndrainRequest(_message.Message):
    __slots__ = ("pool", "executor_epoch")
    POOL_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    pool: str
    executor_epoch: int
    def __init__(self, pool: _Optional[str] = ..., executor_epoch: _Optional[int] = ...) -> None: ...

class UndrainResponse(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ...) -> None: ...

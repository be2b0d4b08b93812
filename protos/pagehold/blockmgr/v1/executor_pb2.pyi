from pagehold.blockmgr.v1 import pool_pb2 as _pool_pb2
from pagehold.common.v1 import states_pb2 as _states_pb2
from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterExecutorRequest(_message.Message):
    __slots__ = ("name", "instance", "pool", "lease_seconds", "must_exist")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MUST_EXIST_FIELD_NUMBER: _ClassVar[int]
    name: str
    instance: bytes
    pool: _pool_pb2.PoolSpec
    lease_seconds: float
    must_exist: bool
    def __init__(self, name: _Optional[str] = ..., instance: _Optional[bytes] = ..., pool: _Optional[_Union[_pool_pb2.PoolSpec, _Mapping]] = ..., lease_seconds: _Optional[float] = ..., must_exist: _Optional[bool] = ...) -> None: ...

class RegisterExecutorResponse(_message.Message):
    __slots__ = ("version", "epoch", "lease_seconds", "pool", "created", "relabelled", "waiting_sequences", "descriptor_socket", "last_number", "zero_memory")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    RELABELLED_FIELD_NUMBER: _ClassVar[int]
    WAITING_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_SOCKET_FIELD_NUMBER: _ClassVar[int]
    LAST_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ZERO_MEMORY_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    epoch: int
    lease_seconds: float
    pool: _pool_pb2.Pool
    created: bool
    relabelled: bool
    waiting_sequences: int
    descriptor_socket: str
    last_number: int
    zero_memory: bool
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., epoch: _Optional[int] = ..., lease_seconds: _Optional[float] = ..., pool: _Optional[_Union[_pool_pb2.Pool, _Mapping]] = ..., created: _Optional[bool] = ..., relabelled: _Optional[bool] = ..., waiting_sequences: _Optional[int] = ..., descriptor_socket: _Optional[str] = ..., last_number: _Optional[int] = ..., zero_memory: _Optional[bool] = ...) -> None: ...

class ReportZeroedRequest(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class ReportZeroedResponse(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ...) -> None: ...

class ReportReadyRequest(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class ReportReadyResponse(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("version", "lease_seconds", "state", "turn_wanted")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TURN_WANTED_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    lease_seconds: float
    state: _states_pb2.ExecutorState
    turn_wanted: bool
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., lease_seconds: _Optional[float] = ..., state: _Optional[_Union[_states_pb2.ExecutorState, str]] = ..., turn_wanted: _Optional[bool] = ...) -> None: ...

class UnregisterRequest(_message.Message):
    __slots__ = ("epoch", "leave_sequences")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEAVE_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    leave_sequences: bool
    def __init__(self, epoch: _Optional[int] = ..., leave_sequences: _Optional[bool] = ...) -> None: ...

class UnregisterResponse(_message.Message):
    __slots__ = ("version", "waiting_sequences")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WAITING_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    waiting_sequences: int
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., waiting_sequences: _Optional[int] = ...) -> None: ...

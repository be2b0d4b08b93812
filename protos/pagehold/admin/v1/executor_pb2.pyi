from pagehold.common.v1 import states_pb2 as _states_pb2
from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListExecutorsRequest(_message.Message):
    __slots__ = ("pool",)
    POOL_FIELD_NUMBER: _ClassVar[int]
    pool: str
    def __init__(self, pool: _Optional[str] = ...) -> None: ...

class ListExecutorsResponse(_message.Message):
    __slots__ = ("version", "executors")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    executors: _containers.RepeatedCompositeFieldContainer[Executor]
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., executors: _Optional[_Iterable[_Union[Executor, _Mapping]]] = ...) -> None: ...

class Executor(_message.Message):
    __slots__ = ("name", "epoch", "instance", "state", "processes", "registered", "lease_seconds_left", "idle_seconds", "last_number", "launched_step", "completed_step", "sequences", "blocks", "pending_tickets", "draining", "solo", "session_open", "died")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_LEFT_FIELD_NUMBER: _ClassVar[int]
    IDLE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LAST_NUMBER_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_STEP_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_STEP_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    PENDING_TICKETS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SOLO_FIELD_NUMBER: _ClassVar[int]
    SESSION_OPEN_FIELD_NUMBER: _ClassVar[int]
    DIED_FIELD_NUMBER: _ClassVar[int]
    name: str
    epoch: int
    instance: str
    state: _states_pb2.ExecutorState
    processes: _containers.RepeatedCompositeFieldContainer[ExecutorProcess]
    registered: float
    lease_seconds_left: float
    idle_seconds: float
    last_number: int
    launched_step: int
    completed_step: int
    sequences: int
    blocks: int
    pending_tickets: int
    draining: bool
    solo: int
    session_open: bool
    died: float
    def __init__(self, name: _Optional[str] = ..., epoch: _Optional[int] = ..., instance: _Optional[str] = ..., state: _Optional[_Union[_states_pb2.ExecutorState, str]] = ..., processes: _Optional[_Iterable[_Union[ExecutorProcess, _Mapping]]] = ..., registered: _Optional[float] = ..., lease_seconds_left: _Optional[float] = ..., idle_seconds: _Optional[float] = ..., last_number: _Optional[int] = ..., launched_step: _Optional[int] = ..., completed_step: _Optional[int] = ..., sequences: _Optional[int] = ..., blocks: _Optional[int] = ..., pending_tickets: _Optional[int] = ..., draining: _Optional[bool] = ..., solo: _Optional[int] = ..., session_open: _Optional[bool] = ..., died: _Optional[float] = ...) -> None: ...

class ExecutorProcess(_message.Message):
    __slots__ = ("pid", "role", "dead")
    PID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    pid: int
    role: str
    dead: bool
    def __init__(self, pid: _Optional[int] = ..., role: _Optional[str] = ..., dead: _Optional[bool] = ...) -> None: ...

class FenceRequest(_message.Message):
    __slots__ = ("pool", "executor_epoch", "why")
    POOL_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    pool: str
    executor_epoch: int
    why: str
    def __init__(self, pool: _Optional[str] = ..., executor_epoch: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class FenceResponse(_message.Message):
    __slots__ = ("version", "state", "processes_killed")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_KILLED_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    state: _states_pb2.ExecutorState
    processes_killed: int
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., state: _Optional[_Union[_states_pb2.ExecutorState, str]] = ..., processes_killed: _Optional[int] = ...) -> None: ...

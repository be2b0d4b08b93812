from pagehold.admin.v1 import dump_pb2 as _dump_pb2
from pagehold.admin.v1 import stats_pb2 as _stats_pb2
from pagehold.common.v1 import event_pb2 as _event_pb2
from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WatchEventsRequest(_message.Message):
    __slots__ = ("pool", "after_revision", "snapshot", "kinds")
    POOL_FIELD_NUMBER: _ClassVar[int]
    AFTER_REVISION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    pool: str
    after_revision: int
    snapshot: SnapshotFirst
    kinds: _containers.RepeatedScalarFieldContainer[_event_pb2.EventKind]
    def __init__(self, pool: _Optional[str] = ..., after_revision: _Optional[int] = ..., snapshot: _Optional[_Union[SnapshotFirst, _Mapping]] = ..., kinds: _Optional[_Iterable[_Union[_event_pb2.EventKind, str]]] = ...) -> None: ...

class SnapshotFirst(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchEventsResponse(_message.Message):
    __slots__ = ("version", "events", "snapshot", "missed")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    events: EventBatch
    snapshot: PoolSnapshot
    missed: Missed
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., events: _Optional[_Union[EventBatch, _Mapping]] = ..., snapshot: _Optional[_Union[PoolSnapshot, _Mapping]] = ..., missed: _Optional[_Union[Missed, _Mapping]] = ...) -> None: ...

class EventBatch(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_event_pb2.Event]
    def __init__(self, events: _Optional[_Iterable[_Union[_event_pb2.Event, _Mapping]]] = ...) -> None: ...

class PoolSnapshot(_message.Message):
    __slots__ = ("stats", "tables", "last")
    STATS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    stats: _stats_pb2.PoolStats
    tables: _containers.RepeatedCompositeFieldContainer[_dump_pb2.TablePart]
    last: bool
    def __init__(self, stats: _Optional[_Union[_stats_pb2.PoolStats, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[_dump_pb2.TablePart, _Mapping]]] = ..., last: _Optional[bool] = ...) -> None: ...

class Missed(_message.Message):
    __slots__ = ("to",)
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    to: int
    def __init__(self, to: _Optional[int] = ..., **kwargs) -> None: ...

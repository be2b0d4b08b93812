from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_KIND_UNSPECIFIED: _ClassVar[EventKind]
    EVENT_KIND_REGISTERED: _ClassVar[EventKind]
    EVENT_KIND_EXECUTOR_LIVE: _ClassVar[EventKind]
    EVENT_KIND_EXECUTOR_FENCED: _ClassVar[EventKind]
    EVENT_KIND_EXECUTOR_DEAD: _ClassVar[EventKind]
    EVENT_KIND_UNREGISTERED: _ClassVar[EventKind]
    EVENT_KIND_ADMITTED: _ClassVar[EventKind]
    EVENT_KIND_REFUSED: _ClassVar[EventKind]
    EVENT_KIND_GREW: _ClassVar[EventKind]
    EVENT_KIND_SHORT: _ClassVar[EventKind]
    EVENT_KIND_SEALED: _ClassVar[EventKind]
    EVENT_KIND_FORKED: _ClassVar[EventKind]
    EVENT_KIND_REORDERED: _ClassVar[EventKind]
    EVENT_KIND_COPY_ORDERED: _ClassVar[EventKind]
    EVENT_KIND_COPY_DONE: _ClassVar[EventKind]
    EVENT_KIND_SWAPPING_OUT: _ClassVar[EventKind]
    EVENT_KIND_SWAPPING_IN: _ClassVar[EventKind]
    EVENT_KIND_CANCEL_ASKED: _ClassVar[EventKind]
    EVENT_KIND_FINISHED: _ClassVar[EventKind]
    EVENT_KIND_ORPHANED: _ClassVar[EventKind]
    EVENT_KIND_ADOPTED: _ClassVar[EventKind]
    EVENT_KIND_FREED: _ClassVar[EventKind]
    EVENT_KIND_CACHED: _ClassVar[EventKind]
    EVENT_KIND_EVICTED: _ClassVar[EventKind]
    EVENT_KIND_PINNED: _ClassVar[EventKind]
    EVENT_KIND_UNPINNED: _ClassVar[EventKind]
    EVENT_KIND_RESIZED: _ClassVar[EventKind]
    EVENT_KIND_DRAINING: _ClassVar[EventKind]
    EVENT_KIND_FLUSHED: _ClassVar[EventKind]
    EVENT_KIND_RELABELLED: _ClassVar[EventKind]
    EVENT_KIND_RELEASED: _ClassVar[EventKind]
    EVENT_KIND_RETURNED: _ClassVar[EventKind]
EVENT_KIND_UNSPECIFIED: EventKind
EVENT_KIND_REGISTERED: EventKind
EVENT_KIND_EXECUTOR_LIVE: EventKind
EVENT_KIND_EXECUTOR_FENCED: EventKind
EVENT_KIND_EXECUTOR_DEAD: EventKind
EVENT_KIND_UNREGISTERED: EventKind
EVENT_KIND_ADMITTED: EventKind
EVENT_KIND_REFUSED: EventKind
EVENT_KIND_GREW: EventKind
EVENT_KIND_SHORT: EventKind
EVENT_KIND_SEALED: EventKind
EVENT_KIND_FORKED: EventKind
EVENT_KIND_REORDERED: EventKind
EVENT_KIND_COPY_ORDERED: EventKind
EVENT_KIND_COPY_DONE: EventKind
EVENT_KIND_SWAPPING_OUT: EventKind
EVENT_KIND_SWAPPING_IN: EventKind
EVENT_KIND_CANCEL_ASKED: EventKind
EVENT_KIND_FINISHED: EventKind
EVENT_KIND_ORPHANED: EventKind
EVENT_KIND_ADOPTED: EventKind
EVENT_KIND_FREED: EventKind
EVENT_KIND_CACHED: EventKind
EVENT_KIND_EVICTED: EventKind
EVENT_KIND_PINNED: EventKind
EVENT_KIND_UNPINNED: EventKind
EVENT_KIND_RESIZED: EventKind
EVENT_KIND_DRAINING: EventKind
EVENT_KIND_FLUSHED: EventKind
EVENT_KIND_RELABELLED: EventKind
EVENT_KIND_RELEASED: EventKind
EVENT_KIND_RETURNED: EventKind

class Event(_message.Message):
    __slots__ = ("revision", "time", "kind", "handle", "uuid", "executor", "blocks", "host_blocks", "tokens", "detail")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    HOST_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    revision: int
    time: float
    kind: EventKind
    handle: int
    uuid: str
    executor: str
    blocks: _containers.RepeatedScalarFieldContainer[int]
    host_blocks: _containers.RepeatedScalarFieldContainer[int]
    tokens: int
    detail: str
    def __init__(self, revision: _Optional[int] = ..., time: _Optional[float] = ..., kind: _Optional[_Union[EventKind, str]] = ..., handle: _Optional[int] = ..., uuid: _Optional[str] = ..., executor: _Optional[str] = ..., blocks: _Optional[_Iterable[int]] = ..., host_blocks: _Optional[_Iterable[int]] = ..., tokens: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

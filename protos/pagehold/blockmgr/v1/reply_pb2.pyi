from pagehold.blockmgr.v1 import turn_pb2 as _turn_pb2
from pagehold.common.v1 import states_pb2 as _states_pb2
from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Reply(_message.Message):
    __slots__ = ("version", "number", "tables", "short", "tickets", "admitted", "forked", "swaps_refused", "looked_again", "stale", "cancel", "final_lengths", "drain", "free_blocks", "wanted", "usable_blocks", "fenced_blocks", "cached_blocks")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    SHORT_FIELD_NUMBER: _ClassVar[int]
    TICKETS_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    FORKED_FIELD_NUMBER: _ClassVar[int]
    SWAPS_REFUSED_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AGAIN_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    FINAL_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    FREE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    USABLE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    FENCED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CACHED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    number: int
    tables: _containers.RepeatedCompositeFieldContainer[TableUpdates]
    short: _containers.RepeatedScalarFieldContainer[int]
    tickets: _containers.RepeatedCompositeFieldContainer[Ticket]
    admitted: _containers.RepeatedCompositeFieldContainer[Admitted]
    forked: _containers.RepeatedCompositeFieldContainer[Forked]
    swaps_refused: _containers.RepeatedCompositeFieldContainer[Swapped]
    looked_again: _containers.RepeatedCompositeFieldContainer[LookedAgain]
    stale: _containers.RepeatedScalarFieldContainer[int]
    cancel: _containers.RepeatedScalarFieldContainer[int]
    final_lengths: _containers.RepeatedCompositeFieldContainer[FinalLength]
    drain: bool
    free_blocks: int
    wanted: _turn_pb2.Want
    usable_blocks: int
    fenced_blocks: int
    cached_blocks: int
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., number: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[TableUpdates, _Mapping]]] = ..., short: _Optional[_Iterable[int]] = ..., tickets: _Optional[_Iterable[_Union[Ticket, _Mapping]]] = ..., admitted: _Optional[_Iterable[_Union[Admitted, _Mapping]]] = ..., forked: _Optional[_Iterable[_Union[Forked, _Mapping]]] = ..., swaps_refused: _Optional[_Iterable[_Union[Swapped, _Mapping]]] = ..., looked_again: _Optional[_Iterable[_Union[LookedAgain, _Mapping]]] = ..., stale: _Optional[_Iterable[int]] = ..., cancel: _Optional[_Iterable[int]] = ..., final_lengths: _Optional[_Iterable[_Union[FinalLength, _Mapping]]] = ..., drain: _Optional[bool] = ..., free_blocks: _Optional[int] = ..., wanted: _Optional[_Union[_turn_pb2.Want, _Mapping]] = ..., usable_blocks: _Optional[int] = ..., fenced_blocks: _Optional[int] = ..., cached_blocks: _Optional[int] = ...) -> None: ...

class TableUpdates(_message.Message):
    __slots__ = ("handles", "firsts", "counts", "blocks", "group")
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    FIRSTS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    firsts: _containers.RepeatedScalarFieldContainer[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    blocks: _containers.RepeatedScalarFieldContainer[int]
    group: int
    def __init__(self, handles: _Optional[_Iterable[int]] = ..., firsts: _Optional[_Iterable[int]] = ..., counts: _Optional[_Iterable[int]] = ..., blocks: _Optional[_Iterable[int]] = ..., group: _Optional[int] = ...) -> None: ...

class Ticket(_message.Message):
    __slots__ = ("id", "kind", "handle", "index", "source", "destination", "group")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    id: int
    kind: _states_pb2.TicketKind
    handle: int
    index: int
    source: int
    destination: int
    group: int
    def __init__(self, id: _Optional[int] = ..., kind: _Optional[_Union[_states_pb2.TicketKind, str]] = ..., handle: _Optional[int] = ..., index: _Optional[int] = ..., source: _Optional[int] = ..., destination: _Optional[int] = ..., group: _Optional[int] = ...) -> None: ...

class Admitted(_message.Message):
    __slots__ = ("uuid", "handle", "cached", "awaiting", "refusal", "needed", "available", "detail")
    UUID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    AWAITING_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    handle: int
    cached: int
    awaiting: int
    refusal: _states_pb2.Refusal
    needed: int
    available: int
    detail: str
    def __init__(self, uuid: _Optional[bytes] = ..., handle: _Optional[int] = ..., cached: _Optional[int] = ..., awaiting: _Optional[int] = ..., refusal: _Optional[_Union[_states_pb2.Refusal, str]] = ..., needed: _Optional[int] = ..., available: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class Forked(_message.Message):
    __slots__ = ("parent", "handles", "refusal", "needed", "available")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    parent: int
    handles: _containers.RepeatedScalarFieldContainer[int]
    refusal: _states_pb2.Refusal
    needed: int
    available: int
    def __init__(self, parent: _Optional[int] = ..., handles: _Optional[_Iterable[int]] = ..., refusal: _Optional[_Union[_states_pb2.Refusal, str]] = ..., needed: _Optional[int] = ..., available: _Optional[int] = ...) -> None: ...

class Swapped(_message.Message):
    __slots__ = ("handle", "refusal", "needed", "available")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    handle: int
    refusal: _states_pb2.Refusal
    needed: int
    available: int
    def __init__(self, handle: _Optional[int] = ..., refusal: _Optional[_Union[_states_pb2.Refusal, str]] = ..., needed: _Optional[int] = ..., available: _Optional[int] = ...) -> None: ...

class LookedAgain(_message.Message):
    __slots__ = ("handle", "cached", "awaiting")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    AWAITING_FIELD_NUMBER: _ClassVar[int]
    handle: int
    cached: int
    awaiting: int
    def __init__(self, handle: _Optional[int] = ..., cached: _Optional[int] = ..., awaiting: _Optional[int] = ...) -> None: ...

class FinalLength(_message.Message):
    __slots__ = ("handle", "length")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    handle: int
    length: int
    def __init__(self, handle: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

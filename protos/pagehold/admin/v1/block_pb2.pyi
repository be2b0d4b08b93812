from pagehold.admin.v1 import sequence_pb2 as _sequence_pb2
from pagehold.common.v1 import event_pb2 as _event_pb2
from pagehold.common.v1 import states_pb2 as _states_pb2
from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BlockId(_message.Message):
    __slots__ = ("tier", "block")
    TIER_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    tier: _states_pb2.Tier
    block: int
    def __init__(self, tier: _Optional[_Union[_states_pb2.Tier, str]] = ..., block: _Optional[int] = ...) -> None: ...

class GetBlockRequest(_message.Message):
    __slots__ = ("pool", "id", "event_limit")
    POOL_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_LIMIT_FIELD_NUMBER: _ClassVar[int]
    pool: str
    id: BlockId
    event_limit: int
    def __init__(self, pool: _Optional[str] = ..., id: _Optional[_Union[BlockId, _Mapping]] = ..., event_limit: _Optional[int] = ...) -> None: ...

class GetBlockResponse(_message.Message):
    __slots__ = ("version", "block", "ids", "holders", "events")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    block: Block
    ids: _containers.RepeatedScalarFieldContainer[int]
    holders: _containers.RepeatedCompositeFieldContainer[BlockHolder]
    events: _containers.RepeatedCompositeFieldContainer[_event_pb2.Event]
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., block: _Optional[_Union[Block, _Mapping]] = ..., ids: _Optional[_Iterable[int]] = ..., holders: _Optional[_Iterable[_Union[BlockHolder, _Mapping]]] = ..., events: _Optional[_Iterable[_Union[_event_pb2.Event, _Mapping]]] = ...) -> None: ...

class Block(_message.Message):
    __slots__ = ("id", "state", "references", "generation", "hash", "parent", "indexed", "pinned", "fenced", "last_use", "filling_step", "filling_executor")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    INDEXED_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    LAST_USE_FIELD_NUMBER: _ClassVar[int]
    FILLING_STEP_FIELD_NUMBER: _ClassVar[int]
    FILLING_EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    id: BlockId
    state: _states_pb2.BlockState
    references: int
    generation: int
    hash: str
    parent: str
    indexed: bool
    pinned: bool
    fenced: bool
    last_use: int
    filling_step: int
    filling_executor: str
    def __init__(self, id: _Optional[_Union[BlockId, _Mapping]] = ..., state: _Optional[_Union[_states_pb2.BlockState, str]] = ..., references: _Optional[int] = ..., generation: _Optional[int] = ..., hash: _Optional[str] = ..., parent: _Optional[str] = ..., indexed: _Optional[bool] = ..., pinned: _Optional[bool] = ..., fenced: _Optional[bool] = ..., last_use: _Optional[int] = ..., filling_step: _Optional[int] = ..., filling_executor: _Optional[str] = ...) -> None: ...

class BlockHolder(_message.Message):
    __slots__ = ("table", "pin", "ticket", "fence")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PIN_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    table: TableHolder
    pin: Pin
    ticket: _sequence_pb2.PendingTicket
    fence: FenceHolder
    def __init__(self, table: _Optional[_Union[TableHolder, _Mapping]] = ..., pin: _Optional[_Union[Pin, _Mapping]] = ..., ticket: _Optional[_Union[_sequence_pb2.PendingTicket, _Mapping]] = ..., fence: _Optional[_Union[FenceHolder, _Mapping]] = ...) -> None: ...

class TableHolder(_message.Message):
    __slots__ = ("handle", "uuid", "index")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    handle: int
    uuid: str
    index: int
    def __init__(self, handle: _Optional[int] = ..., uuid: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class FenceHolder(_message.Message):
    __slots__ = ("waits",)
    WAITS_FIELD_NUMBER: _ClassVar[int]
    waits: _containers.RepeatedCompositeFieldContainer[FenceWait]
    def __init__(self, waits: _Optional[_Iterable[_Union[FenceWait, _Mapping]]] = ...) -> None: ...

class FenceWait(_message.Message):
    __slots__ = ("executor", "step", "completed_step")
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_STEP_FIELD_NUMBER: _ClassVar[int]
    executor: str
    step: int
    completed_step: int
    def __init__(self, executor: _Optional[str] = ..., step: _Optional[int] = ..., completed_step: _Optional[int] = ...) -> None: ...

class ListBlocksRequest(_message.Message):
    __slots__ = ("pool", "filter", "page_size", "page_token")
    POOL_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    pool: str
    filter: BlockFilter
    page_size: int
    page_token: str
    def __init__(self, pool: _Optional[str] = ..., filter: _Optional[_Union[BlockFilter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class BlockFilter(_message.Message):
    __slots__ = ("tier", "states", "handle", "min_references", "max_references", "pinned", "indexed", "hash_prefix")
    TIER_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    MIN_REFERENCES_FIELD_NUMBER: _ClassVar[int]
    MAX_REFERENCES_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    INDEXED_FIELD_NUMBER: _ClassVar[int]
    HASH_PREFIX_FIELD_NUMBER: _ClassVar[int]
    tier: _states_pb2.Tier
    states: _containers.RepeatedScalarFieldContainer[_states_pb2.BlockState]
    handle: int
    min_references: int
    max_references: int
    pinned: bool
    indexed: bool
    hash_prefix: str
    def __init__(self, tier: _Optional[_Union[_states_pb2.Tier, str]] = ..., states: _Optional[_Iterable[_Union[_states_pb2.BlockState, str]]] = ..., handle: _Optional[int] = ..., min_references: _Optional[int] = ..., max_references: _Optional[int] = ..., pinned: _Optional[bool] = ..., indexed: _Optional[bool] = ..., hash_prefix: _Optional[str] = ...) -> None: ...

class ListBlocksResponse(_message.Message):
    __slots__ = ("version", "blocks", "next_page_token", "total")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    blocks: _containers.RepeatedCompositeFieldContainer[Block]
    next_page_token: str
    total: int
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., blocks: _Optional[_Iterable[_Union[Block, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class Pin(_message.Message):
    __slots__ = ("id", "blocks", "expires", "label")
    ID_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    id: int
    blocks: _containers.RepeatedCompositeFieldContainer[BlockId]
    expires: float
    label: str
    def __init__(self, id: _Optional[int] = ..., blocks: _Optional[_Iterable[_Union[BlockId, _Mapping]]] = ..., expires: _Optional[float] = ..., label: _Optional[str] = ...) -> None: ...

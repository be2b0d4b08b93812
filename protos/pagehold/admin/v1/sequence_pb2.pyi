from pagehold.common.v1 import states_pb2 as _states_pb2
from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListSequencesRequest(_message.Message):
    __slots__ = ("pool", "executor", "states", "residencies", "page_size", "page_token")
    POOL_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    RESIDENCIES_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    pool: str
    executor: str
    states: _containers.RepeatedScalarFieldContainer[_states_pb2.SequenceState]
    residencies: _containers.RepeatedScalarFieldContainer[_states_pb2.Residency]
    page_size: int
    page_token: str
    def __init__(self, pool: _Optional[str] = ..., executor: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_states_pb2.SequenceState, str]]] = ..., residencies: _Optional[_Iterable[_Union[_states_pb2.Residency, str]]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSequencesResponse(_message.Message):
    __slots__ = ("version", "sequences", "next_page_token", "total")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    sequences: _containers.RepeatedCompositeFieldContainer[Sequence]
    next_page_token: str
    total: int
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., sequences: _Optional[_Iterable[_Union[Sequence, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class Sequence(_message.Message):
    __slots__ = ("handle", "uuid", "slot", "state", "residency", "executor", "executor_epoch", "prompt", "tokens", "computed", "launched", "blocks", "shared_blocks", "final_length", "cancelled", "priority", "created", "score", "family", "deaths", "bypass_cache", "no_store", "attachment")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESIDENCY_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    SHARED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    FINAL_LENGTH_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    DEATHS_FIELD_NUMBER: _ClassVar[int]
    BYPASS_CACHE_FIELD_NUMBER: _ClassVar[int]
    NO_STORE_FIELD_NUMBER: _ClassVar[int]
    ATTACHMENT_FIELD_NUMBER: _ClassVar[int]
    handle: int
    uuid: str
    slot: int
    state: _states_pb2.SequenceState
    residency: _states_pb2.Residency
    executor: str
    executor_epoch: int
    prompt: int
    tokens: int
    computed: int
    launched: int
    blocks: int
    shared_blocks: int
    final_length: int
    cancelled: bool
    priority: int
    created: float
    score: float
    family: int
    deaths: int
    bypass_cache: bool
    no_store: bool
    attachment: int
    def __init__(self, handle: _Optional[int] = ..., uuid: _Optional[str] = ..., slot: _Optional[int] = ..., state: _Optional[_Union[_states_pb2.SequenceState, str]] = ..., residency: _Optional[_Union[_states_pb2.Residency, str]] = ..., executor: _Optional[str] = ..., executor_epoch: _Optional[int] = ..., prompt: _Optional[int] = ..., tokens: _Optional[int] = ..., computed: _Optional[int] = ..., launched: _Optional[int] = ..., blocks: _Optional[int] = ..., shared_blocks: _Optional[int] = ..., final_length: _Optional[int] = ..., cancelled: _Optional[bool] = ..., priority: _Optional[int] = ..., created: _Optional[float] = ..., score: _Optional[float] = ..., family: _Optional[int] = ..., deaths: _Optional[int] = ..., bypass_cache: _Optional[bool] = ..., no_store: _Optional[bool] = ..., attachment: _Optional[int] = ...) -> None: ...

class GetSequenceRequest(_message.Message):
    __slots__ = ("pool", "handle", "uuid", "with_ids")
    POOL_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    WITH_IDS_FIELD_NUMBER: _ClassVar[int]
    pool: str
    handle: int
    uuid: str
    with_ids: bool
    def __init__(self, pool: _Optional[str] = ..., handle: _Optional[int] = ..., uuid: _Optional[str] = ..., with_ids: _Optional[bool] = ...) -> None: ...

class GetSequenceResponse(_message.Message):
    __slots__ = ("version", "live", "finished", "table", "tickets", "ids")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TICKETS_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    live: Sequence
    finished: FinishedRequest
    table: _containers.RepeatedCompositeFieldContainer[TableEntry]
    tickets: _containers.RepeatedCompositeFieldContainer[PendingTicket]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., live: _Optional[_Union[Sequence, _Mapping]] = ..., finished: _Optional[_Union[FinishedRequest, _Mapping]] = ..., table: _Optional[_Iterable[_Union[TableEntry, _Mapping]]] = ..., tickets: _Optional[_Iterable[_Union[PendingTicket, _Mapping]]] = ..., ids: _Optional[_Iterable[int]] = ...) -> None: ...

class TableEntry(_message.Message):
    __slots__ = ("block", "tier", "state", "references", "tokens", "computed", "hash")
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    block: int
    tier: _states_pb2.Tier
    state: _states_pb2.BlockState
    references: int
    tokens: int
    computed: int
    hash: str
    def __init__(self, block: _Optional[int] = ..., tier: _Optional[_Union[_states_pb2.Tier, str]] = ..., state: _Optional[_Union[_states_pb2.BlockState, str]] = ..., references: _Optional[int] = ..., tokens: _Optional[int] = ..., computed: _Optional[int] = ..., hash: _Optional[str] = ...) -> None: ...

class PendingTicket(_message.Message):
    __slots__ = ("id", "kind", "handle", "index", "source", "destination", "executor")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    id: int
    kind: _states_pb2.TicketKind
    handle: int
    index: int
    source: int
    destination: int
    executor: str
    def __init__(self, id: _Optional[int] = ..., kind: _Optional[_Union[_states_pb2.TicketKind, str]] = ..., handle: _Optional[int] = ..., index: _Optional[int] = ..., source: _Optional[int] = ..., destination: _Optional[int] = ..., executor: _Optional[str] = ...) -> None: ...

class FinishedRequest(_message.Message):
    __slots__ = ("uuid", "prompt", "tokens", "final_length", "reason", "score", "created", "finished")
    UUID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    FINAL_LENGTH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    prompt: int
    tokens: int
    final_length: int
    reason: _states_pb2.FinishReason
    score: float
    created: float
    finished: float
    def __init__(self, uuid: _Optional[str] = ..., prompt: _Optional[int] = ..., tokens: _Optional[int] = ..., final_length: _Optional[int] = ..., reason: _Optional[_Union[_states_pb2.FinishReason, str]] = ..., score: _Optional[float] = ..., created: _Optional[float] = ..., finished: _Optional[float] = ...) -> None: ...

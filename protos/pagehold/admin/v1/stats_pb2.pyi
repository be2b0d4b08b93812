from pagehold.blockmgr.v1 import pool_pb2 as _pool_pb2
from pagehold.common.v1 import states_pb2 as _states_pb2
from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetPoolStatsRequest(_message.Message):
    __slots__ = ("pool",)
    POOL_FIELD_NUMBER: _ClassVar[int]
    pool: str
    def __init__(self, pool: _Optional[str] = ...) -> None: ...

class GetPoolStatsResponse(_message.Message):
    __slots__ = ("version", "stats")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    stats: PoolStats
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., stats: _Optional[_Union[PoolStats, _Mapping]] = ...) -> None: ...

class WatchPoolStatsRequest(_message.Message):
    __slots__ = ("pool", "interval_seconds")
    POOL_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    pool: str
    interval_seconds: float
    def __init__(self, pool: _Optional[str] = ..., interval_seconds: _Optional[float] = ...) -> None: ...

class WatchPoolStatsResponse(_message.Message):
    __slots__ = ("version", "stats")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    stats: PoolStats
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., stats: _Optional[_Union[PoolStats, _Mapping]] = ...) -> None: ...

class PoolStats(_message.Message):
    __slots__ = ("name", "time", "geometry", "identity", "arena", "shards", "tiers", "sequences", "counters", "executors", "draining", "pending_tickets", "pins", "finished_requests", "ledger_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    GEOMETRY_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ARENA_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    PENDING_TICKETS_FIELD_NUMBER: _ClassVar[int]
    PINS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    LEDGER_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    time: float
    geometry: _pool_pb2.PoolGeometry
    identity: _pool_pb2.PoolIdentity
    arena: _pool_pb2.ArenaKind
    shards: _containers.RepeatedCompositeFieldContainer[_pool_pb2.Shard]
    tiers: _containers.RepeatedCompositeFieldContainer[TierStats]
    sequences: SequenceStats
    counters: Counters
    executors: int
    draining: bool
    pending_tickets: _containers.RepeatedCompositeFieldContainer[TicketCount]
    pins: int
    finished_requests: int
    ledger_bytes: int
    def __init__(self, name: _Optional[str] = ..., time: _Optional[float] = ..., geometry: _Optional[_Union[_pool_pb2.PoolGeometry, _Mapping]] = ..., identity: _Optional[_Union[_pool_pb2.PoolIdentity, _Mapping]] = ..., arena: _Optional[_Union[_pool_pb2.ArenaKind, str]] = ..., shards: _Optional[_Iterable[_Union[_pool_pb2.Shard, _Mapping]]] = ..., tiers: _Optional[_Iterable[_Union[TierStats, _Mapping]]] = ..., sequences: _Optional[_Union[SequenceStats, _Mapping]] = ..., counters: _Optional[_Union[Counters, _Mapping]] = ..., executors: _Optional[int] = ..., draining: _Optional[bool] = ..., pending_tickets: _Optional[_Iterable[_Union[TicketCount, _Mapping]]] = ..., pins: _Optional[int] = ..., finished_requests: _Optional[int] = ..., ledger_bytes: _Optional[int] = ...) -> None: ...

class TierStats(_message.Message):
    __slots__ = ("tier", "blocks", "states", "available", "pinned", "shared", "indexed", "beyond_size", "fenced")
    TIER_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    INDEXED_FIELD_NUMBER: _ClassVar[int]
    BEYOND_SIZE_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    tier: _states_pb2.Tier
    blocks: int
    states: _containers.RepeatedCompositeFieldContainer[StateCount]
    available: int
    pinned: int
    shared: int
    indexed: int
    beyond_size: int
    fenced: int
    def __init__(self, tier: _Optional[_Union[_states_pb2.Tier, str]] = ..., blocks: _Optional[int] = ..., states: _Optional[_Iterable[_Union[StateCount, _Mapping]]] = ..., available: _Optional[int] = ..., pinned: _Optional[int] = ..., shared: _Optional[int] = ..., indexed: _Optional[int] = ..., beyond_size: _Optional[int] = ..., fenced: _Optional[int] = ...) -> None: ...

class TicketCount(_message.Message):
    __slots__ = ("kind", "tickets")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TICKETS_FIELD_NUMBER: _ClassVar[int]
    kind: _states_pb2.TicketKind
    tickets: int
    def __init__(self, kind: _Optional[_Union[_states_pb2.TicketKind, str]] = ..., tickets: _Optional[int] = ...) -> None: ...

class StateCount(_message.Message):
    __slots__ = ("state", "blocks")
    STATE_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    state: _states_pb2.BlockState
    blocks: int
    def __init__(self, state: _Optional[_Union[_states_pb2.BlockState, str]] = ..., blocks: _Optional[int] = ...) -> None: ...

class SequenceStats(_message.Message):
    __slots__ = ("live", "orphaned", "swapped", "leaving", "returning", "released", "free_slots", "tokens", "computed_tokens", "table_entries", "table_bytes", "blocks_in_use", "blocks_saved_by_sharing", "utilisation", "internal_fragmentation")
    LIVE_FIELD_NUMBER: _ClassVar[int]
    ORPHANED_FIELD_NUMBER: _ClassVar[int]
    SWAPPED_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    RETURNING_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TABLE_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    TABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_IN_USE_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_SAVED_BY_SHARING_FIELD_NUMBER: _ClassVar[int]
    UTILISATION_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FRAGMENTATION_FIELD_NUMBER: _ClassVar[int]
    live: int
    orphaned: int
    swapped: int
    leaving: int
    returning: int
    released: int
    free_slots: int
    tokens: int
    computed_tokens: int
    table_entries: int
    table_bytes: int
    blocks_in_use: int
    blocks_saved_by_sharing: int
    utilisation: float
    internal_fragmentation: float
    def __init__(self, live: _Optional[int] = ..., orphaned: _Optional[int] = ..., swapped: _Optional[int] = ..., leaving: _Optional[int] = ..., returning: _Optional[int] = ..., released: _Optional[int] = ..., free_slots: _Optional[int] = ..., tokens: _Optional[int] = ..., computed_tokens: _Optional[int] = ..., table_entries: _Optional[int] = ..., table_bytes: _Optional[int] = ..., blocks_in_use: _Optional[int] = ..., blocks_saved_by_sharing: _Optional[int] = ..., utilisation: _Optional[float] = ..., internal_fragmentation: _Optional[float] = ...) -> None: ...

class Counters(_message.Message):
    __slots__ = ("seconds", "turns", "repeated_turns", "admitted", "refused", "finished", "prompt_tokens", "cached_prompt_tokens", "output_tokens", "sealed_blocks", "evicted_blocks", "copies", "short_reservations", "adopted", "longest_stall_seconds")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    REPEATED_TURNS_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SEALED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    EVICTED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    SHORT_RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_FIELD_NUMBER: _ClassVar[int]
    LONGEST_STALL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    turns: int
    repeated_turns: int
    admitted: int
    refused: int
    finished: int
    prompt_tokens: int
    cached_prompt_tokens: int
    output_tokens: int
    sealed_blocks: int
    evicted_blocks: int
    copies: int
    short_reservations: int
    adopted: int
    longest_stall_seconds: float
    def __init__(self, seconds: _Optional[float] = ..., turns: _Optional[int] = ..., repeated_turns: _Optional[int] = ..., admitted: _Optional[int] = ..., refused: _Optional[int] = ..., finished: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., cached_prompt_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., sealed_blocks: _Optional[int] = ..., evicted_blocks: _Optional[int] = ..., copies: _Optional[int] = ..., short_reservations: _Optional[int] = ..., adopted: _Optional[int] = ..., longest_stall_seconds: _Optional[float] = ...) -> None: ...

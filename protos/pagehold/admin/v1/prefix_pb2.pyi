from pagehold.admin.v1 import block_pb2 as _block_pb2
from pagehold.common.v1 import states_pb2 as _states_pb2
from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PrefixOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PREFIX_OUTCOME_UNSPECIFIED: _ClassVar[PrefixOutcome]
    PREFIX_OUTCOME_HIT: _ClassVar[PrefixOutcome]
    PREFIX_OUTCOME_HOST_HIT: _ClassVar[PrefixOutcome]
    PREFIX_OUTCOME_BEING_FILLED: _ClassVar[PrefixOutcome]
    PREFIX_OUTCOME_EXPECTED: _ClassVar[PrefixOutcome]
    PREFIX_OUTCOME_EVICTED: _ClassVar[PrefixOutcome]
    PREFIX_OUTCOME_NEVER_SEEN: _ClassVar[PrefixOutcome]
    PREFIX_OUTCOME_OTHER_TOKENS: _ClassVar[PrefixOutcome]
    PREFIX_OUTCOME_UNREACHABLE: _ClassVar[PrefixOutcome]
    PREFIX_OUTCOME_ALWAYS_COMPUTED: _ClassVar[PrefixOutcome]
PREFIX_OUTCOME_UNSPECIFIED: PrefixOutcome
PREFIX_OUTCOME_HIT: PrefixOutcome
PREFIX_OUTCOME_HOST_HIT: PrefixOutcome
PREFIX_OUTCOME_BEING_FILLED: PrefixOutcome
PREFIX_OUTCOME_EXPECTED: PrefixOutcome
PREFIX_OUTCOME_EVICTED: PrefixOutcome
PREFIX_OUTCOME_NEVER_SEEN: PrefixOutcome
PREFIX_OUTCOME_OTHER_TOKENS: PrefixOutcome
PREFIX_OUTCOME_UNREACHABLE: PrefixOutcome
PREFIX_OUTCOME_ALWAYS_COMPUTED: PrefixOutcome

class Prompt(_message.Message):
    __slots__ = ("ids", "cache_salt", "adapter")
    IDS_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    cache_salt: bytes
    adapter: str
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., cache_salt: _Optional[bytes] = ..., adapter: _Optional[str] = ...) -> None: ...

class WalkPrefixesRequest(_message.Message):
    __slots__ = ("pool", "below", "max_depth", "limit", "with_ids")
    POOL_FIELD_NUMBER: _ClassVar[int]
    BELOW_FIELD_NUMBER: _ClassVar[int]
    MAX_DEPTH_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WITH_IDS_FIELD_NUMBER: _ClassVar[int]
    pool: str
    below: str
    max_depth: int
    limit: int
    with_ids: bool
    def __init__(self, pool: _Optional[str] = ..., below: _Optional[str] = ..., max_depth: _Optional[int] = ..., limit: _Optional[int] = ..., with_ids: _Optional[bool] = ...) -> None: ...

class WalkPrefixesResponse(_message.Message):
    __slots__ = ("version", "nodes", "truncated")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    nodes: _containers.RepeatedCompositeFieldContainer[PrefixNode]
    truncated: bool
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., nodes: _Optional[_Iterable[_Union[PrefixNode, _Mapping]]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class PrefixNode(_message.Message):
    __slots__ = ("id", "hash", "parent", "depth", "detached", "state", "references", "children", "last_use", "pinned", "ids")
    ID_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    LAST_USE_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    id: _block_pb2.BlockId
    hash: str
    parent: str
    depth: int
    detached: bool
    state: _states_pb2.BlockState
    references: int
    children: int
    last_use: int
    pinned: bool
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, id: _Optional[_Union[_block_pb2.BlockId, _Mapping]] = ..., hash: _Optional[str] = ..., parent: _Optional[str] = ..., depth: _Optional[int] = ..., detached: _Optional[bool] = ..., state: _Optional[_Union[_states_pb2.BlockState, str]] = ..., references: _Optional[int] = ..., children: _Optional[int] = ..., last_use: _Optional[int] = ..., pinned: _Optional[bool] = ..., ids: _Optional[_Iterable[int]] = ...) -> None: ...

class LookupPrefixRequest(_message.Message):
    __slots__ = ("pool", "prompt")
    POOL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    pool: str
    prompt: Prompt
    def __init__(self, pool: _Optional[str] = ..., prompt: _Optional[_Union[Prompt, _Mapping]] = ...) -> None: ...

class LookupPrefixResponse(_message.Message):
    __slots__ = ("version", "cached_tokens", "blocks")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    cached_tokens: int
    blocks: _containers.RepeatedCompositeFieldContainer[PrefixBlock]
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., cached_tokens: _Optional[int] = ..., blocks: _Optional[_Iterable[_Union[PrefixBlock, _Mapping]]] = ...) -> None: ...

class PrefixBlock(_message.Message):
    __slots__ = ("index", "outcome", "hash", "id", "state", "handle", "executor", "evicted")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    EVICTED_FIELD_NUMBER: _ClassVar[int]
    index: int
    outcome: PrefixOutcome
    hash: str
    id: _block_pb2.BlockId
    state: _states_pb2.BlockState
    handle: int
    executor: str
    evicted: float
    def __init__(self, index: _Optional[int] = ..., outcome: _Optional[_Union[PrefixOutcome, str]] = ..., hash: _Optional[str] = ..., id: _Optional[_Union[_block_pb2.BlockId, _Mapping]] = ..., state: _Optional[_Union[_states_pb2.BlockState, str]] = ..., handle: _Optional[int] = ..., executor: _Optional[str] = ..., evicted: _Optional[float] = ...) -> None: ...

from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ArenaKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ARENA_KIND_UNSPECIFIED: _ClassVar[ArenaKind]
    ARENA_KIND_HOST: _ClassVar[ArenaKind]
    ARENA_KIND_CUDA: _ClassVar[ArenaKind]
    ARENA_KIND_CUDA_IPC: _ClassVar[ArenaKind]
ARENA_KIND_UNSPECIFIED: ArenaKind
ARENA_KIND_HOST: ArenaKind
ARENA_KIND_CUDA: ArenaKind
ARENA_KIND_CUDA_IPC: ArenaKind

class PoolGeometry(_message.Message):
    __slots__ = ("tokens_per_block", "block_bytes", "device_blocks", "device_bytes", "max_device_blocks", "host_blocks", "max_sequences", "max_length", "max_executors", "max_pins", "request_bytes", "reply_bytes", "archive_bytes", "archive_rows")
    TOKENS_PER_BLOCK_FIELD_NUMBER: _ClassVar[int]
    BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_DEVICE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    HOST_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    MAX_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    MAX_PINS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_BYTES_FIELD_NUMBER: _ClassVar[int]
    REPLY_BYTES_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_ROWS_FIELD_NUMBER: _ClassVar[int]
    tokens_per_block: int
    block_bytes: int
    device_blocks: int
    device_bytes: int
    max_device_blocks: int
    host_blocks: int
    max_sequences: int
    max_length: int
    max_executors: int
    max_pins: int
    request_bytes: int
    reply_bytes: int
    archive_bytes: int
    archive_rows: int
    def __init__(self, tokens_per_block: _Optional[int] = ..., block_bytes: _Optional[int] = ..., device_blocks: _Optional[int] = ..., device_bytes: _Optional[int] = ..., max_device_blocks: _Optional[int] = ..., host_blocks: _Optional[int] = ..., max_sequences: _Optional[int] = ..., max_length: _Optional[int] = ..., max_executors: _Optional[int] = ..., max_pins: _Optional[int] = ..., request_bytes: _Optional[int] = ..., reply_bytes: _Optional[int] = ..., archive_bytes: _Optional[int] = ..., archive_rows: _Optional[int] = ...) -> None: ...

class PoolIdentity(_message.Message):
    __slots__ = ("shape", "content", "shape_digest", "content_digest")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SHAPE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONTENT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    shape: BlockShape
    content: Content
    shape_digest: bytes
    content_digest: bytes
    def __init__(self, shape: _Optional[_Union[BlockShape, _Mapping]] = ..., content: _Optional[_Union[Content, _Mapping]] = ..., shape_digest: _Optional[bytes] = ..., content_digest: _Optional[bytes] = ...) -> None: ...

class BlockShape(_message.Message):
    __slots__ = ("layers", "kv_heads", "head_size", "dtype", "layout", "ranks")
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    KV_HEADS_FIELD_NUMBER: _ClassVar[int]
    HEAD_SIZE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    layers: int
    kv_heads: int
    head_size: int
    dtype: str
    layout: str
    ranks: int
    def __init__(self, layers: _Optional[int] = ..., kv_heads: _Optional[int] = ..., head_size: _Optional[int] = ..., dtype: _Optional[str] = ..., layout: _Optional[str] = ..., ranks: _Optional[int] = ...) -> None: ...

class Content(_message.Message):
    __slots__ = ("model", "revision", "weights_dtype", "compute_dtype", "hash_scheme")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_DTYPE_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_DTYPE_FIELD_NUMBER: _ClassVar[int]
    HASH_SCHEME_FIELD_NUMBER: _ClassVar[int]
    model: str
    revision: str
    weights_dtype: str
    compute_dtype: str
    hash_scheme: int
    def __init__(self, model: _Optional[str] = ..., revision: _Optional[str] = ..., weights_dtype: _Optional[str] = ..., compute_dtype: _Optional[str] = ..., hash_scheme: _Optional[int] = ...) -> None: ...

class Shard(_message.Message):
    __slots__ = ("rank", "gpu_uuid")
    RANK_FIELD_NUMBER: _ClassVar[int]
    GPU_UUID_FIELD_NUMBER: _ClassVar[int]
    rank: int
    gpu_uuid: str
    def __init__(self, rank: _Optional[int] = ..., gpu_uuid: _Optional[str] = ...) -> None: ...

class Extent(_message.Message):
    __slots__ = ("name", "shard", "index", "host_tier", "bytes", "handle", "offset")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    HOST_TIER_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    name: str
    shard: int
    index: int
    host_tier: bool
    bytes: int
    handle: bytes
    offset: int
    def __init__(self, name: _Optional[str] = ..., shard: _Optional[int] = ..., index: _Optional[int] = ..., host_tier: _Optional[bool] = ..., bytes: _Optional[int] = ..., handle: _Optional[bytes] = ..., offset: _Optional[int] = ...) -> None: ...

class PoolSpec(_message.Message):
    __slots__ = ("name", "geometry", "identity", "arena", "shards")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GEOMETRY_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ARENA_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    geometry: PoolGeometry
    identity: PoolIdentity
    arena: ArenaKind
    shards: _containers.RepeatedCompositeFieldContainer[Shard]
    def __init__(self, name: _Optional[str] = ..., geometry: _Optional[_Union[PoolGeometry, _Mapping]] = ..., identity: _Optional[_Union[PoolIdentity, _Mapping]] = ..., arena: _Optional[_Union[ArenaKind, str]] = ..., shards: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ...) -> None: ...

class Pool(_message.Message):
    __slots__ = ("name", "geometry", "identity", "arena", "shards", "extents", "ledger", "reserve_bytes", "label")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GEOMETRY_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ARENA_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    RESERVE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    name: str
    geometry: PoolGeometry
    identity: PoolIdentity
    arena: ArenaKind
    shards: _containers.RepeatedCompositeFieldContainer[Shard]
    extents: _containers.RepeatedCompositeFieldContainer[Extent]
    ledger: str
    reserve_bytes: int
    label: bytes
    def __init__(self, name: _Optional[str] = ..., geometry: _Optional[_Union[PoolGeometry, _Mapping]] = ..., identity: _Optional[_Union[PoolIdentity, _Mapping]] = ..., arena: _Optional[_Union[ArenaKind, str]] = ..., shards: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ..., extents: _Optional[_Iterable[_Union[Extent, _Mapping]]] = ..., ledger: _Optional[str] = ..., reserve_bytes: _Optional[int] = ..., label: _Optional[bytes] = ...) -> None: ...

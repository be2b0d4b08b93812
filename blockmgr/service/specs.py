"""Pools as they are proposed and described over gRPC."""

from dataclasses import fields

from blockmgr.core.errors import InvalidMessage, Precondition
from blockmgr.core.geometry import PoolGeometry
from blockmgr.identity import HASH_SCHEME, Content, Shape, Shard
from blockmgr.service.pools import ManagedPool, PoolSpec
from pagehold.blockmgr.v1 import pool_pb2

ARENA_NAMES = {
    pool_pb2.ARENA_KIND_HOST: "host",
    pool_pb2.ARENA_KIND_CUDA: "cuda",
    pool_pb2.ARENA_KIND_CUDA_IPC: "cuda-ipc",
}
ARENA_NUMBERS = {name: number for number, name in ARENA_NAMES.items()}
NAME_BYTES = 64
DEFAULT_POOL = "default"
DEFAULT_TOKENS_PER_BLOCK = 16


def spec_from(proto: pool_pb2.PoolSpec) -> PoolSpec:
    """Read a proposal. Raises ``InvalidMessage`` naming the field, ``Precondition`` for a hash scheme not spoken here."""
    name = proto.name if proto.HasField("name") else DEFAULT_POOL
    if not 0 < len(name.encode()) <= NAME_BYTES or not name.isprintable() or any(c in name for c in ":/"):
        limit = f"must have 1 to {NAME_BYTES} bytes of printable text without ':' and '/'"
        raise InvalidMessage("pool.name", repr(name), limit)
    geometry = _geometry_from(proto.geometry)
    shards = tuple(Shard(shard.rank, shard.gpu_uuid) for shard in proto.shards) or (Shard(),)
    return PoolSpec(
        name=name,
        geometry=geometry,
        shape=_shape_from(proto.identity.shape, geometry, len(shards)),
        content=_content_from(proto.identity.content),
        arena=_arena_from(proto.arena, shards),
        shards=shards,
    )


def _geometry_from(proto: pool_pb2.PoolGeometry) -> PoolGeometry:
    given = {
        field.name: getattr(proto, field.name)
        for field in fields(PoolGeometry)
        if field.name not in ("tokens_per_block", "block_bytes", "device_blocks") and proto.HasField(field.name)
    }
    if not proto.block_bytes:
        raise InvalidMessage("pool.geometry.block_bytes", 0, "must be at least 1")
    if proto.HasField("device_blocks") == proto.HasField("device_bytes"):
        raise InvalidMessage("pool.geometry", "ambiguous", "either device_blocks or device_bytes must be given")
    blocks = proto.device_blocks if proto.HasField("device_blocks") else proto.device_bytes // proto.block_bytes
    tokens = proto.tokens_per_block if proto.HasField("tokens_per_block") else DEFAULT_TOKENS_PER_BLOCK
    return PoolGeometry(tokens_per_block=tokens, block_bytes=proto.block_bytes, device_blocks=blocks, **given)


def _shape_from(proto: pool_pb2.BlockShape, geometry: PoolGeometry, shards: int) -> Shape:
    for name in ("layers", "kv_heads", "head_size", "ranks"):
        if not getattr(proto, name):
            raise InvalidMessage(f"pool.identity.shape.{name}", 0, "must be at least 1")
    for name in ("dtype", "layout"):
        if not getattr(proto, name):
            raise InvalidMessage(f"pool.identity.shape.{name}", "empty", "must be named")
    if proto.ranks != shards:
        raise InvalidMessage("pool.identity.shape.ranks", proto.ranks, f"there are {shards} shards, one for each rank")
    return Shape(
        layers=proto.layers,
        kv_heads=proto.kv_heads,
        head_size=proto.head_size,
        dtype=proto.dtype,
        layout=proto.layout,
        ranks=proto.ranks,
        tokens_per_block=geometry.tokens_per_block,
        block_bytes=geometry.block_bytes,
    )


def _content_from(proto: pool_pb2.Content) -> Content:
    for name in ("model", "revision"):
        if not getattr(proto, name):
            raise InvalidMessage(f"pool.identity.content.{name}", "empty", "must be named")
    scheme = proto.hash_scheme if proto.HasField("hash_scheme") else HASH_SCHEME
    if scheme != HASH_SCHEME:
        raise Precondition(f"hash scheme {scheme} is asked for, but this manager hashes by scheme {HASH_SCHEME}")
    return Content(proto.model, proto.revision, proto.weights_dtype, proto.compute_dtype, scheme)


def _arena_from(kind: pool_pb2.ArenaKind, shards: tuple[Shard, ...]) -> str:
    if kind == pool_pb2.ARENA_KIND_UNSPECIFIED:
        kind = pool_pb2.ARENA_KIND_CUDA if any(shard.gpu_uuid for shard in shards) else pool_pb2.ARENA_KIND_HOST
    if kind not in ARENA_NAMES:
        raise InvalidMessage("pool.arena", kind, f"must be one of {sorted(ARENA_NAMES)}")
    if kind != pool_pb2.ARENA_KIND_HOST and not all(shard.gpu_uuid for shard in shards):
        raise InvalidMessage("pool.shards.gpu_uuid", "empty", f"memory of the kind {ARENA_NAMES[kind]} lies on a GPU")
    if kind != pool_pb2.ARENA_KIND_HOST and len(shards) > 1:
        raise Precondition(f"a pool of {len(shards)} shards cannot be made of {ARENA_NAMES[kind]} memory: one can")
    return ARENA_NAMES[kind]


def describe(managed: ManagedPool) -> pool_pb2.Pool:
    """The pool as it is now."""
    geometry, state = managed.geometry, managed.pool.state
    proto = pool_pb2.Pool(
        name=managed.name,
        arena=ARENA_NUMBERS[managed.device.kind],
        ledger=f"ledger.{managed.name}",
        reserve_bytes=managed.bytes_for(geometry.max_device_blocks),
        label=managed.label if managed.device.kind != "host" else None,
    )
    for field in fields(PoolGeometry):
        setattr(proto.geometry, field.name, getattr(geometry, field.name))
    proto.geometry.device_blocks = state.capacity
    proto.geometry.device_bytes = managed.device.size
    shape = managed.shape
    for name in ("layers", "kv_heads", "head_size", "dtype", "layout", "ranks"):
        setattr(proto.identity.shape, name, getattr(shape, name))
    content = managed.content()
    for name in ("model", "revision", "weights_dtype", "compute_dtype", "hash_scheme"):
        setattr(proto.identity.content, name, getattr(content, name))
    proto.identity.shape_digest = shape.digest()
    proto.identity.content_digest = state.content
    for shard in managed.shards:
        proto.shards.add(rank=shard.rank, gpu_uuid=shard.gpu_uuid or None)
    _add_extents(proto, managed)
    return proto


def _add_extents(proto: pool_pb2.Pool, managed: ManagedPool) -> None:
    for tier, arena in managed.arenas():
        for index, extent in enumerate(arena.extents):
            proto.extents.add(
                name=extent.name if extent.descriptor is not None else "",
                shard=0,
                index=index,
                host_tier=tier == "host",
                bytes=extent.size,
                handle=extent.handle or None,
                offset=extent.offset,
            )

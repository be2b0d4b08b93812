"""The pool that an engine proposes: its geometry, from the model and from what memory there is, and its identity."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch

from executor.engine.request import Limits, Request
from executor.engine.settings import EngineSettings
from executor.models.config import CacheShape
from executor.models.errors import UnsupportedModel
from executor.models.model import PagedModel
from pagehold.blockmgr.v1 import pool_pb2

LAYOUT = "layer-kv-head-token-element"

SHARE, GPU_SHARE = 0.25, 0.95
"""Of the memory that is left, what a pool takes by itself: of the machine's at most, and of a GPU's."""

SEQUENCES = 64
"""Sequences at their longest that a pool made by itself need not hold more than."""

ARENAS = {
    "auto": pool_pb2.ARENA_KIND_UNSPECIFIED,
    "host": pool_pb2.ARENA_KIND_HOST,
    "cuda": pool_pb2.ARENA_KIND_CUDA,
    "cuda-ipc": pool_pb2.ARENA_KIND_CUDA_IPC,
}
"""Kinds of memory by name. Left to the manager, it is what fits the shards."""


@dataclass(frozen=True, slots=True)
class CacheFormat:
    """What a model keeps for each token, and the element type."""

    shape: CacheShape
    dtype: torch.dtype
    max_length: int

    @property
    def dtype_name(self) -> str:
        """The element type's name, as pools have it."""
        return str(self.dtype).removeprefix("torch.")

    def block_bytes(self, tokens_per_block: int) -> int:
        """Bytes of a block, all layers of it."""
        return prod(self.shape.pool(1, tokens_per_block)) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that a pool is to be made of: how many bytes are left for it, and whose it is."""

    left: Callable[[], int]
    """Asked only where it matters: to find out may take a while."""
    gpu_uuid: str = ""
    """The GPU's UUID; empty: the machine's own memory."""


def propose_pool(
    settings: EngineSettings, cache: CacheFormat, name: str, revision: str, memory: Memory | None = None
) -> pool_pb2.PoolSpec:
    """The pool to make, if there is none yet, of the machine's memory if no other is given.

    Raises UnsupportedModel where not one sequence would fit.
    """
    memory = memory or Memory(available_memory)
    size = settings.tokens_per_block
    spec = pool_pb2.PoolSpec(name=settings.pool, arena=ARENAS[settings.arena])
    if memory.gpu_uuid:
        spec.shards.add(rank=0, gpu_uuid=memory.gpu_uuid)
    spec.geometry.tokens_per_block = size
    spec.geometry.block_bytes = cache.block_bytes(size)
    spec.geometry.max_length = cache.max_length
    spec.geometry.max_sequences = settings.max_sequences
    spec.geometry.device_blocks = settings.blocks or _blocks(settings, cache, spec.geometry.block_bytes, memory)
    spec.geometry.host_blocks = _host_blocks(settings, spec.geometry.block_bytes)
    if settings.max_blocks is not None:
        spec.geometry.max_device_blocks = max(settings.max_blocks, spec.geometry.device_blocks)
    shape = cache.shape
    spec.identity.shape.CopyFrom(
        pool_pb2.BlockShape(
            layers=shape.num_layers,
            kv_heads=shape.key_value_heads,
            head_size=shape.head_dim,
            dtype=cache.dtype_name,
            layout=LAYOUT,
            ranks=1,
        )
    )
    spec.identity.content.CopyFrom(
        pool_pb2.Content(model=name, revision=revision, weights_dtype=cache.dtype_name, compute_dtype=cache.dtype_name)
    )
    return spec


def _blocks(settings: EngineSettings, cache: CacheFormat, block_bytes: int, memory: Memory) -> int:
    """As many as are set in bytes, or as a share of what is left; else as many sequences could need, as far as a share
    reaches.
    """
    asked = settings.kv_memory
    if asked is not None:
        size = int(asked if asked > 1 else memory.left() * asked)
        if size < 2 * block_bytes:
            raise UnsupportedModel(f"kv_memory is {asked:g}, {size} bytes: two blocks take {2 * block_bytes}")
        return size // block_bytes
    sequences, share = (settings.max_running, GPU_SHARE) if memory.gpu_uuid else (SEQUENCES, SHARE)
    needed = 1 + sequences * -(-cache.max_length // settings.tokens_per_block)
    return max(2, min(needed, int(memory.left() * share) // block_bytes))


def _host_blocks(settings: EngineSettings, block_bytes: int) -> int:
    if settings.host_bytes is not None:
        return settings.host_bytes // block_bytes
    return settings.host_blocks or 0


def available_memory() -> int:
    """Bytes that this process could still take without pushing others out: of the machine, and of its control group."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return available
    return min(available, max(int(limit) - used, 0)) if limit.isdecimal() else available


def limits_of(pool: pool_pb2.Pool, model: PagedModel) -> Limits:
    """What an engine can take on with a pool as it is, which need not be as it was proposed."""
    geometry = pool.geometry
    return Limits(
        max_length=min(model.max_length, geometry.max_length),
        vocabulary=model.vocab_size,
        usable_blocks=geometry.device_blocks - 1,
        tokens_per_block=geometry.tokens_per_block,
        request_bytes=geometry.request_bytes,
        slots=geometry.max_sequences,
    )


def salt_of(model: PagedModel) -> Callable[[Request], bytes]:
    """Under which salt requests share cached blocks: the caller's own.

    Where a sequence's length decides how its keys are rotated, blocks serve only sequences that rotate alike: then that
    is part of the salt.
    """

    def salt(request: Request) -> bytes:
        own: bytes = request.kept.cache_salt.encode()
        return b"%d:" % model.rope_regime(request.longest) + own if model.rope_depends_on_length else own

    return salt

"""How an engine comes by its pool: it registers for one that exists before it loads anything, and proposes one otherwise."""

from dataclasses import replace

import grpc
import structlog

from executor.engine.gpu.device import Extent
from executor.engine.gpu.placement import Place
from executor.engine.gpu.sizing import memory_left
from executor.engine.loading import Prepared, load
from executor.engine.model_inputs import Tables
from executor.engine.settings import EngineSettings
from executor.engine.sizing import Memory, available_memory, propose_pool
from executor.manager import Registration, register

log = structlog.get_logger()

ANY_SIZE = 1 << 40
"""Bytes that stand in a proposal that is no more than a question."""


def join_pool(settings: EngineSettings, place: Place, prepared: Prepared) -> tuple[Registration, Prepared]:
    """Register, which waits for a manager. Returns the model with it, where it had to be loaded for that.

    What a GPU has left shows only once the model is loaded, so its size is proposed then; but whoever has sequences to
    take up has to be heard of at once, and where there are sequences there is a pool. So that is asked for first.
    Raises a ``ModelError``, ``ArenaError``, or ``grpc.RpcError`` when refused.
    """
    if not place.gpu_uuid:
        return _register(settings, prepared, Memory(available_memory)), prepared
    try:
        known = Memory(lambda: ANY_SIZE, place.gpu_uuid)
        return _register(settings, prepared, known, must_exist=not settings.fixes_pool), prepared
    except grpc.RpcError as error:
        if settings.fixes_pool or error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
    model = load(prepared)
    cache = prepared.cache
    size = settings.tokens_per_block
    tables = Tables(settings.max_sequences, -(-cache.max_length // size), size)

    def left() -> int:
        extent = Extent(settings.max_running, settings.step_tokens)
        found = memory_left(model, cache.block_bytes(size), tables, extent, records=settings.record_steps)
        log.info("the largest steps were tried", bytes_left=found)
        return found

    prepared = replace(prepared, model=model)
    return _register(settings, prepared, Memory(left, place.gpu_uuid)), prepared


def _register(
    settings: EngineSettings, prepared: Prepared, memory: Memory, *, must_exist: bool = False
) -> Registration:
    spec = propose_pool(settings, prepared.cache, prepared.source.name, prepared.revision, memory)
    registration = register(
        settings.runtime_dir,
        settings.name,
        spec,
        lease_seconds=settings.lease_seconds,
        timeout=settings.register_seconds,
        must_exist=must_exist,
    )
    pool = registration.response.pool
    log.info(
        "registered",
        name=settings.name,
        epoch=registration.epoch,
        pool=pool.name,
        blocks=pool.geometry.device_blocks,
        bytes=pool.geometry.device_bytes,
        created=registration.response.created,
        waiting_sequences=registration.response.waiting_sequences,
    )
    return registration

"""AdminService: each method a few lines. What it looks at or changes stands in the module of that name."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

import grpc

from blockmgr.service.admin import evictions, pins
from blockmgr.service.admin.blocks import find_blocks
from blockmgr.service.admin.dump import dump_tables
from blockmgr.service.admin.executors import drain, fence_executor, list_executors
from blockmgr.service.admin.handlers import Handlers, streaming, unary
from blockmgr.service.admin.holders import show_block
from blockmgr.service.admin.identifiers import within
from blockmgr.service.admin.lookup import look_up
from blockmgr.service.admin.numbers import EXECUTOR_STATE
from blockmgr.service.admin.off_loop import off_loop
from blockmgr.service.admin.prefixes import walk
from blockmgr.service.admin.prompts import read_prompt
from blockmgr.service.admin.resizing import resize
from blockmgr.service.admin.sequences import find_sequences, show_sequence
from blockmgr.service.admin.stats import pool_stats, summary
from blockmgr.service.admin.verification import verify_pool
from blockmgr.service.admin.watch import EventWatch
from blockmgr.service.contract import add_service
from blockmgr.service.pools import ManagedPool
from pagehold.admin.v1 import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    block_pb2,
    dump_pb2,
    evict_pb2,
    executor_pb2,
    pin_pb2,
    pool_pb2,
    prefix_pb2,
    sequence_pb2,
    stats_pb2,
    verify_pb2,
    watch_pb2,
)

INTERVAL_DEFAULT, INTERVAL_LIMITS = 1.0, (0.1, 3600.0)


class AdminServicer(Handlers, admin_service_pb2_grpc.AdminServiceServicer):
    """What operators call. The pools are the manager's; nothing of them is kept here."""

    # -- looking -----------------------------------------------------------------------------------------------------

    @unary
    async def ListPools(self, request: pool_pb2.ListPoolsRequest) -> pool_pb2.ListPoolsResponse:
        """List the pools."""
        pools = (summary(managed) for _, managed in sorted(self.manager.pools.items()))
        return pool_pb2.ListPoolsResponse(version=self.version(), pools=pools)

    @unary
    async def GetPoolStats(self, request: stats_pb2.GetPoolStatsRequest) -> stats_pb2.GetPoolStatsResponse:
        """Give the figures of a pool."""
        managed = self.pool(request)
        return stats_pb2.GetPoolStatsResponse(version=self.version(managed), stats=self._stats(managed))

    def _stats(self, managed: ManagedPool) -> stats_pb2.PoolStats:
        stats = pool_stats(managed)
        stats.counters.seconds = time.monotonic() - self.began
        stats.counters.longest_stall_seconds = self.manager.longest_stall
        return stats

    @streaming
    async def WatchPoolStats(
        self, request: stats_pb2.WatchPoolStatsRequest
    ) -> AsyncGenerator[stats_pb2.WatchPoolStatsResponse, None]:
        """Give the figures of a pool at intervals."""
        seconds = request.interval_seconds if request.HasField("interval_seconds") else INTERVAL_DEFAULT
        within("interval_seconds", seconds, *INTERVAL_LIMITS)
        managed = self.pool(request)
        while True:
            yield stats_pb2.WatchPoolStatsResponse(version=self.version(managed), stats=self._stats(managed))
            await asyncio.sleep(seconds)

    @unary
    async def ListExecutors(self, request: executor_pb2.ListExecutorsRequest) -> executor_pb2.ListExecutorsResponse:
        """List the executors of a pool."""
        managed = self.pool(request)
        executors = list_executors(self.manager, managed, asyncio.get_running_loop().time())
        return executor_pb2.ListExecutorsResponse(version=self.version(managed), executors=executors)

    @unary
    async def ListSequences(self, request: sequence_pb2.ListSequencesRequest) -> sequence_pb2.ListSequencesResponse:
        """List the sequences of a pool."""
        managed = self.pool(request)
        return await asyncio.to_thread(find_sequences(managed.pool, request, self.version(managed)))

    @unary
    async def GetSequence(self, request: sequence_pb2.GetSequenceRequest) -> sequence_pb2.GetSequenceResponse:
        """Show one sequence with its block table."""
        managed = self.pool(request)
        return await asyncio.to_thread(show_sequence(managed.pool, request, self.version(managed)))

    @unary
    async def GetBlock(self, request: block_pb2.GetBlockRequest) -> block_pb2.GetBlockResponse:
        """Show one block and every holder of it."""
        managed = self.pool(request)
        return await asyncio.to_thread(show_block(managed.pool, request, self.version(managed)))

    @unary
    async def ListBlocks(self, request: block_pb2.ListBlocksRequest) -> block_pb2.ListBlocksResponse:
        """List blocks."""
        managed = self.pool(request)
        return await asyncio.to_thread(find_blocks(managed.pool, request).answer, self.version(managed))

    @streaming
    async def DumpBlockTables(
        self, request: dump_pb2.DumpBlockTablesRequest
    ) -> AsyncGenerator[dump_pb2.DumpBlockTablesResponse, None]:
        """Dump every block table. An empty pool gives one answer without tables."""
        managed = self.pool(request)
        version, dump, empty = self.version(managed), dump_tables(managed.pool), True
        async for tables in off_loop(dump.chunks()):
            empty = False
            yield dump_pb2.DumpBlockTablesResponse(version=version, tables=tables)
        if empty:
            yield dump_pb2.DumpBlockTablesResponse(version=version)

    @streaming
    async def WalkPrefixes(
        self, request: prefix_pb2.WalkPrefixesRequest
    ) -> AsyncGenerator[prefix_pb2.WalkPrefixesResponse, None]:
        """Walk the tree of cached prefixes."""
        managed = self.pool(request)
        version, walked = self.version(managed), walk(managed.pool, request)
        async for nodes in off_loop(walked.chunks()):
            yield prefix_pb2.WalkPrefixesResponse(version=version, nodes=nodes, truncated=walked.truncated)

    @unary
    async def LookupPrefix(self, request: prefix_pb2.LookupPrefixRequest) -> prefix_pb2.LookupPrefixResponse:
        """Say what a prompt would find in the cache, and why not more."""
        managed = self.pool(request)
        prompt = read_prompt(managed.pool, request.prompt)
        chain = await asyncio.to_thread(prompt.chain, managed.geometry.tokens_per_block)
        lookup = look_up(managed.pool, prompt, chain)
        return await asyncio.to_thread(lookup.answer, self.version(managed))

    @streaming
    async def WatchEvents(
        self, request: watch_pb2.WatchEventsRequest
    ) -> AsyncGenerator[watch_pb2.WatchEventsResponse, None]:
        """Tell what happens in a pool."""
        async with aclosing(EventWatch(self.manager, self.pool(request), request).answers()) as answers:
            async for answer in answers:
                yield answer

    @unary
    async def VerifyInvariants(
        self, request: verify_pb2.VerifyInvariantsRequest
    ) -> verify_pb2.VerifyInvariantsResponse:
        """Check every invariant, on a snapshot."""
        managed = self.pool(request)
        return await verify_pool(managed.pool, request, self.version(managed))

    # -- pins and evictions ------------------------------------------------------------------------------------------

    @unary
    async def Pin(self, request: pin_pb2.PinRequest) -> pin_pb2.PinResponse:
        """Keep blocks from being evicted, for a time."""
        managed = self.pool(request)
        made = await pins.pin(managed.pool, request)
        pin = pins.pin_message(managed.geometry, made.pin)
        return pin_pb2.PinResponse(version=self.version(managed), pin=pin, pinned_tokens=made.tokens)

    @unary
    async def Unpin(self, request: pin_pb2.UnpinRequest) -> pin_pb2.UnpinResponse:
        """End pins."""
        managed = self.pool(request)
        ended = [pins.pin_message(managed.geometry, pin) for pin in pins.unpin(managed.pool, request)]
        return pin_pb2.UnpinResponse(version=self.version(managed), pins=ended)

    @unary
    async def ListPins(self, request: pin_pb2.ListPinsRequest) -> pin_pb2.ListPinsResponse:
        """List the pins."""
        managed = self.pool(request)
        listed = sorted(managed.pool.pins.list(), key=lambda pin: pin.id)
        there_are = (pins.pin_message(managed.geometry, pin) for pin in listed)
        return pin_pb2.ListPinsResponse(version=self.version(managed), pins=there_are)

    @unary
    async def Evict(self, request: evict_pb2.EvictRequest) -> evict_pb2.EvictResponse:
        """Give up cached blocks."""
        managed = self.pool(request)
        answer = await evictions.evict(managed.pool, request)
        answer.version.CopyFrom(self.version(managed))
        return answer

    @unary
    async def Flush(self, request: evict_pb2.FlushRequest) -> evict_pb2.FlushResponse:
        """Give up every cached block."""
        managed = self.pool(request)
        flushed = await evictions.flush(managed.pool, request)
        version = self.version(managed)
        return evict_pb2.FlushResponse(
            version=version, device_blocks=flushed.device, host_blocks=flushed.host, kept=flushed.kept
        )

    # -- size, draining, fencing -------------------------------------------------------------------------------------

    @unary
    async def Resize(self, request: pool_pb2.ResizeRequest) -> pool_pb2.ResizeResponse:
        """Change the number of device blocks."""
        managed = self.pool(request)
        async with self.resizing:
            resized = await resize(self.manager, managed, request.device_blocks)
        return pool_pb2.ResizeResponse(
            version=self.version(managed),
            device_blocks_before=resized.before,
            device_blocks=resized.after,
            in_use_beyond=resized.in_use_beyond,
        )

    @unary
    async def Drain(self, request: pool_pb2.DrainRequest) -> pool_pb2.DrainResponse:
        """Admit nothing new."""
        managed = self.pool(request)
        alive = drain(self.manager, managed, request, on=True)
        return pool_pb2.DrainResponse(version=self.version(managed), sequences=alive)

    @unary
    async def Undrain(self, request: pool_pb2.UndrainRequest) -> pool_pb2.UndrainResponse:
        """Admit again."""
        managed = self.pool(request)
        drain(self.manager, managed, request, on=False)
        return pool_pb2.UndrainResponse(version=self.version(managed))

    @unary
    async def Fence(self, request: executor_pb2.FenceRequest) -> executor_pb2.FenceResponse:
        """Revoke an executor's epoch and kill its processes."""
        managed = self.pool(request)
        state, killed = fence_executor(self.manager, managed, request)
        return executor_pb2.FenceResponse(
            version=self.version(managed), state=EXECUTOR_STATE[state], processes_killed=killed
        )


def add_to_server(servicer: AdminServicer, server: grpc.aio.Server) -> None:
    """Register the service."""
    service = admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"]
    add_service(server, service, lambda name: getattr(servicer, name))

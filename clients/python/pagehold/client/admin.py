"""The operators' client: every method of the block manager's AdminService, typed, with errors as one exception."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
import grpc.aio

from pagehold.admin.v1 import (
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
from pagehold.client.admin_errors import AdminError as AdminError
from pagehold.client.admin_errors import error_of
from pagehold.common.v1 import states_pb2

Answer = TypeVar("Answer")

DEFAULT_ADDRESS = "127.0.0.1:7070"
MESSAGE_BYTES = 64 << 20
OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    # The manager is on this machine or a neighbour, never behind a proxy for the web.
    ("grpc.enable_http_proxy", 0),
    # A manager that has just restarted is tried at once, whatever another channel of this process has seen.
    ("grpc.use_local_subchannel_pool", 1),
]


class AdminClient:
    """A connection to one block manager. Use as ``async with AdminClient(address) as client``.

    ``address`` is HOST:PORT or unix:PATH; ``pool`` the name of the pool that all calls are about (None: the only one);
    ``timeout`` the seconds that a call may take (streams may stay open). Every method raises ``AdminError``.
    """

    def __init__(self, address: str = DEFAULT_ADDRESS, pool: str | None = None, timeout: float = 10.0) -> None:
        self.address = address
        self.pool = pool
        self.timeout = timeout

    async def __aenter__(self) -> Self:
        self._channel = grpc.aio.insecure_channel(self.address, options=OPTIONS)
        self._stub: Any = admin_service_pb2_grpc.AdminServiceStub(self._channel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close(None)

    async def _call(self, method: Callable[..., Awaitable[Answer]], request: Any) -> Answer:
        try:
            return await method(request, timeout=self.timeout)
        except grpc.aio.AioRpcError as error:
            raise error_of(error, self.address, self.timeout) from None

    async def _stream(self, method: Callable[..., AsyncIterator[Answer]], request: Any) -> AsyncIterator[Answer]:
        try:
            async for answer in method(request):
                yield answer
        except grpc.aio.AioRpcError as error:
            raise error_of(error, self.address, None) from None

    # -- pools and executors -----------------------------------------------------------------------------------------

    async def list_pools(self) -> pool_pb2.ListPoolsResponse:
        """The pools, in a line each."""
        return await self._call(self._stub.ListPools, pool_pb2.ListPoolsRequest())

    async def pool_stats(self) -> stats_pb2.GetPoolStatsResponse:
        """The figures of the pool."""
        return await self._call(self._stub.GetPoolStats, stats_pb2.GetPoolStatsRequest(pool=self.pool))

    def watch_stats(self, seconds: float) -> AsyncIterator[stats_pb2.WatchPoolStatsResponse]:
        """The figures of the pool every so many seconds."""
        request = stats_pb2.WatchPoolStatsRequest(pool=self.pool, interval_seconds=seconds)
        return self._stream(self._stub.WatchPoolStats, request)

    async def list_executors(self) -> executor_pb2.ListExecutorsResponse:
        """Every registration that still matters."""
        return await self._call(self._stub.ListExecutors, executor_pb2.ListExecutorsRequest(pool=self.pool))

    async def resize(self, device_blocks: int) -> pool_pb2.ResizeResponse:
        """Set the number of device blocks, the null block included."""
        request = pool_pb2.ResizeRequest(pool=self.pool, device_blocks=device_blocks)
        return await self._call(self._stub.Resize, request)

    async def drain(self, epoch: int | None = None) -> pool_pb2.DrainResponse:
        """Have nothing new admitted, to one executor or to the whole pool."""
        return await self._call(self._stub.Drain, pool_pb2.DrainRequest(pool=self.pool, executor_epoch=epoch))

    async def undrain(self, epoch: int | None = None) -> pool_pb2.UndrainResponse:
        """Have prompts admitted again."""
        return await self._call(self._stub.Undrain, pool_pb2.UndrainRequest(pool=self.pool, executor_epoch=epoch))

    async def fence(self, epoch: int, why: str | None = None) -> executor_pb2.FenceResponse:
        """Revoke an executor's epoch and kill its processes."""
        return await self._call(
            self._stub.Fence, executor_pb2.FenceRequest(pool=self.pool, executor_epoch=epoch, why=why)
        )

    # -- sequences and blocks ----------------------------------------------------------------------------------------

    async def list_sequences(
        self,
        *,
        limit: int,
        executor: str | None = None,
        states: Iterable[states_pb2.SequenceState] = (),
        residencies: Iterable[states_pb2.Residency] = (),
    ) -> sequence_pb2.ListSequencesResponse:
        """The first so many sequences that match, from as many pages as it takes; ``total`` says how many there are."""
        request = sequence_pb2.ListSequencesRequest(
            pool=self.pool, executor=executor, states=states, residencies=residencies
        )
        listed: list[sequence_pb2.Sequence] = []
        while True:
            request.page_size = min(limit - len(listed), 1000)
            answer = await self._call(self._stub.ListSequences, request)
            listed += answer.sequences
            if not answer.next_page_token or len(listed) >= limit:
                break
            request.page_token = answer.next_page_token
        del answer.sequences[:]
        answer.sequences.extend(listed)
        return answer

    async def get_sequence(
        self, *, handle: int | None = None, uuid: str | None = None, with_ids: bool = False
    ) -> sequence_pb2.GetSequenceResponse:
        """One sequence, alive or finished, with its block table."""
        request = sequence_pb2.GetSequenceRequest(pool=self.pool, handle=handle, uuid=uuid, with_ids=with_ids)
        return await self._call(self._stub.GetSequence, request)

    async def get_block(self, id_: block_pb2.BlockId, events: int = 16) -> block_pb2.GetBlockResponse:
        """One block and every holder of it."""
        request = block_pb2.GetBlockRequest(pool=self.pool, id=id_, event_limit=events)
        return await self._call(self._stub.GetBlock, request)

    async def list_blocks(self, wanted: block_pb2.BlockFilter, limit: int) -> block_pb2.ListBlocksResponse:
        """The first so many blocks that match, from as many pages as it takes; ``total`` says how many there are."""
        request = block_pb2.ListBlocksRequest(pool=self.pool, filter=wanted)
        listed: list[block_pb2.Block] = []
        while True:
            request.page_size = min(limit - len(listed), 5000)
            answer = await self._call(self._stub.ListBlocks, request)
            listed += answer.blocks
            if not answer.next_page_token or len(listed) >= limit:
                break
            request.page_token = answer.next_page_token
        del answer.blocks[:]
        answer.blocks.extend(listed)
        return answer

    def dump_tables(self) -> AsyncIterator[dump_pb2.DumpBlockTablesResponse]:
        """Every block table, from one state."""
        return self._stream(self._stub.DumpBlockTables, dump_pb2.DumpBlockTablesRequest(pool=self.pool))

    # -- prefixes ----------------------------------------------------------------------------------------------------

    def walk_prefixes(
        self, *, below: str | None = None, max_depth: int | None = None, limit: int = 10_000, with_ids: bool = True
    ) -> AsyncIterator[prefix_pb2.WalkPrefixesResponse]:
        """The tree of cached prefixes, from one state."""
        request = prefix_pb2.WalkPrefixesRequest(
            pool=self.pool, below=below, max_depth=max_depth, limit=limit, with_ids=with_ids
        )
        return self._stream(self._stub.WalkPrefixes, request)

    async def lookup_prefix(self, prompt: prefix_pb2.Prompt) -> prefix_pb2.LookupPrefixResponse:
        """What a prompt would find in the cache, and why not more."""
        return await self._call(self._stub.LookupPrefix, prefix_pb2.LookupPrefixRequest(pool=self.pool, prompt=prompt))

    async def list_pins(self) -> pin_pb2.ListPinsResponse:
        """The pins."""
        return await self._call(self._stub.ListPins, pin_pb2.ListPinsRequest(pool=self.pool))

    async def pin(
        self,
        *,
        block: pin_pb2.BlockPin | None = None,
        prompt: prefix_pb2.Prompt | None = None,
        ttl_seconds: float | None = None,
        label: str | None = None,
    ) -> pin_pb2.PinResponse:
        """Keep a block, or every cached block of a prompt, from being evicted for a time."""
        request = pin_pb2.PinRequest(pool=self.pool, block=block, prompt=prompt, ttl_seconds=ttl_seconds, label=label)
        return await self._call(self._stub.Pin, request)

    async def unpin(self, *, pin_id: int | None = None, label: str | None = None) -> pin_pb2.UnpinResponse:
        """End a pin, or every pin of a label."""
        return await self._call(self._stub.Unpin, pin_pb2.UnpinRequest(pool=self.pool, pin_id=pin_id, label=label))

    async def evict(
        self,
        *,
        blocks: Iterable[block_pb2.BlockId] | None = None,
        count: int | None = None,
        tier: states_pb2.Tier = states_pb2.TIER_UNSPECIFIED,
        dry_run: bool = False,
    ) -> evict_pb2.EvictResponse:
        """Give up cached blocks: those named, or so many of the coldest of a tier."""
        named = None if blocks is None else evict_pb2.BlockList(ids=blocks)
        request = evict_pb2.EvictRequest(pool=self.pool, blocks=named, count=count, tier=tier, dry_run=dry_run)
        return await self._call(self._stub.Evict, request)

    async def flush(
        self, *, tier: states_pb2.Tier = states_pb2.TIER_UNSPECIFIED, dry_run: bool = False
    ) -> evict_pb2.FlushResponse:
        """Give up every cached block of a tier, or of both."""
        return await self._call(self._stub.Flush, evict_pb2.FlushRequest(pool=self.pool, tier=tier, dry_run=dry_run))

    # -- events and checks -------------------------------------------------------------------------------------------

    def watch_events(
        self, *, after: int | None = None, snapshot: bool = False, kinds: Iterable[Any] = ()
    ) -> AsyncIterator[watch_pb2.WatchEventsResponse]:
        """What happens in the pool, from now on, after a revision, or behind a snapshot."""
        first = watch_pb2.SnapshotFirst() if snapshot else None
        request = watch_pb2.WatchEventsRequest(pool=self.pool, after_revision=after, snapshot=first, kinds=kinds)
        return self._stream(self._stub.WatchEvents, request)

    async def verify(self, limit: int | None = None) -> verify_pb2.VerifyInvariantsResponse:
        """Check the pool against every invariant."""
        request = verify_pb2.VerifyInvariantsRequest(pool=self.pool, limit=limit)
        return await self._call(self._stub.VerifyInvariants, request)

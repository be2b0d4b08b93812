"""How an executor becomes a member: its processes made safe, its pool found or made, its name free."""

import asyncio

import structlog

from blockmgr.arena import Arena
from blockmgr.core.errors import AlreadyExists, IdentityMismatch, NotFound, Precondition
from blockmgr.core.states import ExecutorState
from blockmgr.identity import Shard
from blockmgr.service.errors import NotServing
from blockmgr.service.manager import Manager
from blockmgr.service.members import Lease, Member
from blockmgr.service.pools import ManagedPool, PoolSpec, create_pool, make_memory

POOLS_MADE = 0
"""Word of the redo log that counts the pools ever made: a pool's number is never used again."""

log = structlog.get_logger()


class Registrar:
    """Registers executors, one at a time."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._registering = asyncio.Lock()

    async def register(
        self, spec: PoolSpec, name: str, instance: bytes, lease: float, must_exist: bool
    ) -> tuple[ManagedPool, Member, bool, bool]:
        """Register an executor, making its pool if it is the first. Returns pool, member, created?, relabelled?

        The executor's processes are with the descriptor store before this returns. The same instance again gets the
        registration that it has. Raises ``IdentityMismatch``, ``AlreadyExists``, ``Precondition``, ``NotFound``.
        """
        async with self._registering:
            known = self._manager.members.find_instance(instance)
            if known is not None and not known.killed:
                return self._manager.pool_of(known.epoch), self._manager.hear(known.epoch), False, False
            return await self._register_new(spec, name, instance, lease, must_exist)

    async def _register_new(
        self, spec: PoolSpec, name: str, instance: bytes, lease: float, must_exist: bool
    ) -> tuple[ManagedPool, Member, bool, bool]:
        members, now = self._manager.members, asyncio.get_running_loop().time
        processes = members.introduced(instance)
        managed, created = await self._find_or_create(spec, must_exist)
        self._make_room(managed, name)
        self._ensure_memory_is_defined(managed)
        relabelled = managed.pool.relabel(spec.content.digest(), spec.content.describe())
        await self._manager.deposits.put_processes(instance, processes)
        epoch = managed.pool.register(name, instance, [process.pid for process in processes], lease)
        members.take(instance)
        member = Member(epoch, name, managed.name, instance, processes, Lease(lease, now()))
        members.by_epoch[epoch] = member
        log.info("executor registered", executor=name, pool=managed.name, epoch=epoch, processes=len(processes))
        return managed, member, created, relabelled

    async def _find_or_create(self, spec: PoolSpec, must_exist: bool) -> tuple[ManagedPool, bool]:
        pools, limit = self._manager.pools, self._manager.settings.max_pools
        if spec.name in pools and (why := pools[spec.name].device.lost()):
            self._manager.lose(pools[spec.name], why)
        if spec.name in pools:
            _ensure_same_pool(pools[spec.name], spec)
            return pools[spec.name], False
        if must_exist:
            raise NotFound(f"there is no pool {spec.name!r}; there are {sorted(pools) or 'none'}")
        if len(pools) >= limit:
            raise Precondition(f"{len(pools)} pools are in service, which is the limit (max_pools)")
        return await self._create(spec), True

    async def _create(self, spec: PoolSpec) -> ManagedPool:
        manager = self._manager
        number = manager.redo.word(POOLS_MADE) + 1
        manager.redo.store_word(POOLS_MADE, number)
        memory = await _made(spec)
        managed = create_pool(spec, number, memory, manager.redo, manager.encode, manager.publisher(spec.name))
        try:
            # Memory and ledger are safe with the store before anybody relies on them.
            await manager.deposits.put({name: [one] for name, one in managed.stored_descriptors().items()})
        except BaseException:
            managed.close()
            raise
        manager.take_in(managed)
        log.info(
            "pool made",
            pool=spec.name,
            arena=spec.arena,
            gpu=spec.gpu_uuid or None,
            blocks=managed.geometry.device_blocks,
            bytes=managed.device.size,
        )
        return managed

    def _make_room(self, managed: ManagedPool, name: str) -> None:
        """A name that is taken by a process already dead is free; one that is alive is not."""
        executors, manager = managed.pool.state.executors, self._manager
        for row in executors.named(name):
            if executors.state.get(row) not in (ExecutorState.STARTING, ExecutorState.LIVE):
                continue
            member = manager.members.by_epoch[executors.epoch.get(row)]
            if not member.has_died_in_part():
                raise AlreadyExists(f"an executor named {name!r} is alive under epoch {member.epoch}")
            manager.end(member, "a process of it has died")
        manager.bury_dead(managed.name, [name])

    def _ensure_memory_is_defined(self, managed: ManagedPool) -> None:
        """New memory of a GPU is zeroed by the one executor that is in the pool; if it dies before, by the next one."""
        if not managed.is_undefined:
            return
        for member in list(self._manager.members.by_epoch.values()):
            if member.pool != managed.name:
                continue
            if not member.is_dead():
                raise NotServing(f"pool {managed.name} is new, and executor {member.name!r} is zeroing its memory")
            self._manager.bury(member)


async def _made(spec: PoolSpec) -> tuple[Arena, bytes]:
    """Make a pool's memory off the loop. If the caller gives up meanwhile, nobody wants it any more."""
    making = asyncio.ensure_future(asyncio.to_thread(make_memory, spec))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(lambda made: made.exception() or made.result()[0].close())
        raise


def _ensure_same_pool(managed: ManagedPool, spec: PoolSpec) -> None:
    """A later executor takes the pool as it is, if its blocks have the same shape and lie on the same GPUs."""
    have, offered = managed.shape.digest(), spec.shape.digest()
    if have != offered:
        raise IdentityMismatch("shape digest", f"{have.hex()} ({managed.shape})", f"{offered.hex()} ({spec.shape})")
    if managed.shards != spec.shards:
        raise IdentityMismatch("placement", _places(managed.shards), _places(spec.shards))
    if managed.device.kind != spec.arena:
        raise IdentityMismatch("arena kind", managed.device.kind, spec.arena)


def _places(shards: tuple[Shard, ...]) -> str:
    return ", ".join(f"rank {shard.rank} on {shard.gpu_uuid or 'the host'}" for shard in shards)

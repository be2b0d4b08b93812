"""The block manager itself: its pools, its members, and what ties a registration to both. No gRPC in here."""

import asyncio
import os
from collections.abc import Callable

import structlog

from blockmgr.core.errors import AlreadyExists, IdentityMismatch, NotFound, Precondition, StaleEpoch
from blockmgr.core.events import Event
from blockmgr.core.messages import Adopted, Reply
from blockmgr.core.states import ExecutorState
from blockmgr.ledger.redo import RedoLog
from blockmgr.notify import Notifier, NotifyError
from blockmgr.processes import Process, find_older
from blockmgr.service.errors import NotServing
from blockmgr.service.members import Lease, Member, Members
from blockmgr.service.pools import ManagedPool, PoolSpec, adopt_pool, create_pool, pool_names, pool_number
from blockmgr.service.settings import ManagerSettings
from pagehold.blockmgr.v1 import session_pb2

log = structlog.get_logger()

POOLS_MADE = 0
"""Word of the redo log that counts the pools ever made: a pool's number is never used again."""


class Manager:
    """Owns pools, redo log and members. All of it belongs to one event loop, which is the only writer of any state."""

    def __init__(self, settings: ManagerSettings, notifier: Notifier, encode: Callable[[Reply, int], bytes]) -> None:
        """``encode`` makes a reply's bytes, given this manager's epoch."""
        self.settings = settings
        self.notifier = notifier
        self.members = Members()
        self.pools: dict[str, ManagedPool] = {}
        self._registering = asyncio.Lock()
        self.watchers: set[Callable[[str, list[Event]], None]] = set()
        """Told of each committed transaction's events, by pool."""
        self._encode = encode
        self._redo: RedoLog | None = None
        self.epoch = 0
        """Number of this incarnation of the manager; rises with every start. 0: not started."""
        self.longest_stall = 0.0
        """Longest time, in seconds, for which its loop came late."""

    # -- start and stop ----------------------------------------------------------------------------------------------

    async def start(self, descriptors: dict[str, list[int]]) -> None:
        """Take up everything that came back from the descriptor store, or start empty where nothing did.

        Raises what adopting a ledger raises: a manager that cannot take up its state must not serve.
        """
        redo = descriptors.pop("redo", None)
        self._redo = RedoLog.adopt(redo[0]) if redo else RedoLog.create()
        if not redo:
            await self.notifier.deposit("redo", [self._redo.descriptor])
        self.epoch = self._redo.next_epoch()
        for name in pool_names(descriptors):
            managed = adopt_pool(name, descriptors, self._redo, self._encode_reply, self._events_of(name))
            self.pools[name] = managed
            managed.ledger.manager_epoch = self.epoch
            self._take_up_members(managed, descriptors)
            log.info("pool taken up", pool=name, sequences=len(list(managed.pool.state.sequences.live())))
        self._drop_lost_transaction()
        self._drop_leftovers(descriptors)

    def _drop_lost_transaction(self) -> None:
        """A committed transaction of a pool that did not come back would keep every other pool from committing."""
        pending = self.redo.pending()
        if pending is not None:
            log.error("a committed transaction is lost with its pool", number=pending.number, key=pending.key.hex())
            self.redo.applied()

    def _take_up_members(self, managed: ManagedPool, descriptors: dict[str, list[int]]) -> None:
        """Hold the processes of every registration in the ledger again. Leases start anew: nobody could renew them."""
        executors, now = managed.pool.state.executors, asyncio.get_running_loop().time()
        for row in executors.rows():
            if executors.state.get(row) == ExecutorState.DEAD:
                continue
            instance = executors.instance.key(row)
            pidfds = descriptors.pop(_store_name(instance), [])
            processes = [Process.adopt(pidfd, "executor") for pidfd in pidfds]
            if not processes:
                # Nobody kept the descriptors: an id proves a death only if no process that old has it any more.
                since = executors.registered.get(row) / 1e6
                processes = [p for p in (find_older(pid, since) for pid in executors.process_ids(row)) if p is not None]
            lease = Lease(self.settings.lease_seconds, now)
            epoch, name = executors.epoch.get(row), executors.name_of(row)
            member = Member(epoch, name, managed.name, instance, processes, lease, gone=not processes)
            self.members.by_epoch[epoch] = member

    def _drop_leftovers(self, descriptors: dict[str, list[int]]) -> None:
        """Descriptors of executors that are proven dead and of nothing that is known any more."""
        for name, left in descriptors.items():
            log.info("descriptor dropped", name=name, count=len(left))
            for descriptor in left:
                os.close(descriptor)
            self._forget_deposit(name)

    async def deposit_everything(self) -> None:
        """Give a new descriptor store all that the old one had: memory, ledgers, redo log and every executor's processes."""
        kept: dict[str, list[int]] = {}
        for managed in self.pools.values():
            kept |= {name: [descriptor] for name, descriptor in managed.stored_descriptors().items()}
        for member in self.members.by_epoch.values():
            if member.processes:
                kept[_store_name(member.instance)] = [process.pidfd for process in member.processes]
        # Last: whoever finds it in the store takes it that everything else is there too.
        kept["redo"] = [self.redo.descriptor]
        for name, descriptors in kept.items():
            await self.notifier.deposit(name, descriptors)
        log.warning("everything deposited again", descriptors=len(kept))

    async def _deposit(self, name: str, descriptors: list[int]) -> None:
        """Make something safe with the store. ``NotServing`` while that is being restarted."""
        try:
            await self.notifier.deposit(name, descriptors)
        except NotifyError as error:
            raise NotServing(f"nothing can be made safe just now: {error}") from error

    def _forget_deposit(self, name: str) -> None:
        """Have the store drop something. Where there is no store just now, the next one never gets it."""
        try:
            self.notifier.remove_descriptor(name, timeout=0.0)
        except NotifyError as error:
            log.warning("a deposit that nobody needs is left", name=name, error=str(error))

    def close(self) -> None:
        """Let go of everything; the descriptor store and the executors keep what they hold."""
        self.members.close()
        for managed in self.pools.values():
            managed.close()
        if self._redo is not None:
            self._redo.close()

    # -- finding -----------------------------------------------------------------------------------------------------

    @property
    def redo(self) -> RedoLog:
        """The redo log, once started."""
        if self._redo is None:
            raise RuntimeError("the manager is not started")
        return self._redo

    def pool(self, name: str | None = None) -> ManagedPool:
        """A pool by name; without one, the only pool there is."""
        if name:
            if name not in self.pools:
                raise NotFound(f"there is no pool {name!r}; there are {sorted(self.pools) or 'none'}")
            return self.pools[name]
        if len(self.pools) != 1:
            raise NotFound(f"name a pool: there are {sorted(self.pools) or 'none yet'}")
        return next(iter(self.pools.values()))

    def pool_of(self, epoch: int) -> ManagedPool:
        """The pool that an executor's epoch belongs to."""
        for managed in self.pools.values():
            if managed.number == pool_number(epoch):
                return managed
        raise StaleEpoch(epoch)

    def hear(self, epoch: int) -> Member:
        """An executor gave a sign of life: renew its lease. ``StaleEpoch`` if its registration is over."""
        member = self.members.by_epoch.get(epoch)
        if member is None or member.killed:
            raise StaleEpoch(epoch)
        self.pool_of(epoch).pool.state.executors.find(epoch)
        member.lease.renew(asyncio.get_running_loop().time())
        return member

    def awaits_report(self, epoch: int) -> bool:
        """Whether nothing has been heard yet, since this manager started, of the steps that an executor has launched."""
        state = self.pool_of(epoch).pool.state
        return state.executors.find(epoch) in state.blocks.fences.unheard

    def _encode_reply(self, reply: Reply) -> bytes:
        return self._encode(reply, self.epoch)

    def _events_of(self, name: str) -> Callable[[list[Event]], None]:
        def publish(events: list[Event]) -> None:
            for watcher in list(self.watchers):
                watcher(name, events)

        return publish

    # -- registration ------------------------------------------------------------------------------------------------

    async def register(
        self, spec: PoolSpec, name: str, instance: bytes, lease: float, must_exist: bool
    ) -> tuple[ManagedPool, Member, bool, bool]:
        """Register an executor, making its pool if it is the first. Returns pool, member, created?, relabelled?

        The executor's processes are with the descriptor store before this returns. The same instance again gets the
        registration that it has. Raises ``IdentityMismatch``, ``AlreadyExists``, ``Precondition``, ``NotFound``.
        """
        async with self._registering:
            known = self.members.find_instance(instance)
            if known is not None and not known.killed:
                return self.pool_of(known.epoch), self.hear(known.epoch), False, False
            return await self._register_new(spec, name, instance, lease, must_exist)

    async def _register_new(
        self, spec: PoolSpec, name: str, instance: bytes, lease: float, must_exist: bool
    ) -> tuple[ManagedPool, Member, bool, bool]:
        processes = self.members.introduced(instance)
        managed, created = await self._find_or_create(spec, must_exist)
        self._make_room(managed, name)
        relabelled = managed.pool.relabel(spec.content.digest(), spec.content.describe())
        await self._deposit(_store_name(instance), [process.pidfd for process in processes])
        epoch = managed.pool.register(name, instance, [process.pid for process in processes])
        self.members.take(instance)
        member = Member(epoch, name, managed.name, instance, processes, Lease(lease, asyncio.get_running_loop().time()))
        self.members.by_epoch[epoch] = member
        log.info("executor registered", executor=name, pool=managed.name, epoch=epoch, processes=len(processes))
        return managed, member, created, relabelled

    async def _find_or_create(self, spec: PoolSpec, must_exist: bool) -> tuple[ManagedPool, bool]:
        managed = self.pools.get(spec.name)
        if managed is not None:
            _same_pool(managed, spec)
            return managed, False
        if must_exist:
            raise NotFound(f"there is no pool {spec.name!r}; there are {sorted(self.pools) or 'none'}")
        if len(self.pools) >= self.settings.max_pools:
            raise Precondition(f"{len(self.pools)} pools are in service, which is the limit (max_pools)")
        number = self.redo.word(POOLS_MADE) + 1
        self.redo.store_word(POOLS_MADE, number)
        managed = create_pool(spec, number, self.redo, self._encode_reply, self._events_of(spec.name))
        managed.ledger.manager_epoch = self.epoch
        managed.pool.state.archive.keep_seconds = self.settings.finished_seconds
        try:
            # Memory and ledger are safe with the store before anybody relies on them.
            for stored, descriptor in managed.stored_descriptors().items():
                await self._deposit(stored, [descriptor])
        except BaseException:
            managed.close()
            raise
        self.pools[spec.name] = managed
        log.info("pool made", pool=spec.name, blocks=managed.geometry.device_blocks, bytes=managed.device.size)
        return managed, True

    def _make_room(self, managed: ManagedPool, name: str) -> None:
        """A name that is taken by a process already dead is free; one that is alive is not."""
        executors = managed.pool.state.executors
        for row in executors.named(name):
            if executors.state.get(row) not in (ExecutorState.STARTING, ExecutorState.LIVE):
                continue
            member = self.members.by_epoch[executors.epoch.get(row)]
            if not member.has_died_in_part():
                raise AlreadyExists(f"an executor named {name!r} is alive under epoch {member.epoch}")
            self.end(member, "a process of it has died")
        for member in list(self.members.by_epoch.values()):
            if member.pool == managed.name and member.name == name and member.is_dead():
                self.bury(member)

    # -- ends --------------------------------------------------------------------------------------------------------

    def end(self, member: Member, why: str) -> None:
        """A registration is over: refuse its messages and kill what is left of it. It is buried once proven dead."""
        self.pool_of(member.epoch).pool.fence(member.epoch, why)
        log.warning("executor fenced", executor=member.name, epoch=member.epoch, why=why)
        if not self.settings.test_withhold_kill:
            member.kill()
        member.killed = True
        if member.hang_up is not None:
            member.hang_up(StaleEpoch(member.epoch))

    def bury(self, member: Member) -> None:
        """Every process of a member is dead: let its sequences be adopted and its blocks come back."""
        managed = self.pool_of(member.epoch)
        managed.pool.fence(member.epoch, "its processes are gone")
        managed.pool.bury(member.epoch)
        del self.members.by_epoch[member.epoch]
        member.close()
        self._forget_deposit(_store_name(member.instance))
        log.info("executor proven dead", executor=member.name, epoch=member.epoch)

    def unregister(self, epoch: int, leave_sequences: bool) -> int:
        """An executor leaves in good order, with nothing in flight. Returns how many sequences wait to be adopted."""
        member = self.hear(epoch)
        managed = self.pool_of(epoch)
        state = managed.pool.state
        row = state.executors.find(epoch)
        if state.executors.launched.get(row) != state.executors.completed.get(row):
            launched, completed = state.executors.launched.get(row), state.executors.completed.get(row)
            raise Precondition(f"step {launched} is launched and only {completed} is completed: report the rest first")
        waiting = len(state.sequences.by_owner.get(row, ()))
        if waiting and not leave_sequences:
            raise Precondition(f"{waiting} sequences are alive: finish them, or say that they shall be left")
        member.killed = True
        self.bury(member)
        return waiting

    def adopt(self, epoch: int, names: list[str]) -> list[Adopted]:
        """Give a live executor the sequences of dead ones; others' only once their own successor had its time."""
        self.hear(epoch)
        managed = self.pool_of(epoch)
        executors = managed.pool.state.executors
        own = executors.name_of(executors.find(epoch))
        for name in names:
            if name != own and not self.is_abandoned(managed, name):
                raise Precondition(f"the sequences of {name!r} still wait for a successor of that name")
        for member in list(self.members.by_epoch.values()):
            if member.pool == managed.name and member.name in (names or [own]) and member.is_dead():
                self.bury(member)
        return managed.pool.adopt(epoch, names or None)

    def waiting(self, managed: ManagedPool, name: str) -> int:
        """Sequences of dead executors of a name, which wait to be adopted."""
        state = managed.pool.state
        dead = [row for row in state.executors.named(name) if state.executors.state.get(row) == ExecutorState.DEAD]
        return sum(len(state.sequences.by_owner.get(row, ())) for row in dead)

    def is_abandoned(self, managed: ManagedPool, name: str) -> bool:
        """Whether nobody of a dead executor's name has come for its sequences in time. Time stands still while one loads."""
        executors = managed.pool.state.executors
        rows = executors.named(name)
        if any(executors.state.get(row) == ExecutorState.STARTING for row in rows):
            return False
        now = managed.pool.state.clock.now()
        waited = [
            now - executors.orphaned.get(row) / 1e6 for row in rows if executors.state.get(row) == ExecutorState.DEAD
        ]
        return bool(waited) and min(waited) > self.settings.adoption_seconds

    def nudge(self, pool: str, reason: session_pb2.NudgeReason, epoch: int | None = None) -> None:
        """Let the executors of a pool, or one of them, know that a turn would be worth their while."""
        for member in self.members.by_epoch.values():
            if member.pool == pool and epoch in (None, member.epoch) and not member.nudged:
                member.nudged = True
                member.say(session_pb2.SessionResponse(nudge=session_pb2.Nudge(reasons=[reason])))


def _store_name(instance: bytes) -> str:
    """Name under which an executor's processes lie in the descriptor store."""
    return f"executor.{instance.hex()}"


def _same_pool(managed: ManagedPool, spec: PoolSpec) -> None:
    """A later executor takes the pool as it is, if its blocks have the same shape and lie on the same GPUs."""
    have, offered = managed.shape.digest(), spec.shape.digest()
    if have != offered:
        raise IdentityMismatch("shape digest", f"{have.hex()} ({managed.shape})", f"{offered.hex()} ({spec.shape})")
    if managed.shards != spec.shards:
        raise IdentityMismatch("placement", str(managed.shards), str(spec.shards))
    if managed.device.kind != spec.arena:
        raise IdentityMismatch("arena kind", managed.device.kind, spec.arena)

"""The block manager itself: its pools, its members, and what ties a registration to both. No gRPC in here."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from blockmgr.core.errors import NotFound, PoolLost, Precondition, StaleEpoch
from blockmgr.core.events import Event
from blockmgr.core.messages import Adopted, Reply
from blockmgr.core.states import ExecutorState
from blockmgr.ledger.redo import RedoLog
from blockmgr.notify import Notifier
from blockmgr.service.deposits import Deposits
from blockmgr.service.members import Member, Members
from blockmgr.service.pools import ManagedPool, pool_number
from blockmgr.service.settings import ManagerSettings
from pagehold.blockmgr.v1 import session_pb2

log = structlog.get_logger()


class Manager:
    """Owns pools, redo log and members. All of it belongs to one event loop, which is the only writer of any state."""

    def __init__(self, settings: ManagerSettings, notifier: Notifier, encode: Callable[[Reply, int], bytes]) -> None:
        """``encode`` makes a reply's bytes, given this manager's epoch."""
        self.settings = settings
        self.notifier = notifier
        self.deposits = Deposits(notifier)
        self.members = Members()
        self.pools: dict[str, ManagedPool] = {}
        self.watchers: set[Callable[[str, Sequence[Event]], None]] = set()
        """Told of each committed transaction's events, by pool."""
        self._lost: dict[int, str] = {}
        """Why pools are no more, by their number: their executors are told when they next say something."""
        self._encode = encode
        self._redo: RedoLog | None = None
        self.epoch = 0
        """Number of this incarnation of the manager; rises with every start. 0: not started."""
        self.longest_stall = 0.0
        """Longest time, in seconds, for which its loop came late."""

    # -- start and stop ----------------------------------------------------------------------------------------------

    def begin(self, redo: RedoLog) -> None:
        """Start, as one more incarnation, with a redo log, which is owned from now on; pools are then taken in."""
        self._redo = redo
        self.epoch = redo.next_epoch()

    def take_in(self, managed: ManagedPool) -> None:
        """Serve a pool from now on, one just made or one that came back. Owns it."""
        managed.ledger.manager_epoch = self.epoch
        managed.pool.state.archive.keep_seconds = self.settings.finished_seconds
        self.pools[managed.name] = managed

    async def deposit_everything(self) -> None:
        """Give a new descriptor store all that the old one had: memory, ledgers, redo log and every executor's processes."""
        await self.deposits.put_everything(self.redo, self.pools.values(), self.members.by_epoch.values())

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
        raise self._stale(epoch)

    def hear(self, epoch: int) -> Member:
        """An executor gave a sign of life: renew its lease. ``StaleEpoch`` if its registration is over."""
        member = self.members.by_epoch.get(epoch)
        if member is None or member.killed:
            raise self._stale(epoch)
        self.pool_of(epoch).pool.state.executors.find(epoch)
        member.lease.renew(asyncio.get_running_loop().time())
        return member

    def _stale(self, epoch: int) -> StaleEpoch:
        why = self._lost.get(pool_number(epoch))
        return StaleEpoch(epoch) if why is None else PoolLost(epoch, why)

    def awaits_report(self, epoch: int) -> bool:
        """Whether nothing has been heard yet, since this manager started, of the steps that an executor has launched."""
        state = self.pool_of(epoch).pool.state
        return state.executors.find(epoch) in state.blocks.fences.unheard

    # -- what pools need of their manager ----------------------------------------------------------------------------

    def encode(self, reply: Reply) -> bytes:
        """A reply as it is sent and kept, under this manager's epoch."""
        return self._encode(reply, self.epoch)

    def publisher(self, name: str) -> Callable[[Sequence[Event]], None]:
        """What tells everybody who watches of the events of a pool."""

        def publish(events: Sequence[Event]) -> None:
            for watcher in list(self.watchers):
                watcher(name, events)

        return publish

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
        self.deposits.forget_processes(member)
        log.info("executor proven dead", executor=member.name, epoch=member.epoch)

    def bury_dead(self, pool: str, names: list[str]) -> None:
        """Bury now, ahead of the next look at everybody, whoever of these names is dead."""
        for member in list(self.members.by_epoch.values()):
            if member.pool == pool and member.name in names and member.is_dead():
                self.bury(member)

    def lose(self, managed: ManagedPool, why: str) -> None:
        """A pool's memory is gone: so are its sequences, and its executors are told. Under its name another may be made."""
        self.note_lost(managed.name, managed.number, why)
        stored = managed.stored_descriptors()
        for member in [member for member in self.members.by_epoch.values() if member.pool == managed.name]:
            if member.hang_up is not None:
                member.hang_up(PoolLost(member.epoch, why))
            del self.members.by_epoch[member.epoch]
            member.close()
            self.deposits.forget_processes(member)
        del self.pools[managed.name]
        managed.close()
        for name in stored:
            self.deposits.forget(name)

    def note_lost(self, name: str, number: int, why: str) -> None:
        """Know why a pool is no more, for those who ask."""
        self._lost[number] = why
        log.error("pool lost: its memory is gone, and its sequences with it", pool=name, why=why)

    def trim(self, managed: ManagedPool) -> None:
        """Give back memory that lies behind a pool's capacity, as far as nobody can be touching it."""
        mapped = any(member.pool == managed.name for member in self.members.by_epoch.values())
        for name in managed.trim_memory(mapped):
            self.deposits.forget(name)

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
        self.bury_dead(managed.name, names or [own])
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

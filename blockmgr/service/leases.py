"""Who is alive: leases and probes, deaths proven by descriptor, orphans whose time is over.

One task walks over all members a few times a second. It measures its own lateness: while the manager could not run,
nobody's lease did.
"""

import asyncio

import structlog

from blockmgr.core.states import ExecutorState
from blockmgr.service.manager import Manager
from blockmgr.service.members import Member
from blockmgr.service.pools import ManagedPool
from pagehold.blockmgr.v1 import session_pb2

log = structlog.get_logger()

LATE = 0.5
"""Seconds of the manager's own lateness from which on leases are extended by it."""

HOUSEKEEPING_SECONDS = 1.0


class LeaseWatch:
    """The task that ends, buries and expires. It decides by the clock only what nothing else can tell."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._interval = min(0.25, manager.settings.lease_seconds / 8)
        self._next_housekeeping = 0.0
        self._told_of: set[int] = set()

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(self._interval)
            now = loop.time()
            gap = now - last - self._interval
            last = now
            self._manager.longest_stall = max(self._manager.longest_stall, gap)
            if gap > LATE:
                log.warning("manager was away", seconds=round(gap, 2))
                for member in self._manager.members.by_epoch.values():
                    member.lease.extend(gap)
            try:
                self._watch(now)
            except Exception:
                # Without this task nobody dead would ever be buried: whatever went wrong, it goes on.
                log.exception("a round of the lease watch failed")

    def _watch(self, now: float) -> None:
        for managed in list(self._manager.pools.values()):
            if why := managed.device.lost():
                self._manager.lose(managed, why)
        for member in list(self._manager.members.by_epoch.values()):
            self._look_at(member, now)
        if now >= self._next_housekeeping:
            self._next_housekeeping = now + HOUSEKEEPING_SECONDS
            self._keep_house()

    def _look_at(self, member: Member, now: float) -> None:
        if member.is_dead():
            self._manager.bury(member)
        elif member.killed:
            return
        elif member.has_died_in_part():
            self._manager.end(member, "a process of it has died")
        elif member.lease.is_over(now):
            self._probe_or_end(member, now)

    def _probe_or_end(self, member: Member, now: float) -> None:
        """A lease that has run out kills only if a probe sent since then stays unanswered."""
        patience = self._manager.settings.probe_seconds
        if member.lease.probed is None:
            member.lease.probed = now
            member.say(session_pb2.SessionResponse(probe=session_pb2.Probe(seconds_left=patience)))
        elif now - member.lease.probed > patience:
            self._manager.end(member, f"no sign of life for {now - member.lease.heard:.1f} s and none after a probe")

    def _keep_house(self) -> None:
        self._manager.members.forget_strangers()
        for managed in self._manager.pools.values():
            managed.pool.tick()
            self._manager.trim(managed)
            self._see_to_orphans(managed)

    def _see_to_orphans(self, managed: ManagedPool) -> None:
        """Offer sequences that their own successor did not come for, and end them when nobody does."""
        executors, settings = managed.pool.state.executors, self._manager.settings
        for row in executors.rows():
            if executors.state.get(row) != ExecutorState.DEAD:
                continue
            epoch, name = executors.epoch.get(row), executors.name_of(row)
            if not self._manager.is_abandoned(managed, name):
                continue
            if epoch not in self._told_of:
                self._told_of.add(epoch)
                self._manager.nudge(managed.name, session_pb2.NUDGE_REASON_ORPHANS)
            waited = managed.pool.state.clock.now() - executors.orphaned.get(row) / 1e6
            if waited > settings.adoption_seconds + settings.orphan_seconds:
                ended = managed.pool.end_orphans(epoch)
                log.warning("sequences ended, since nobody adopted them", executor=name, epoch=epoch, sequences=ended)

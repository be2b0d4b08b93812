"""How a manager starts: with all that came back from the descriptor store, or empty where nothing did."""

import asyncio
import os

import structlog

from blockmgr.core.states import ExecutorState
from blockmgr.ledger.redo import RedoLog
from blockmgr.processes import Process, find_older
from blockmgr.service.deposits import REDO, UNKNOWN_ROLE, stored_processes
from blockmgr.service.kept_pools import MemoryLost, adopt_pool, pool_names
from blockmgr.service.manager import Manager
from blockmgr.service.members import Lease, Member
from blockmgr.service.pools import ManagedPool

log = structlog.get_logger()


async def take_up(manager: Manager, descriptors: dict[str, list[int]]) -> None:
    """Start a manager. It owns the ``descriptors``, by name, from now on.

    Raises what adopting a ledger raises: a manager that cannot take up its state must not serve.
    """
    redo = descriptors.pop(REDO, None)
    manager.begin(RedoLog.adopt(redo[0]) if redo else RedoLog.create())
    if not redo:
        await manager.notifier.deposit(REDO, [manager.redo.descriptor])
    for name in pool_names(descriptors):
        try:
            managed = adopt_pool(name, descriptors, manager.redo, manager.encode, manager.publisher(name))
        except MemoryLost as error:
            manager.note_lost(name, error.number, str(error))
            manager.deposits.forget(f"ledger.{name}")
            continue
        manager.take_in(managed)
        _take_up_members(manager, managed, descriptors)
        log.info("pool taken up", pool=name, sequences=len(list(managed.pool.state.sequences.live())))
    _drop_lost_transaction(manager.redo)
    _drop_leftovers(manager, descriptors)


def _take_up_members(manager: Manager, managed: ManagedPool, descriptors: dict[str, list[int]]) -> None:
    """Hold the processes of every registration in the ledger again. Leases start anew: nobody could renew them."""
    executors, now = managed.pool.state.executors, asyncio.get_running_loop().time()
    for row in executors.rows():
        if executors.state.get(row) == ExecutorState.DEAD:
            continue
        instance = executors.instance.key(row)
        processes = _processes(manager, managed, row, descriptors)
        lease = Lease(executors.lease.get(row) or manager.settings.lease_seconds, now)
        epoch, name = executors.epoch.get(row), executors.name_of(row)
        manager.members.by_epoch[epoch] = Member(
            epoch, name, managed.name, instance, processes, lease, gone=not processes
        )


def _processes(manager: Manager, managed: ManagedPool, row: int, descriptors: dict[str, list[int]]) -> list[Process]:
    """A registration's processes by descriptor: all that were written down, or, where some did not come back, all that are
    not proven gone.
    """
    executors = managed.pool.state.executors
    instance, pids = executors.instance.key(row), executors.process_ids(row)
    stored = stored_processes(instance, descriptors)
    if len(stored) == len(pids):
        return stored
    for process in stored:
        process.close()
    # An id proves a death only if no process that old has it any more.
    since, roles = executors.registered.get(row) / 1e6, manager.members.introduced_roles(instance)
    found = (find_older(pid, since, roles.get(pid, UNKNOWN_ROLE)) for pid in pids)
    return [process for process in found if process is not None]


def _drop_lost_transaction(redo: RedoLog) -> None:
    """A committed transaction of a pool that did not come back would keep every other pool from committing."""
    pending = redo.pending()
    if pending is not None:
        log.error("a committed transaction is lost with its pool", number=pending.number, key=pending.key.hex())
        redo.applied()


def _drop_leftovers(manager: Manager, descriptors: dict[str, list[int]]) -> None:
    """Descriptors of executors that are proven dead and of nothing that is known any more."""
    for name, left in descriptors.items():
        log.info("descriptor dropped", name=name, count=len(left))
        for descriptor in left:
            os.close(descriptor)
        manager.deposits.forget(name)

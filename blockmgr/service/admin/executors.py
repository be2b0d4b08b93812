"""Executors as their pool and the manager know them; draining and fencing them by hand."""

import numpy as np

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.state import PoolState
from blockmgr.core.states import ExecutorState
from blockmgr.service.admin.identifiers import uuid_text
from blockmgr.service.admin.numbers import EXECUTOR_STATE
from blockmgr.service.admin.tables import TableEntries, entries_of, live_slots
from blockmgr.service.manager import Manager
from blockmgr.service.members import Member
from blockmgr.service.pools import ManagedPool
from pagehold.admin.v1 import executor_pb2, pool_pb2
from pagehold.blockmgr.v1 import session_pb2

WHY_BYTES = 256


def list_executors(manager: Manager, managed: ManagedPool, now: float) -> list[executor_pb2.Executor]:
    """Every registration that still matters, by epoch. ``now`` is the loop's time."""
    state = managed.pool.state
    entries = entries_of(state, live_slots(state))
    rows = sorted(state.executors.rows(), key=state.executors.epoch.get)
    return [_executor(manager, state, row, entries, now) for row in rows]


def _executor(manager: Manager, state: PoolState, row: int, entries: TableEntries, now: float) -> executor_pb2.Executor:
    executors = state.executors
    tickets = np.fromiter(state.tickets.rows, dtype=np.int64, count=len(state.tickets.rows))
    drained = executors.drain.get(row) or state.columns["pool.drain"].get(0)
    answer = executor_pb2.Executor(
        name=executors.name_of(row),
        epoch=executors.epoch.get(row),
        instance=uuid_text(executors.instance.key(row)),
        state=EXECUTOR_STATE[executors.state.get(row)],
        registered=executors.registered.get(row) / 1e6,
        last_number=executors.number.get(row),
        launched_step=executors.launched.get(row),
        completed_step=executors.completed.get(row),
        sequences=len(state.sequences.by_owner.get(row, ())),
        blocks=_device_blocks(state, row, entries),
        pending_tickets=int(np.count_nonzero(state.tickets.executor.flat[tickets] == row)),
        draining=bool(drained),
        solo=executors.solo.get(row) or None,
    )
    if executors.state.get(row) == ExecutorState.DEAD:
        answer.died = executors.orphaned.get(row) / 1e6
    member = manager.members.by_epoch.get(answer.epoch)
    _add_processes(answer, member, executors.process_ids(row))
    if member is not None:
        answer.lease_seconds_left = member.lease.heard + member.lease.seconds - now
        answer.idle_seconds = max(0.0, now - member.lease.heard)
        answer.session_open = member.tell is not None
    return answer


def _device_blocks(state: PoolState, row: int, entries: TableEntries) -> int:
    mine = state.sequences.owner.flat[entries.slots] == row
    named = np.zeros(state.geometry.total_blocks, dtype=bool)
    named[entries.block[mine[entries.place]]] = True
    return int(np.count_nonzero(named[: state.geometry.host_base]))


def _add_processes(answer: executor_pb2.Executor, member: Member | None, pids: list[int]) -> None:
    """The processes held by descriptor; where none are, those that were written down, which are dead."""
    if member is not None and member.processes:
        for process in member.processes:
            answer.processes.add(pid=max(process.pid, 0), role=process.role, dead=process.is_dead)
    else:
        for pid in pids:
            answer.processes.add(pid=pid, dead=True)


def drain(
    manager: Manager, managed: ManagedPool, request: pool_pb2.DrainRequest | pool_pb2.UndrainRequest, on: bool
) -> int:
    """Have an executor, or the whole pool, admit nothing new; or admit again. Returns how many sequences live there."""
    epoch = request.executor_epoch if request.HasField("executor_epoch") else None
    managed.pool.drain(on, epoch)
    manager.nudge(managed.name, session_pb2.NUDGE_REASON_DRAIN, epoch)
    state = managed.pool.state
    if epoch is None:
        return len(live_slots(state))
    return len(state.sequences.by_owner.get(state.executors.find(epoch), ()))


def fence_executor(
    manager: Manager, managed: ManagedPool, request: executor_pb2.FenceRequest
) -> tuple[ExecutorState, int]:
    """Revoke an executor's epoch and kill it. Returns its state, and how many processes were sent a kill.

    Raises ``NotFound`` if no executor of the pool has the epoch. One that is revoked already is killed again.
    """
    why = request.why if request.HasField("why") else "fenced by an operator"
    if len(why.encode()) > WHY_BYTES:
        raise InvalidMessage("why", f"{len(why.encode())} bytes long", f"must have at most {WHY_BYTES}")
    if not request.executor_epoch:
        raise InvalidMessage("executor_epoch", 0, "the epoch of an executor must be given")
    executors = managed.pool.state.executors
    row = executors.by_epoch(request.executor_epoch)
    member, killed = manager.members.by_epoch.get(request.executor_epoch), 0
    if member is not None:
        killed = sum(not process.is_dead for process in member.processes)
        manager.end(member, why)
    return ExecutorState(executors.state.get(row)), killed

"""What lies with the descriptor store, under which names: all that has to outlive the manager's process."""

from collections.abc import Iterable, Sequence

import structlog

from blockmgr.ledger.redo import RedoLog
from blockmgr.notify import Notifier, NotifyError
from blockmgr.processes import Process
from blockmgr.service.errors import NotServing
from blockmgr.service.members import Member
from blockmgr.service.pools import ManagedPool

REDO = "redo"
"""Name of the redo log. It is deposited last: whoever finds it in the store takes it that everything else is there."""

log = structlog.get_logger()


class Deposits:
    """Puts copies of descriptors into the store and has them dropped. What is deposited stays its owner's."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    async def put(self, name: str, descriptors: list[int]) -> None:
        """Make something safe with the store. ``NotServing`` while that is being restarted."""
        try:
            await self._notifier.deposit(name, descriptors)
        except NotifyError as error:
            raise NotServing(f"nothing can be made safe just now: {error}") from error

    async def put_processes(self, instance: bytes, processes: Sequence[Process]) -> None:
        """Make the descriptors of an executor's processes safe, by which its death is proven."""
        await self.put(processes_name(instance), [process.pidfd for process in processes])

    async def put_everything(self, redo: RedoLog, pools: Iterable[ManagedPool], members: Iterable[Member]) -> None:
        """Give a new descriptor store all that the old one had. ``NotifyError`` if it does not take it."""
        kept: dict[str, list[int]] = {}
        for managed in pools:
            kept |= {name: [descriptor] for name, descriptor in managed.stored_descriptors().items()}
        for member in members:
            if member.processes:
                kept[processes_name(member.instance)] = [process.pidfd for process in member.processes]
        kept[REDO] = [redo.descriptor]
        for name, descriptors in kept.items():
            await self._notifier.deposit(name, descriptors)
        log.warning("everything deposited again", descriptors=len(kept))

    def forget(self, name: str) -> None:
        """Have the store drop something. Where there is no store just now, the next one never gets it."""
        try:
            self._notifier.remove_descriptor(name, timeout=0.0)
        except NotifyError as error:
            log.warning("a deposit that nobody needs is left", name=name, error=str(error))

    def forget_processes(self, member: Member) -> None:
        """Have the store drop the processes of an executor whose death is written down."""
        self.forget(processes_name(member.instance))


def processes_name(instance: bytes) -> str:
    """Name under which an executor's processes are stored."""
    return f"executor.{instance.hex()}"

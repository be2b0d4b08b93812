"""What lies with the descriptor store, under which names: all that has to outlive the manager's process."""

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote, unquote

import structlog

from blockmgr.ledger.redo import RedoLog
from blockmgr.notify import Notifier, NotifyError
from blockmgr.processes import Process
from blockmgr.service.errors import NotServing
from blockmgr.service.members import Member
from blockmgr.service.pools import ManagedPool

REDO = "redo"
"""Name of the redo log. It is deposited last: whoever finds it in the store takes it that everything else is there."""

UNKNOWN_ROLE = "executor"
"""Role of a process of which nothing else is known."""

LONGEST_ROLE = 200
"""Characters of a stored name that a role may take."""

log = structlog.get_logger()


class Deposits:
    """Puts copies of descriptors into the store and has them dropped. What is deposited stays its owner's."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    async def put(self, named: Mapping[str, list[int]]) -> None:
        """Make what the store has nothing of yet safe with it: all of it or none.

        Raises ``NotServing`` while it is being restarted.
        """
        try:
            for name, descriptors in named.items():
                await self._notifier.deposit(name, descriptors)
        except BaseException as error:
            # What it took of this must not be taken for what comes under these names next.
            for name in named:
                self.forget(name)
            if isinstance(error, NotifyError):
                raise NotServing(f"nothing can be made safe just now: {error}") from error
            raise

    async def put_processes(self, instance: bytes, processes: Sequence[Process]) -> None:
        """Make the descriptors of an executor's processes safe, by which its death is proven."""
        await self.put(by_name(instance, processes))

    async def put_everything(self, redo: RedoLog, pools: Iterable[ManagedPool], members: Iterable[Member]) -> None:
        """Give a new descriptor store all that the old one had. ``NotifyError`` if it does not take it."""
        kept: dict[str, list[int]] = {}
        for managed in pools:
            kept |= {name: [descriptor] for name, descriptor in managed.stored_descriptors().items()}
        for member in members:
            kept |= by_name(member.instance, member.processes)
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
        for name in by_name(member.instance, member.processes):
            self.forget(name)


def by_name(instance: bytes, processes: Sequence[Process]) -> dict[str, list[int]]:
    """An executor's pidfds by the name under which they are stored, which says what role each process has."""
    named: dict[str, list[int]] = {}
    for process in processes:
        named.setdefault(f"{_prefix(instance)}.{_quoted(process.role)}", []).append(process.pidfd)
    return named


def stored_processes(instance: bytes, descriptors: dict[str, list[int]]) -> list[Process]:
    """Take an executor's processes out of what came back from the store. The caller owns them."""
    prefix = _prefix(instance)
    return [
        Process.adopt(pidfd, unquote(name.removeprefix(prefix).removeprefix("."), errors="replace") or UNKNOWN_ROLE)
        for name in [name for name in descriptors if name == prefix or name.startswith(f"{prefix}.")]
        for pidfd in descriptors.pop(name)
    ]


def _prefix(instance: bytes) -> str:
    return f"executor.{instance.hex()}"


def _quoted(role: str) -> str:
    """A role as it may stand in a name: any text may be one, a name has few characters and a limit."""
    return re.sub("%.?$", "", quote(role, safe="")[:LONGEST_ROLE])

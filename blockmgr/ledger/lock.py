"""One manager per ledger: a lock that lives exactly as long as the process that took it."""

import fcntl
import os
from typing import Self

from blockmgr.ledger.errors import LedgerInUse
from blockmgr.ledger.memory import SharedMemory, reopen


class ManagerLock:
    """The exclusive lock on a piece of shared memory.

    It belongs to a file description of its own, which is passed to nobody: a copy of the memory's descriptor in the
    keeper or in an executor does not hold it, and the kernel drops it when the manager dies, however it dies.
    """

    def __init__(self, descriptor: int) -> None:
        """Take over a descriptor that nobody else has; ``take`` is the way in."""
        self._descriptor = descriptor

    @classmethod
    def take(cls, memory: SharedMemory, holder: int, what: str) -> Self:
        """Lock ``memory`` and leave this process's id in the word at offset ``holder``. Never waits.

        Raises:
            LedgerInUse: another manager has it; ``what`` is named.
        """
        lock = cls(reopen(memory.descriptor, os.O_RDWR))
        try:
            fcntl.flock(lock._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            memory.store_word(holder, os.getpid())
        except BlockingIOError:
            lock.release()
            raise LedgerInUse(what, memory.word(holder)) from None
        except BaseException:
            lock.release()
            raise
        return lock

    def release(self) -> None:
        """Let another manager have it. May be repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

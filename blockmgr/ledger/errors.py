"""Errors of the ledger beside ``LedgerCorrupt``, which stands with the core's."""

from blockmgr.core.errors import InvalidMessage, Precondition


class LedgerMismatch(Precondition):
    """The ledger is whole, but not what this program or this pool needs: the text names the field and both values."""


class LedgerInUse(Precondition):
    """Another manager holds the lock. ``pid`` is its process, or 0 where that is not known."""

    def __init__(self, what: str, pid: int) -> None:
        holder = f"process {pid}" if pid else "a process that has not said which"
        super().__init__(f"{what} belongs to another manager: {holder} holds its lock")
        self.pid = pid


class RecordTooLarge(InvalidMessage):
    """A message changes more than one redo record holds. Nothing was written."""

    def __init__(self, needed: int, capacity: int) -> None:
        super().__init__("size of the changes", f"{needed} bytes", f"one transaction holds at most {capacity}")
        self.needed = needed
        self.capacity = capacity

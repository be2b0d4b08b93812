"""The ledger: a pool's whole state in shared memory, which outlives the manager and which others map to read.

``PoolLedger`` holds one pool's committed columns and ``RedoLog`` makes a transaction of several of their changes;
both belong to the manager, one at a time. ``LedgerReader`` is for everyone else. Every store goes through
``SharedMemory``.
"""

from blockmgr.ledger.errors import LedgerInUse, LedgerMismatch, RecordTooLarge
from blockmgr.ledger.memory import SharedMemory
from blockmgr.ledger.pool_ledger import PoolLedger
from blockmgr.ledger.reader import LedgerReader, Snapshot
from blockmgr.ledger.redo import Pending, RedoLog
from blockmgr.ledger.rows import NO_FINAL, SequenceRow, SequenceTokens

__all__ = [
    "NO_FINAL",
    "LedgerInUse",
    "LedgerMismatch",
    "LedgerReader",
    "Pending",
    "PoolLedger",
    "RecordTooLarge",
    "RedoLog",
    "SequenceRow",
    "SequenceTokens",
    "SharedMemory",
    "Snapshot",
]

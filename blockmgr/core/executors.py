"""The executors of a pool as the ledger knows them: names, epochs, steps, and the last message of each."""

import numpy as np

from blockmgr.core.columns import Column, Columns
from blockmgr.core.errors import AlreadyExists, InvalidMessage, NotFound, Precondition, StaleEpoch
from blockmgr.core.states import ExecutorState

NAME_BYTES = 64
ALIVE = frozenset({int(ExecutorState.STARTING), int(ExecutorState.LIVE)})


class Executors:
    """The executor columns. A row belongs to one registration: a successor of the same name gets a row of its own."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.name, self.instance, self.pids = (columns[f"executor.{n}"] for n in ("name", "instance", "pids"))
        self.epoch, self.state = columns["executor.epoch"], columns["executor.state"]
        self.launched, self.completed = columns["executor.launched"], columns["executor.completed"]
        self.number, self.solo, self.drain = (columns[f"executor.{n}"] for n in ("number", "solo", "drain"))
        self.registered, self.orphaned = columns["executor.registered"], columns["executor.orphaned"]
        self.lease = columns["executor.lease"]
        self.reply: Column = columns["executor.reply"]
        self.reply_length = columns["executor.reply_length"]
        self._last_epoch = columns["pool.epoch"]

    def rows(self) -> list[int]:
        """Rows in use."""
        return np.flatnonzero(self.state.flat != ExecutorState.EMPTY).tolist()

    def name_of(self, row: int) -> str:
        """The executor's name."""
        return self.name.key(row).rstrip(b"\0").decode()

    def find(self, epoch: int) -> int:
        """Row of a registration that may speak; ``StaleEpoch`` if there is none."""
        epochs = self.epoch.flat.tolist()
        row = epochs.index(epoch) if epoch in epochs else -1
        if row < 0 or self.state.get(row) not in ALIVE:
            raise StaleEpoch(epoch)
        return row

    def named(self, name: str) -> list[int]:
        """Rows of every registration under a name, oldest first."""
        return sorted((row for row in self.rows() if self.name_of(row) == name), key=self.epoch.get)

    def register(self, name: str, instance: bytes, pids: list[int], now: float, lease: float) -> int:
        """Give an executor a row and an epoch. The same living instance gets the row that it has. ``lease``: seconds that
        it may be silent, kept for the next manager; 0: what that has for a default.

        Raises ``AlreadyExists`` if the name is alive as another instance, ``Precondition`` if every row is taken.
        """
        data = name.encode()
        if not 0 < len(data) <= NAME_BYTES or not name.isprintable():
            raise InvalidMessage("name", repr(name), f"must have 1 to {NAME_BYTES} bytes of printable text")
        if len(pids) > self.pids.spec.width:
            raise InvalidMessage("processes", len(pids), f"at most {self.pids.spec.width} are allowed")
        for row in self.named(name):
            if self.state.get(row) in ALIVE:
                if self.instance.key(row) == instance:
                    return row
                raise AlreadyExists(f"an executor named {name!r} is alive under epoch {self.epoch.get(row)}")
        row = self._occupy(data, instance, pids, now)
        self.lease.put(row, lease)
        return row

    def _occupy(self, name: bytes, instance: bytes, pids: list[int], now: float) -> int:
        empty = np.flatnonzero(self.state.flat == ExecutorState.EMPTY)
        if not len(empty):
            raise Precondition(f"all {self.state.spec.rows} places for executors of this pool are taken")
        row = int(empty[0])
        epoch = self._last_epoch.get(0) + 1
        self._last_epoch.put(0, epoch)
        self.name.put(row, np.void(name.ljust(NAME_BYTES, b"\0")))
        self.instance.put(row, np.void(instance))
        self.pids.write(row, 0, np.array(pids + [0] * (self.pids.spec.width - len(pids)), dtype=np.int64))
        self.epoch.put(row, epoch)
        for column in (
            self.launched,
            self.completed,
            self.number,
            self.solo,
            self.drain,
            self.reply_length,
            self.orphaned,
        ):
            column.put(row, 0)
        self.registered.put(row, int(now * 1e6))
        self.state.put(row, ExecutorState.STARTING)
        return row

    def vacate(self, row: int) -> None:
        """Free the row of a dead registration that owns nothing any more."""
        self.state.put(row, ExecutorState.EMPTY)

    def process_ids(self, row: int) -> list[int]:
        """Processes whose deaths together prove the executor dead."""
        return [pid for pid in self.pids.row(row).tolist() if pid]

    def by_epoch(self, epoch: int) -> int:
        """Row of any registration that is still in the table, dead ones too."""
        for row in self.rows():
            if self.epoch.get(row) == epoch:
                return row
        raise NotFound(f"no executor of this pool has the epoch {epoch}")

    def store_reply(self, row: int, number: int, data: bytes) -> None:
        """Keep the reply to a message until the next one."""
        if len(data) > self.reply.spec.width:
            raise InvalidMessage(
                "reply", f"{len(data)} bytes", f"at most {self.reply.spec.width} fit: ask for less at once"
            )
        self.reply.write(row, 0, np.frombuffer(data, dtype=np.uint8))
        self.reply_length.put(row, len(data))
        self.number.put(row, number)

    def stored_reply(self, row: int) -> bytes:
        """The reply to the last message."""
        return self.reply.row(row, self.reply_length.get(row)).tobytes()

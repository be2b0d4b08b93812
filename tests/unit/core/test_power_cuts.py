"""The same operations on a ledger in shared memory, whose manager dies at any of its stores, and in the middle of them."""

import os
import random
from typing import Any

from hypothesis import HealthCheck, settings

from blockmgr.core.columns import Array, Change
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.schema import Layout
from blockmgr.ledger import PoolLedger, RedoLog, SharedMemory
from tests.power_cut import PowerCut, StoreCounter
from tests.unit.core.memory_ledger import ManagerDied, MortalLedger
from tests.unit.core.test_state_machine import PoolMachine

EXAMPLES = int(os.environ.get("PAGEHOLD_EXAMPLES", "0"))
"""How many runs are to be tried, others each time. Where nothing is said it is always the same ones."""

STORES = 20
"""A message makes about as many stores."""


class SharedLedger:
    """A ledger in shared memory. Its manager, told to die, is cut off at a random one of its next stores."""

    def __init__(self, geometry: PoolGeometry) -> None:
        self._redo = RedoLog.create(1 << 20)
        self._ledger = PoolLedger.create("test", geometry, self._redo)
        self._count = len(self._ledger._columns)
        self._random = random.Random(geometry.device_blocks)
        self._die = ""

    @property
    def columns(self) -> list[Array]:
        return [self._ledger.committed(number) for number in range(self._count)]

    @property
    def die(self) -> str:
        return self._die

    @die.setter
    def die(self, when: str) -> None:
        self._die = when
        cut = StoreCounter(self._random.randrange(STORES), self._random.randrange(1 << 30))
        SharedMemory.on_store = cut if when else None

    def revive(self) -> None:
        self.die = ""
        descriptors = os.dup(self._ledger.descriptor), os.dup(self._redo.descriptor)
        self.close()
        self._redo = RedoLog.adopt(descriptors[1])
        self._ledger = PoolLedger.adopt(descriptors[0], self._redo)

    def close(self) -> None:
        self._ledger.close()
        self._redo.close()

    @property
    def layout(self) -> Layout:
        return self._ledger.layout

    def commit(self, changes: list[Change]) -> None:
        try:
            self._ledger.commit(changes)
        except PowerCut as cut:
            raise ManagerDied from cut

    def stage(self, column: int, start: int, values: Array) -> None:
        try:
            self._ledger.stage(column, start, values)
        except PowerCut as cut:
            raise ManagerDied from cut

    def committed(self, column: int) -> Array:
        return self._ledger.committed(column)

    def load(self, column: int, into: Array) -> None:
        self._ledger.load(column, into)

    def discard(self, column: int, start: int, count: int) -> None:
        self._ledger.discard(column, start, count)


class PowerCutMachine(PoolMachine):
    """Every rule of the pool's machine, on shared memory."""

    ledger: SharedLedger | None = None

    def make_ledger(self, geometry: PoolGeometry) -> MortalLedger:
        self.ledger = SharedLedger(geometry)
        return self.ledger

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            SharedMemory.on_store = None
            if self.ledger is not None:
                self.ledger.close()


TestPowerCuts: Any = PowerCutMachine.TestCase
TestPowerCuts.settings = settings(
    max_examples=EXAMPLES or 40,
    stateful_step_count=50,
    deadline=None,
    derandomize=not EXAMPLES,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)

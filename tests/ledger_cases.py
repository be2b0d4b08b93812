"""A small pool's ledger, random transactions for it, and a plain model to compare with."""

import os

import numpy as np

from blockmgr.core.columns import Array, Change, pool_schema
from blockmgr.core.geometry import PoolGeometry
from blockmgr.ledger import PoolLedger, RedoLog

GEOMETRY = PoolGeometry(
    tokens_per_block=4,
    block_bytes=64,
    device_blocks=12,
    host_blocks=4,
    max_sequences=6,
    max_length=1200,
    max_executors=2,
    max_pins=3,
    request_bytes=5000,
    reply_bytes=4096,
    archive_bytes=8192,
    archive_rows=5,
)
SCHEMA = pool_schema(GEOMETRY)
NUMBERS = {spec.name: number for number, spec in enumerate(SCHEMA)}


class Model:
    """Every column as a plain array."""

    def __init__(self) -> None:
        self.columns: list[Array] = [np.zeros(spec.rows * spec.stride, dtype=spec.dtype) for spec in SCHEMA]

    def apply(self, changes: list[Change]) -> None:
        for change in changes:
            where = slice(change.start, change.start + len(change.values)) if change.indexes is None else change.indexes
            self.columns[change.column][where] = change.values

    def content(self) -> list[bytes]:
        return [column.tobytes() for column in self.columns]


def content(ledger: PoolLedger) -> list[bytes]:
    """Every column of a ledger, loaded as a manager does that starts on it."""
    loaded = Model()
    for number, column in enumerate(loaded.columns):
        ledger.load(number, column)
    return loaded.content()


def random_changes(random: np.random.Generator, most: int = 8) -> list[Change]:
    """Random pieces and random places of random columns, in the order of the schema."""
    chosen = np.sort(random.choice(len(SCHEMA), size=random.integers(1, most + 1), replace=False))
    return [random_change(random, int(number)) for number in chosen]


def random_change(random: np.random.Generator, number: int) -> Change:
    spec = SCHEMA[number]
    elements, dtype = spec.rows * spec.stride, np.dtype(spec.dtype)
    count = int(random.integers(0, min(elements, 40) + 1))
    values = np.frombuffer(random.bytes(count * dtype.itemsize), dtype=dtype)
    if random.random() < 0.5:
        return Change(number, int(random.integers(0, elements - count + 1)), None, values)
    return Change(number, 0, random.choice(elements, size=count, replace=False), values)


def change(name: str, values: object, indexes: list[int] | None = None, start: int = 0) -> Change:
    """One change of a column by its name."""
    array = np.asarray(values, dtype=SCHEMA[NUMBERS[name]].dtype)
    return Change(NUMBERS[name], start, None if indexes is None else np.array(indexes, dtype=np.int64), array)


def die(ledger: PoolLedger, redo: RedoLog) -> tuple[int, int]:
    """Let a manager vanish, as its death would: nothing is stored, descriptors elsewhere remain. Returns those."""
    kept = os.dup(ledger.descriptor), os.dup(redo.descriptor)
    ledger.close()
    redo.close()
    return kept


def restart(descriptors: tuple[int, int], optional: frozenset[str] = frozenset()) -> tuple[PoolLedger, RedoLog]:
    """Start a manager on what another left behind."""
    redo = RedoLog.adopt(descriptors[1])
    try:
        return PoolLedger.adopt(descriptors[0], redo, optional=optional), redo
    except BaseException:
        redo.close()
        os.close(descriptors[0])
        raise

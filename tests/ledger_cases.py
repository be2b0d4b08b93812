"""A small pool's ledger, random transactions for it, and a plain model to compare with."""

import os

import numpy as np

from blockmgr.core.columns import ELEMENTS, Array, Change, Indexes
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.schema import Layout, lay_out, pool_schema
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
LAYOUT = lay_out(SCHEMA)
NUMBERS = {spec.name: number for number, spec in enumerate(SCHEMA)}


class Model:
    """Every column, in plain memory."""

    def __init__(self) -> None:
        self.memory = np.zeros(LAYOUT.end, dtype=np.uint8)
        self.columns: list[Array] = [
            self.memory[offset : offset + spec.nbytes].view(spec.dtype)
            for spec, offset in zip(SCHEMA, LAYOUT.offsets, strict=True)
        ]

    def apply(self, changes: list[Change]) -> None:
        for change in changes:
            where = slice(change.start, change.start + len(change.values)) if change.indexes is None else change.indexes
            self.memory.view(ELEMENTS[change.width])[where] = change.values

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
    elements = spec.rows * spec.stride
    count = int(random.integers(0, min(elements, 40) + 1))
    values = np.frombuffer(random.bytes(count * spec.itemsize), dtype=spec.dtype)
    if random.random() < 0.5:
        return change_at(LAYOUT.offsets[number], int(random.integers(0, elements - count + 1)), None, values)
    return change_at(LAYOUT.offsets[number], 0, random.choice(elements, size=count, replace=False), values)


def change(
    name: str, values: object, indexes: list[int] | None = None, start: int = 0, layout: Layout = LAYOUT
) -> Change:
    """One change of a column by its name."""
    array = np.asarray(values, dtype=SCHEMA[NUMBERS[name]].dtype)
    places = None if indexes is None else np.array(indexes, dtype=np.int64)
    return change_at(layout.offsets[NUMBERS[name]], start, places, array)


def change_at(offset: int, start: int, indexes: Indexes | None, values: Array) -> Change:
    """A change of a column that lies at ``offset``: its places counted within the column, its values of its type."""
    width = values.itemsize
    base, elements = offset // width, values.view(ELEMENTS[width])
    return Change(width, base + start, None if indexes is None else base + indexes, elements)


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

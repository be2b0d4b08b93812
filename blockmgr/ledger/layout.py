"""How a pool's ledger lies in its memory: a page of words, the columns, and behind them a directory in JSON.

::

    0     magic │ version │ directory's offset, bytes, checksum │ ─ │ ─ │ holder │ sequence │ epoch
    4096  first column, each on a page boundary
    …     directory: pool, key, geometry, meta, and of each column its name, type, rows, width, stride, offset

Columns are found by name, so a program may know columns that the ledger lacks, or the other way round.
"""

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from blockmgr.core.errors import BlockManagerError, LedgerCorrupt
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.schema import PAGE, ColumnSpec, lay_out, pages, pool_schema
from blockmgr.ledger.errors import LedgerMismatch
from blockmgr.ledger.memory import SharedMemory

MAGIC = int.from_bytes(b"PHLEDGER", "little")
VERSION = 1
KEY_BYTES = 16

# Offsets of the header's words, in bytes.
MAGIC_AT, VERSION_AT, DIRECTORY_AT, LENGTH_AT, CHECKSUM_AT, HOLDER, SEQUENCE, EPOCH = 0, 8, 16, 24, 32, 56, 64, 72

OPTIONAL: frozenset[str] = frozenset({"pool.zeroed", "executor.lease"})
"""Columns younger than format 1: a ledger that lacks one is read as if it were all zero there."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column as it lies in the memory. ``offset`` in bytes; rows, width and stride as in ``ColumnSpec``."""

    name: str
    dtype: str
    rows: int
    width: int
    stride: int
    offset: int

    @property
    def elements(self) -> int:
        """Elements of the whole column, padding between rows included."""
        return self.rows * self.stride

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the whole column."""
        return self.elements * self.itemsize


@dataclass(frozen=True, slots=True)
class Directory:
    """What the ledger says of itself. Fixed at creation; ``key`` is drawn then and tells this ledger from all others."""

    pool: str
    key: bytes
    geometry: PoolGeometry
    columns: tuple[StoredColumn, ...]
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """Offset behind the last column, on a page boundary."""
        return max((pages(column.offset + column.nbytes) for column in self.columns), default=PAGE)

    def encode(self) -> bytes:
        """The directory as JSON."""
        content = asdict(self) | {"key": self.key.hex()}
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Directory":
        """The directory from JSON.

        Raises:
            LedgerCorrupt: it is not one.
            LedgerMismatch: a newer program wrote it, with a geometry that this one cannot know.
        """
        try:
            content = json.loads(data)
            return cls(
                pool=content["pool"],
                key=bytes.fromhex(content["key"]),
                geometry=_geometry(content["geometry"]),
                columns=tuple(StoredColumn(**column) for column in content["columns"]),
                meta=content["meta"],
            )
        except (ValueError, TypeError, KeyError) as error:
            raise LedgerCorrupt(f"the ledger's directory cannot be read: {error!r}") from error


def _geometry(content: dict[str, int]) -> PoolGeometry:
    unknown = content.keys() - {known.name for known in fields(PoolGeometry)}
    if unknown:
        raise LedgerMismatch(
            f"the ledger's geometry has {', '.join(sorted(unknown))}, which this program does not know"
        )
    try:
        return PoolGeometry(**content)
    except BlockManagerError as error:
        raise LedgerCorrupt(f"the ledger's geometry: {error}") from error


def plan(pool: str, geometry: PoolGeometry, meta: Mapping[str, Any] | None = None) -> Directory:
    """Place the columns of a new pool. ``meta`` is whatever else, in JSON's types, belongs to the pool for ever."""
    schema = pool_schema(geometry)
    columns = tuple(
        StoredColumn(spec.name, spec.dtype, spec.rows, spec.width, spec.stride, offset)
        for spec, offset in zip(schema, lay_out(schema).offsets, strict=True)
    )
    return Directory(pool, os.urandom(KEY_BYTES), geometry, columns, dict(meta or {}))


def create_memory(directory: Directory) -> SharedMemory:
    """Make the memory of a ledger. The magic word is stored last: without it there is none. The caller owns it."""
    data = directory.encode()
    memory = SharedMemory.create(f"pagehold-ledger-{directory.pool}", directory.end + len(data))
    memory.store_bytes(directory.end, data)
    header = {DIRECTORY_AT: directory.end, LENGTH_AT: len(data), CHECKSUM_AT: zlib.crc32(data), VERSION_AT: VERSION}
    for offset, value in header.items():
        memory.store_word(offset, value)
    memory.store_word(MAGIC_AT, MAGIC)
    return memory


def read_directory(memory: SharedMemory) -> Directory:
    """Read and check what a ledger says of itself.

    Raises:
        LedgerCorrupt: it is no ledger, or damaged; the place is named.
        LedgerMismatch: its format is not this program's.
    """
    if memory.word(MAGIC_AT) != MAGIC:
        raise LedgerCorrupt(f"magic word of the ledger is {memory.word(MAGIC_AT):#x}, but must be {MAGIC:#x}")
    if memory.word(VERSION_AT) != VERSION:
        raise LedgerMismatch(
            f"format of the ledger is {memory.word(VERSION_AT)}, but this program knows only {VERSION}"
        )
    at, length = memory.word(DIRECTORY_AT), memory.word(LENGTH_AT)
    if at < PAGE or length < 0 or at + length > memory.nbytes:
        raise LedgerCorrupt(
            f"directory of the ledger is at {at}..{at + length}, but the memory ends at {memory.nbytes}"
        )
    data = memory.pread(at, length)
    if zlib.crc32(data) != memory.word(CHECKSUM_AT):
        raise LedgerCorrupt(
            f"directory of the ledger, at byte {at}, has the checksum {zlib.crc32(data):#x}, "
            f"but the header says {memory.word(CHECKSUM_AT):#x}"
        )
    directory = Directory.decode(data)
    if directory.end != at:
        raise LedgerCorrupt(f"columns of the ledger end at {directory.end}, but its directory is at {at}")
    return directory


def match(
    directory: Directory, schema: tuple[ColumnSpec, ...], optional: frozenset[str] = OPTIONAL
) -> list[int | None]:
    """Where each column that the program knows stands in the ledger's directory; None: an optional one that it lacks.

    Raises:
        LedgerMismatch: a column is missing, or its shape is another; column and values are named.
    """
    places = {column.name: place for place, column in enumerate(directory.columns)}
    found: list[int | None] = []
    for spec in schema:
        place = places.get(spec.name)
        if place is not None:
            _compare(directory.columns[place], spec)
        elif spec.name not in optional:
            raise LedgerMismatch(f"the ledger of pool {directory.pool} lacks the column {spec.name}")
        found.append(place)
    return found


def _compare(stored: StoredColumn, spec: ColumnSpec) -> None:
    for name in ("dtype", "rows", "width", "stride"):
        have, needed = getattr(stored, name), getattr(spec, name)
        if have != needed:
            raise LedgerMismatch(
                f"{name} of the ledger's column {spec.name} is {have}, but this program needs {needed}"
            )


def check_geometry(directory: Directory, expected: PoolGeometry) -> None:
    """Compare a ledger's geometry with the one that its pool is to have.

    Raises:
        LedgerMismatch: they differ; the first field that does is named with both values.
    """
    for name in (known.name for known in fields(PoolGeometry)):
        have, needed = getattr(directory.geometry, name), getattr(expected, name)
        if have != needed:
            raise LedgerMismatch(f"{name} of the ledger of pool {directory.pool} is {have}, but {needed} is expected")

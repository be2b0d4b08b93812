"""What the size of a block costs: slots reserved in vain, bytes of bookkeeping, the allocator's time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blockmgr.core.schema import pool_schema
from blockmgr.simulation.driver import Driver
from blockmgr.simulation.snapshot import PoolUse
from blockmgr.simulation.workload import Request

BLOCK_SIZES = (8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One size of block. Times are seconds inside the allocator, measured on this machine, for all requests together."""

    tokens_per_block: int
    use: PoolUse
    """With every request at its final length."""
    table_entries: int
    table_bytes: int
    """Bytes of the entries of all block tables."""
    block_record_bytes: int
    """Bytes of what the ledger keeps of every usable block, in use or not."""
    admit_seconds: float
    grow_seconds: float
    """One message for each of ``steps`` steps, in which every sequence that still runs gets a token."""
    release_seconds: float
    steps: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """The same requests through pools that differ only in the size of their blocks."""

    slots: int
    requests: int
    rows: list[SweepRow]


def sweep(requests: Sequence[Request], slots: int, max_seq_len: int, sizes: Sequence[int] = BLOCK_SIZES) -> Sweep:
    """Admit all prompts, grow each to its final length a token at a time, release all; once for each size.

    Raises ``PoolExhausted`` if the final lengths do not fit together.
    """
    return Sweep(slots, len(requests), [_run(requests, slots, max_seq_len, size) for size in sizes])


def _run(requests: Sequence[Request], slots: int, max_seq_len: int, size: int) -> SweepRow:
    driver = Driver(slots // size, size, max_sequences=len(requests), max_length=max_seq_len)
    handles = [answer.handle for answer in driver.admit([request.prompt for request in requests])]
    admitted = driver.seconds
    steps = max(request.output for request in requests)
    for step in range(steps):
        driver.decode([handle for handle, request in zip(handles, requests, strict=True) if request.output > step])
    grown = driver.seconds
    use = PoolUse.of(len(driver.lengths), driver.usable_slots, driver.reserved_slots, driver.tokens)
    entries = driver.table_entries
    driver.finish(list(driver.lengths))
    return SweepRow(
        size,
        use,
        entries,
        entries * _entry_bytes(driver),
        _record_bytes(driver) * (slots // size),
        admitted,
        grown - admitted,
        driver.seconds - grown,
        steps,
    )


def _entry_bytes(driver: Driver) -> int:
    return driver.pool.state.sequences.table.flat.itemsize


def _record_bytes(driver: Driver) -> int:
    """Bytes of one block's rows in the columns of blocks and of copy tickets."""
    columns = [column for column in pool_schema(driver.geometry) if column.name.startswith(("block.", "ticket."))]
    return sum(column.width * np.dtype(column.dtype).itemsize for column in columns)

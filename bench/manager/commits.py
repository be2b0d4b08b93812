"""How long the end of one step's transaction takes: final values gathered, redo record, commit, changes applied.

A step of n sequences, each with one new token: twelve columns change, at n scattered places each.
"""

import os
import statistics
import time

import numpy as np

from blockmgr.core.columns import Columns
from blockmgr.core.geometry import PoolGeometry
from blockmgr.ledger import LedgerReader, PoolLedger, RedoLog
from blockmgr.ledger.memory import reopen

GEOMETRY = PoolGeometry(tokens_per_block=16, block_bytes=2 << 20, device_blocks=32768, host_blocks=8192)
BY_SLOT = ("computed", "count", "launched", "published")
BY_BLOCK = ("fence", "filler", "hash", "parent", "state", "step", "used")
ROUNDS = 2000


def step(columns: Columns, sequences: int, random: np.random.Generator) -> None:
    """Change what a step of so many sequences changes."""
    slots = random.permutation(GEOMETRY.max_sequences)[:sequences]
    blocks = random.permutation(GEOMETRY.device_blocks)[:sequences]
    places = {f"slot.{name}": slots for name in BY_SLOT} | {f"block.{name}": blocks for name in BY_BLOCK}
    places["slot.tokens"] = slots * columns["slot.tokens"].stride + 100
    for name, indexes in places.items():
        column = columns[name]
        column.scatter(indexes, np.frombuffer(random.bytes(column.flat[indexes].nbytes), dtype=column.flat.dtype))


def measure(sequences: int) -> dict[str, float]:
    """Microseconds of a transaction: median and 99th percentile."""
    redo = RedoLog.create()
    ledger = PoolLedger.create("bench", GEOMETRY, redo)
    columns, random = Columns(GEOMETRY, ledger), np.random.default_rng(1)
    taken = []
    for _ in range(ROUNDS):
        step(columns, sequences, random)
        start = time.perf_counter_ns()
        columns.commit()
        taken.append((time.perf_counter_ns() - start) / 1000)
    ledger.close()
    redo.close()
    return {"sequences": sequences} | _figures(taken)


def measure_reader() -> dict[str, float]:
    """Microseconds in which a front door reads what is new of one sequence."""
    redo = RedoLog.create()
    ledger = PoolLedger.create("bench", GEOMETRY, redo)
    columns = Columns(GEOMETRY, ledger)
    for name, value in (("slot.state", 1), ("slot.count", 4000)):
        columns[name].put(0, value)
    columns.commit()
    reader = LedgerReader(reopen(ledger.descriptor, os.O_RDONLY))
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        reader.tokens(0, 3999)
        taken.append((time.perf_counter_ns() - start) / 1000)
    for part in (reader, ledger, redo):
        part.close()
    return _figures(taken)


def _figures(taken: list[float]) -> dict[str, float]:
    return {"p50_us": round(statistics.median(taken), 1), "p99_us": round(float(np.percentile(taken, 99)), 1)}

"""What the allocator core costs: a thousand requests admitted, grown token by token, and released.

The prompts and outputs are those of ``random.Random(42)``: of each request 50 to 500 tokens, then 20 to 200. A step is
one message for all running sequences: each reports its progress, records one token, and asks for room for the next. The
whole is done on pools of two sizes, whose steps must cost the same.
"""

import pickle
import random
import time
from typing import Any

import numpy as np

from blockmgr.core.columns import Ledger
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import Admission, Appends, Finished, Message, Progress, Reply, Reservations
from blockmgr.core.pool import Pool
from blockmgr.core.states import FinishReason
from blockmgr.ledger import PoolLedger, RedoLog

REQUESTS = 1000
SIZES = (1_000, 100_000)
ROOM = 30_000
"""Blocks that the workload itself needs, more or less: every pool has these on top."""


def requests() -> list[tuple[int, int]]:
    """Prompt and output tokens of each request."""
    source = random.Random(42)
    return [(source.randint(50, 500), source.randint(20, 200)) for _ in range(REQUESTS)]


class Workload:
    """The requests on one pool. Every phase decodes the replies that it gets, as an executor would."""

    def __init__(self, blocks: int, ledger: Ledger | None = None) -> None:
        self.pool = Pool(geometry(blocks), ledger)
        self.epoch = self.pool.register("benchmark", bytes(15) + b"1", [1])
        self.number = 0
        self.sizes = np.array(requests(), dtype=np.int64)
        self.handles = np.zeros(0, dtype=np.int64)
        self.recorded = 0

    def send(self, **parts: Any) -> Reply:
        """One message, and its reply."""
        self.number += 1
        reply: Reply = pickle.loads(self.pool.exchange(Message(self.epoch, self.number, **parts)))
        return reply

    def admit(self) -> None:
        """All prompts at once, each of its own tokens."""
        prompts = [
            Admission((n + 1).to_bytes(16, "little"), np.arange(length, dtype=np.int32) + n * 7)
            for n, (length, _) in enumerate(self.sizes.tolist())
        ]
        self.handles = np.array([one.handle for one in self.send(admissions=prompts).admitted], dtype=np.int64)

    def step(self, number: int) -> None:
        """One token for each sequence that wants another."""
        running = self.sizes[:, 1] >= number
        handles, written = self.handles[running], self.sizes[running, 0] + number - 1
        reply = self.send(
            launched_step=number,
            completed_step=number,
            progress=Progress(handles, written, written),
            appends=Appends(handles, written, np.ones_like(written), np.full(len(handles), number)),
            reservations=Reservations(handles, written + 1, np.zeros_like(written)),
        )
        if reply.short or reply.stale:
            raise RuntimeError(f"{len(reply.short)} sequences are short, {len(reply.stale)} handles stale")
        self.recorded += len(handles)

    def release(self) -> None:
        """All sequences end."""
        self.send(finished=Finished(self.handles, [FinishReason.LENGTH] * REQUESTS))


def geometry(blocks: int) -> PoolGeometry:
    """A pool of 16 tokens a block that has room for all requests and ``blocks`` more."""
    return PoolGeometry(16, 1, blocks + ROOM, max_sequences=1024, max_length=2048)


def measure(blocks: int, ledger: Ledger | None = None) -> dict[str, float]:
    """Seconds of each phase, and of the median step."""
    work = Workload(blocks, ledger)
    steps = []
    start = time.perf_counter()
    work.admit()
    admitted = time.perf_counter()
    for number in range(1, int(work.sizes[:, 1].max()) + 1):
        before = time.perf_counter()
        work.step(number)
        steps.append(time.perf_counter() - before)
    grown = time.perf_counter()
    work.release()
    end = time.perf_counter()
    return {
        "blocks": blocks,
        "recorded_tokens": work.recorded,
        "admit_seconds": admitted - start,
        "grow_seconds": grown - admitted,
        "release_seconds": end - grown,
        "total_seconds": end - start,
        "full_step_seconds": float(np.median(steps[:20])),
    }


def measure_with_ledger(blocks: int) -> dict[str, float]:
    """The same with a shared-memory ledger, each message a transaction."""
    redo = RedoLog.create()
    ledger = PoolLedger.create("benchmark", geometry(blocks), redo)
    try:
        return measure(blocks, ledger)
    finally:
        ledger.close()
        redo.close()

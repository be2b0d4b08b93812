"""A device without silicon: it maps the pool and executes what an engine launches, in order, and late.

It checks every step: whatever stands before the positions that are fed has to be in the cache just as the sequence's
tokens say. It outlives its engine's SIGKILL until its stream is empty, as a device may, and slower than before.

    python -m tests.scripted.device COMMANDS DONE      (the ends of two pipes, by descriptor)
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from blockmgr.arena import HostMapping
from blockmgr.processes import Process
from executor.manager.mapping import PoolMapping
from pagehold.blockmgr.v1 import executor_pb2
from tests.scripted.commands import Copy, Done, Forget, Launched, Poison, Receiver, Row, Setup, Step, send
from tests.scripted.toy_model import VECTOR_BYTES, next_vector, root_vector, sample, vectors

POISON = 0xA5


class FakeDevice:
    """The mapped pool, and what the device remembers of each sequence."""

    def __init__(self, mapping: PoolMapping, report: Callable[[str], None]) -> None:
        self._mapping = mapping
        self._report = report
        self._tokens_per_block = mapping.block_bytes // VECTOR_BYTES
        self._expected: dict[bytes, bytearray] = {}
        """Key → vectors of the positions that it has been fed, as they ought to be."""
        self._sampled: dict[bytes, int] = {}

    def execute(self, launched: Launched) -> Done:
        """Execute one command."""
        done, command = Done(launched.serial), launched.command
        if isinstance(command, Step):
            done.step = command.number
            for row in command.rows:
                self._run_row(command.number, row, done)
        elif isinstance(command, Copy):
            done.ticket = command.ticket
            source = self._block(command.source, command.source_on_host)
            self._block(command.destination, command.destination_on_host)[:] = source
        elif isinstance(command, Poison):
            for block in command.blocks:
                self._block(block)[:] = POISON
        elif isinstance(command, Forget):
            for key in command.keys:
                self._expected.pop(key, None)
                self._sampled.pop(key, None)
        return done

    def _run_row(self, step: int, row: Row, done: Done) -> None:
        root = root_vector(row.salt)
        if row.prefix is not None:
            self._expected[row.key] = bytearray(vectors(row.prefix, root))
        expected = self._expected[row.key]
        known = row.start * VECTOR_BYTES
        if len(expected) < known:
            self._report(f"step {step}: {row.key.hex()} is fed at {row.start}, {len(expected) // VECTOR_BYTES} known")
            return
        del expected[known:]
        self._compare(step, row, 0, bytes(expected))
        last = self._vector(row.table, row.start - 1) if row.start else root
        for position, token in enumerate(row.tokens or [self._sampled[row.key]], row.start):
            expected += next_vector(bytes(expected[-VECTOR_BYTES:]) or root, token)
            last = next_vector(last, token)
            if position < row.write_from:
                self._compare(step, row, position, last)
            else:
                self._write(row.table, position, last)
        if row.seed is not None:
            self._sampled[row.key] = sample(last, row.seed)
            done.samples[row.key] = (self._sampled[row.key], last)

    def _compare(self, step: int, row: Row, first: int, wanted: bytes) -> None:
        """Compare what is in the cache from position ``first`` on with what a sequence's tokens say."""
        count = len(wanted) // VECTOR_BYTES
        found = self._gather(row.table, first, count)
        should = np.frombuffer(wanted, dtype=np.uint8).reshape(count, VECTOR_BYTES)
        if not np.array_equal(found, should):
            position = first + int(np.flatnonzero((found != should).any(axis=1))[0])
            block = row.table[position // self._tokens_per_block]
            poisoned = bool((found[position - first] == POISON).all())
            self._report(
                f"step {step}: {row.key.hex()} position {position} of {row.start}, block {block}: "
                f"{'never written' if poisoned else 'holds something else'}; table {row.table}"
            )

    def _gather(self, table: list[int], first: int, count: int) -> NDArray[np.uint8]:
        blocks = table[: -(-(first + count) // self._tokens_per_block)]
        self._reach(blocks)
        whole = self._all_blocks()[np.array(blocks, dtype=np.int64)]
        return whole.reshape(-1, VECTOR_BYTES)[first : first + count]

    def _vector(self, table: list[int], position: int) -> bytes:
        return self._gather(table, position, 1).tobytes()

    def _write(self, table: list[int], position: int, vector: bytes) -> None:
        index, slot = divmod(position, self._tokens_per_block)
        at = slot * VECTOR_BYTES
        self._block(table[index])[at : at + VECTOR_BYTES] = np.frombuffer(vector, dtype=np.uint8)

    def _all_blocks(self) -> NDArray[np.uint8]:
        # Or something of the same shape, where there is no mapping.
        device, size = cast(HostMapping, self._mapping.device), self._mapping.block_bytes
        memory = device.array
        count = len(memory) // size
        return memory[: count * size].reshape(count, size)

    def _reach(self, blocks: list[int]) -> None:
        if blocks:
            self._block(max(blocks))

    def _block(self, number: int, host: bool = False) -> NDArray[np.uint8]:
        """One block's bytes."""
        if number == 0 and not host:
            self._report("the null block was to be touched")
        return self._mapping.block(number, host)


def run(receiver: Receiver, done: int, device: FakeDevice, engine: Process, pace: "Pace") -> None:
    """Execute until the engine closes the stream, or until nothing is left of what it had launched when it died."""
    listening = True
    while not receiver.ended:
        for message in receiver.receive(None):
            assert isinstance(message, Launched)
            if isinstance(message.command, Step | Copy):
                pace.wait(engine.is_dead)
            answer = device.execute(message)
            if listening:
                try:
                    send(done, answer)
                except BrokenPipeError:
                    listening = False


class Pace:
    """How long the device takes: random, by a seed, and longer once its engine is dead."""

    def __init__(self, seed: int, mean_seconds: float, linger_seconds: float) -> None:
        self._chance = random.Random(seed)
        self._mean = mean_seconds
        self._linger = linger_seconds

    def wait(self, engine_is_dead: bool) -> None:
        """Take the time of one command."""
        seconds = self._chance.expovariate(1 / self._mean) if self._mean else 0.0
        time.sleep(seconds + (self._linger if engine_is_dead else 0.0))


def main() -> None:
    receiver, done = Receiver(int(sys.argv[1])), int(sys.argv[2])
    engine = Process.open(os.getppid(), "engine")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setup = receiver.receive_one()
    if not isinstance(setup, Setup):
        return

    def report(text: str) -> None:
        with Path(setup.violations).open("a") as file:
            file.write(f"{setup.name}: {text}\n")

    registered = executor_pb2.RegisterExecutorResponse.FromString(setup.registered)
    device = FakeDevice(PoolMapping.fetch(registered, setup.instance), report)
    run(receiver, done, device, engine, Pace(setup.seed, setup.mean_seconds, setup.linger_seconds))


if __name__ == "__main__":
    main()

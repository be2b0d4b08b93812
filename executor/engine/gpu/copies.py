"""Copies of whole blocks, within the pool and between it and the host tier, in the order that steps need.

                     compute  ──step──copy-on-write──step──────────step──►
swap-out / demotion  outward        └──►copies──────►
swap-in              inward    ──copies──►┘ (awaited by the steps whose tables name what they bring)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from executor.engine.gpu.lanes import Lane, Launched, Outcomes
from executor.engine.gpu.runtime import Mark, Runtime, Stream
from executor.engine.gpu.staging import Staging
from executor.engine.memory import PoolMemory, blocks_of
from executor.engine.step import Copy, Done, Ints, TableChanges
from kernels.copies import copy_checked_blocks


@dataclass(slots=True)
class Arrivals:
    """Copies from the host tier that the compute stream may have to wait for. Owned by the engine's thread."""

    blocks: dict[int, Mark] = field(default_factory=dict)
    """Destination → where the inward stream has brought it."""
    slots: dict[int, list[Mark]] = field(default_factory=dict)
    """Slot → what its table waits for."""

    def expect(self, blocks: Iterable[int], mark: Mark) -> None:
        """These blocks are on their way."""
        self.blocks.update(dict.fromkeys(blocks, mark))

    def note(self, changes: TableChanges) -> None:
        """Tables change: some may name what is on its way."""
        if self.blocks:
            for slot, block in zip(changes.slots.tolist(), changes.blocks.tolist(), strict=True):
                if block in self.blocks:
                    self.slots.setdefault(slot, []).append(self.blocks[block])

    def await_slots(self, stream: Stream, slots: Ints) -> None:
        """Let a stream wait for what the tables of these slots name."""
        if self.slots:
            for slot in slots.tolist():
                for mark in self.slots.get(slot, ()):
                    stream.wait_event(mark)

    def await_blocks(self, stream: Stream, blocks: Iterable[int]) -> None:
        """Let a stream wait for these blocks, where they are on their way."""
        if self.blocks:
            for mark in {id(mark): mark for block in blocks if (mark := self.blocks.get(block))}.values():
                stream.wait_event(mark)

    def arrived(self, mark: Mark) -> None:
        """What was expected by this mark is there."""
        self.blocks = {block: other for block, other in self.blocks.items() if other is not mark}
        self.slots = {
            slot: left
            for slot, marks in self.slots.items()
            if (left := [other for other in marks if other is not mark])
        }


class BlockCopies:
    """Copies as commands. Copies on the host tier go over streams of their own, one a direction, so that no step stands
    behind them; they are told when they are done, which may be after steps launched later.
    """

    def __init__(
        self, memory: PoolMemory, runtime: Runtime, compute: Lane, staging: Staging, outcomes: Outcomes
    ) -> None:
        self._memory = memory
        self._runtime = runtime
        self._compute = compute
        self._staging = staging
        self._outcomes = outcomes
        self._blocks = blocks_of(memory.tensor(), memory.block_bytes)
        self._lanes: dict[str, Lane] = {}
        self._host: torch.Tensor | None = None
        if memory.host is not None:
            self._host = blocks_of(memory.host_tensor(pinned=True), memory.block_bytes)
            self._lanes = {name: Lane(name, runtime, outcomes) for name in ("outward", "inward")}
        self._inward: dict[tuple[int, ...], Mark] = {}
        self.arrivals = Arrivals()

    def launch(self, copies: Sequence[Copy]) -> None:
        """Launch copies, as one command."""
        ways: dict[str, list[Copy]] = {}
        for copy in copies:
            way = "inward" if copy.source_on_host else "outward" if copy.destination_on_host else "within"
            ways.setdefault(way, []).append(copy)
            for block, on_host in ((copy.source, copy.source_on_host), (copy.destination, copy.destination_on_host)):
                if not on_host:
                    self._memory.reach(block)
        serial = self._outcomes.launch(len(ways))
        with torch.inference_mode():
            for way, some in ways.items():
                if way == "within":
                    self._copy_within(serial, some)
                else:
                    self._copy_across(serial, way, some)

    def landed(self, done: Done) -> None:
        """Copies have completed: nobody need wait for them any more."""
        mark = self._inward.pop(done.tickets, None)
        if mark is not None:
            self.arrivals.arrived(mark)

    def close(self) -> None:
        """Wait for all copies on the host tier."""
        for lane in self._lanes.values():
            lane.close()

    def _copy_within(self, serial: int, copies: list[Copy]) -> None:
        stream = self._compute.stream
        bundle, began = self._staging.take(), self._runtime.mark(stream)
        self.arrivals.await_blocks(stream, (copy.source for copy in copies))
        with self._runtime.on(stream):
            pairs = bundle.put(np.array([(copy.source, copy.destination) for copy in copies], dtype=np.int64))
            bundle.send()
            copy_checked_blocks(self._blocks, pairs)
        tickets = tuple(copy.ticket for copy in copies)
        reached = self._runtime.mark(stream)

        def finish() -> Done:
            self._staging.give_back(bundle)
            return Done(serial, tickets=tickets, seconds=began.elapsed_time(reached) / 1000)

        self._compute.put(Launched(reached, finish))

    def _copy_across(self, serial: int, way: str, copies: list[Copy]) -> None:
        """Copies out of the host tier, or into it, behind everything that was launched before."""
        lane, inward = self._lanes[way], way == "inward"
        if self._host is None:
            raise ValueError("a copy on the host tier, but the pool has none")
        lane.stream.wait_event(self._runtime.mark(self._compute.stream))
        other = self._lanes["outward" if inward else "inward"]
        lane.stream.wait_event(self._runtime.mark(other.stream))
        began = self._runtime.mark(lane.stream)
        source, target = (self._host, self._blocks) if inward else (self._blocks, self._host)
        with self._runtime.on(lane.stream):
            for first, to, count in _runs(copies):
                target[to : to + count].copy_(source[first : first + count], non_blocking=True)
        reached = self._runtime.mark(lane.stream)
        tickets = tuple(copy.ticket for copy in copies)
        if inward:
            self._inward[tickets] = reached
            self.arrivals.expect((copy.destination for copy in copies), reached)

        def finish() -> Done:
            return Done(serial, tickets=tickets, seconds=began.elapsed_time(reached) / 1000)

        lane.put(Launched(reached, finish))


def _runs(copies: list[Copy]) -> list[tuple[int, int, int]]:
    """Copies put together where both sides lie side by side: first source, first destination, number of blocks."""
    runs: list[tuple[int, int, int]] = []
    for copy in sorted(copies, key=lambda one: one.source):
        first, to, count = runs[-1] if runs else (-1, -1, 0)
        if runs and (copy.source, copy.destination) == (first + count, to + count):
            runs[-1] = first, to, count + 1
        else:
            runs.append((copy.source, copy.destination, 1))
    return runs

"""A GPU's device over a pool of its own, without a manager, and sequences whose steps it is given."""

from typing import Any

import numpy as np
import torch

from executor.engine.assembly import PendingChanges, Row, assemble
from executor.engine.gpu.device import CudaDevice, Extent
from executor.engine.gpu.runtime import Runtime
from executor.engine.model_inputs import Tables
from executor.engine.request import Request
from executor.engine.scheduler import Budget, plan
from executor.engine.sequence import Sequence
from executor.engine.step import Done
from executor.models.model import PagedModel
from pagehold.engine.v1 import request_pb2
from tests.scripted.processes import wait_until

BLOCK = 16


class OwnMemory:
    """A pool and its host tier. Both hold what is no number, but for the null block."""

    def __init__(self, model: PagedModel, blocks: int, host_blocks: int) -> None:
        pool = torch.full(model.cache_shape.pool(blocks, BLOCK), float("nan"), dtype=model.dtype, device=model.device)
        pool[0] = 0.0
        self.blocks = pool.view(torch.uint8).view(blocks, -1)
        self.block_bytes = self.blocks.shape[1]
        self.host = torch.full((host_blocks, self.block_bytes), 0xFF, dtype=torch.uint8)
        self.pinned = False

    def tensor(self) -> torch.Tensor:
        return self.blocks.view(-1)

    def host_tensor(self, pinned: bool = False) -> torch.Tensor:
        self.pinned = pinned
        if pinned and self.blocks.is_cuda:
            self.host = self.host.pin_memory()
        return self.host.view(-1)

    def reach(self, block: int) -> None:
        if block >= len(self.blocks):
            raise IndexError(block)


class DeviceRunner:
    """Launches steps of sequences, and takes what comes of them. Close it."""

    def __init__(
        self, model: PagedModel, runtime: Runtime, tables: Tables, extent: Extent, host_blocks: int = 6
    ) -> None:
        self.memory = OwnMemory(model, tables.width, host_blocks)
        self.news = 0
        self.device = CudaDevice(model, self.memory, tables, model.vocab_size, extent, runtime, self._hear)
        self.changes = PendingChanges()
        self.steps = 0
        self.free = list(range(1, tables.width))
        self.done: list[Done] = []

    def _hear(self) -> None:
        self.news += 1

    def sequence(self, slot: int, prompt: list[int], **parameters: Any) -> Sequence:
        """A sequence with all the blocks that it needs."""
        values = {"max_tokens": 30, "top_p": 1.0} | parameters
        kept = request_pb2.Request(parameters=request_pb2.Parameters(**values))
        asked = Request(bytes(16), np.array(prompt, dtype=np.int32), kept)
        made = Sequence(asked, 1 << 20 | slot, list(prompt))
        blocks = [self.free.pop() for _ in range(-(-made.limit // BLOCK))]
        self.changes.note(slot, made.update(0, blocks))
        return made

    def launch(self, *parts: tuple[Sequence, int]) -> None:
        """Launch a step."""
        rows = []
        for sequence, count in parts:
            start = sequence.launched
            rows.append(Row(sequence, start, count, sequence.launch(count)))
        self.steps += 1
        self.device.launch(assemble(self.steps, rows, self.changes.take(), frozenset()))

    def wait(self) -> list[Done]:
        """Everything that was launched so far, once it has completed."""

        def completed() -> bool:
            self.done += self.device.completions()
            return self.device.completed == self.device.serial

        wait_until(completed, "the device is idle")
        return self.done

    def outputs(self, sequences: list[Sequence], steps: int) -> list[list[int]]:
        """Prompts one after the other, then so many steps of all; no id is read before all steps are launched."""
        before = len(self.wait())
        for sequence in sequences:
            self.launch((sequence, len(sequence.tokens)))
        for _ in range(steps):
            self.launch(*[(sequence, 1) for sequence in sequences])
        done = self.wait()[before:]
        assert not any(one.error for one in done), done
        firsts = [one.ids.tolist() for one in done[: len(sequences)]]
        rest = [one.ids.tolist() for one in done[len(sequences) :]]
        return [[*first, *(ids[row] for ids in rest)] for row, first in enumerate(firsts)]

    def mixed(self, sequences: list[Sequence], chunk: int, steps: int) -> list[list[int]]:
        """So many steps, each of one more sequence than the one before: chunks of its prompt, then single tokens. Those
        whose prompts are computed come first, as an engine has them.
        """
        before = len(self.wait())
        outputs: dict[int, list[int]] = {id(sequence): [] for sequence in sequences}
        sampling: list[list[Sequence]] = []
        for step in range(steps):
            going = sorted(sequences[: step + 1], key=lambda one: one.launched < one.prompt)
            self.launch(*[(one, min(chunk, max(one.prompt - one.launched, 1))) for one in going])
            sampling.append([one for one in going if one.launched >= one.prompt])
            if step % 4 == 3:
                self.wait()
        for done, sampled in zip(self.wait()[before:], sampling, strict=True):
            assert not done.error, done
            for sequence, token in zip(sampled, done.ids.tolist(), strict=True):
                outputs[id(sequence)].append(token)
        return list(outputs.values())

    def served(self, sequences: list[Sequence], extent: Extent) -> list[list[int]]:
        """Sequences from their prompts to their limits, in steps that are as full as an engine's."""
        budget = Budget(extent.tokens, extent.tokens, extent.rows)
        outputs: dict[int, list[int]] = {id(sequence): [] for sequence in sequences}
        before = len(self.wait())
        sampling: list[list[Sequence]] = []
        while parts := plan([one for one in sequences if one.launched < one.limit], budget, BLOCK):
            self.launch(*parts)
            sampling.append([one for one, _ in parts if one.launched >= one.prompt])
            if len(sampling) % 2 == 0:
                self.wait()
        for done, sampled in zip(self.wait()[before:], sampling, strict=True):
            assert not done.error, done
            for sequence, token in zip(sampled, done.ids.tolist(), strict=True):
                outputs[id(sequence)].append(token)
        return list(outputs.values())

    def close(self) -> None:
        """End the device."""
        self.device.close()

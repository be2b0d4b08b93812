"""The CPU as a device: a thread that executes commands one after the other, over the pool as mapped by this process."""

import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
import torch

from executor.engine.device import DeviceLost, NewsCallback
from executor.engine.model_inputs import attention_batch, flat_positions, row_of_token
from executor.engine.step import FROM_DEVICE, Copy, Done, Step, TableChanges
from executor.manager import PoolMapping
from executor.models.model import PagedModel
from kernels.sampling import sample

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Launched:
    serial: int
    command: Step | tuple[Copy, ...]


@dataclass(frozen=True, slots=True)
class Tables:
    """Sizes of the device's block tables."""

    slots: int
    width: int
    tokens_per_block: int


class HostDevice:
    """Executes steps of a model on the CPU.

    Owns its thread, its block tables ``[slots, width]`` and the ids sampled last ``[slots]``. The pool's memory is mapped,
    not owned: blocks are written as steps and copies say, and by nothing else.
    """

    def __init__(
        self, model: PagedModel, mapping: PoolMapping, tables: Tables, vocabulary: int, news: NewsCallback
    ) -> None:
        """Compute with ``model``; of its logits, ids from ``vocabulary`` on are never chosen."""
        self._model = model
        self._mapping = mapping
        self._tokens_per_block = tables.tokens_per_block
        self._vocabulary = vocabulary
        self._news = news
        self._tables = torch.zeros((tables.slots, tables.width), dtype=torch.int32)
        self._last_ids = torch.zeros(tables.slots, dtype=torch.int64)
        self._pool = self._view()
        self._failed = False
        self._lost: BaseException | None = None
        self._serial = self._completed = 0
        self._commands: queue.SimpleQueue[_Launched | None] = queue.SimpleQueue()
        self._done: deque[Done] = deque()
        self._thread = threading.Thread(target=self._run, name="device", daemon=True)
        self._thread.start()

    @property
    def serial(self) -> int:
        """Number of the last command launched."""
        return self._serial

    @property
    def completed(self) -> int:
        """Number of the last command known to have completed."""
        return self._completed

    def launch(self, step: Step) -> None:
        """Append a step."""
        self._put(step)

    def copy(self, copies: Sequence[Copy]) -> None:
        """Append copies."""
        self._put(tuple(copies))

    def resume(self) -> None:
        """Try steps again. Only when nothing is in flight."""
        self._failed = False

    def completions(self) -> list[Done]:
        """What has completed since the last call. Raises ``DeviceLost`` if there will be nothing more."""
        if self._lost is not None:
            raise DeviceLost(str(self._lost)) from self._lost
        found = []
        while self._done:
            found.append(self._done.popleft())
            self._completed = found[-1].serial
        return found

    def close(self) -> None:
        """Execute what was launched, then end the thread."""
        self._commands.put(None)
        self._thread.join()

    def _put(self, command: Step | tuple[Copy, ...]) -> None:
        self._serial += 1
        self._commands.put(_Launched(self._serial, command))

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with torch.inference_mode():
                while (launched := self._commands.get()) is not None:
                    self._done.append(self._execute(launched))
                    self._news()
        except BaseException as error:
            # Not a step that failed, but tables or copies: what the device holds is not known any more.
            self._lost = error
            self._news()

    def _execute(self, launched: _Launched) -> Done:
        command, started = launched.command, time.perf_counter()
        if isinstance(command, tuple):
            for copy in command:
                self._copy_block(copy)
            return Done(launched.serial, tickets=tuple(copy.ticket for copy in command))
        # Of a step that is not tried, too: the tables that it brings are right.
        self._change_tables(command.changes)
        if self._failed:
            return Done(launched.serial, command.number, error="a step before it failed", follows_failure=True)
        try:
            ids = self._compute(command)
        except Exception as error:
            # Whatever it is, it must not end the thread: the engine finds out whose fault it was, and goes on.
            self._failed = True
            log.exception("a step failed", step=command.number)
            return Done(launched.serial, command.number, error=f"{type(error).__name__}: {error}")
        seconds = time.perf_counter() - started
        return Done(launched.serial, command.number, ids=ids.numpy(), seconds=seconds)

    def _compute(self, step: Step) -> torch.Tensor:
        """Run one step. Returns the sampled ids ``[R]``."""
        slots = torch.from_numpy(step.slots)
        rows = torch.from_numpy(row_of_token(step))
        batch = attention_batch(step, self._tables, self._tokens_per_block)
        hidden = self._model.forward(self._ids(step, slots, rows), flat_positions(step), batch, self._pool)
        sampling = step.sampling
        places = torch.from_numpy(sampling.rows)
        if not len(places):
            return places
        logits = self._model.logits(hidden[batch.query_starts[places + 1].long() - 1])
        logits[torch.from_numpy(sampling.masked_rows), torch.from_numpy(sampling.masked_ids)] = float("-inf")
        ids = sample(
            logits,
            torch.from_numpy(sampling.temperature),
            torch.from_numpy(sampling.top_k),
            torch.from_numpy(sampling.top_p),
            torch.from_numpy(sampling.min_p),
            torch.from_numpy(sampling.seeds),
            torch.from_numpy(sampling.positions),
            vocabulary=self._vocabulary,
        )
        # A row without a number has no next token: whatever is fed for it meanwhile comes to nothing, but must be an id.
        self._last_ids[slots[places]] = ids.clamp(min=0)
        return ids

    def _ids(self, step: Step, slots: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        ids = torch.from_numpy(step.ids)
        return torch.where(ids == FROM_DEVICE, self._last_ids[slots[rows]], ids)

    def _change_tables(self, changes: TableChanges) -> None:
        if not len(changes.blocks):
            return
        self._reach(int(changes.blocks.max()))
        places = torch.from_numpy(changes.slots), torch.from_numpy(changes.indexes)
        self._tables[places] = torch.from_numpy(changes.blocks).to(torch.int32)

    def _copy_block(self, copy: Copy) -> None:
        source = self._mapping.block(copy.source, copy.source_on_host)
        self._mapping.block(copy.destination, copy.destination_on_host)[:] = source

    def _reach(self, block: int) -> None:
        """See to it that a block is mapped: the pool may have grown."""
        if block >= len(self._pool):
            self._mapping.block(block)
            self._pool = self._view()

    def _view(self) -> torch.Tensor:
        """The mapped pool: ``[num_blocks, num_layers, 2, key_value_heads, tokens_per_block, head_dim]``."""
        blocks = self._mapping.device.size // self._mapping.block_bytes
        whole = torch.from_numpy(self._mapping.device.array[: blocks * self._mapping.block_bytes])
        shape = self._model.cache_shape.pool(blocks, self._tokens_per_block)
        return whole.view(self._model.dtype).view(shape)

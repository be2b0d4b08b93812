"""The CPU as a device: a thread that executes commands one after the other, over the pool as mapped by this process."""

import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
import torch

from executor.engine.choice import Chosen, choose, choosing_of
from executor.engine.device import DeviceLost, NewsCallback
from executor.engine.memory import pool_view
from executor.engine.model_inputs import InputArrays, SlotState, Tables, forward
from executor.engine.step import Copy, Done, Step, TableChanges
from executor.manager import PoolMapping
from executor.models.model import PagedModel

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Launched:
    serial: int
    command: Step | tuple[Copy, ...]


class HostDevice:
    """Executes steps of a model on the CPU.

    Owns its thread and what it keeps for each slot. The pool's memory is mapped, not owned: blocks are written as steps and
    copies say, and by nothing else.
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
        self._state = SlotState(tables, model.device)
        self._pool = pool_view(mapping, model, tables.tokens_per_block)
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
            seconds = time.perf_counter() - started
            return Done(launched.serial, tickets=tuple(copy.ticket for copy in command), seconds=seconds)
        # Of a step that is not tried, too: the tables that it brings are right.
        self._change_tables(command.changes)
        if self._failed:
            return Done(launched.serial, command.number, error="a step before it failed", follows_failure=True)
        try:
            chosen = self._compute(command)
        except Exception as error:
            # Whatever it is, it must not end the thread: the engine finds out whose fault it was, and goes on.
            self._failed = True
            log.exception("a step failed", step=command.number)
            return Done(launched.serial, command.number, error=f"{type(error).__name__}: {error}")
        seconds = time.perf_counter() - started
        results = {} if chosen is None else chosen.results()
        return Done(launched.serial, command.number, seconds=seconds, **results)

    def _compute(self, step: Step) -> Chosen | None:
        """Run one step. Returns what its rows chose, None if none of them samples."""
        inputs = InputArrays.of(step, self._tokens_per_block).put(torch.from_numpy)
        hidden = forward(self._model, inputs, self._state, self._pool)
        choosing = choosing_of(step, torch.from_numpy)
        return None if choosing is None else choose(self._model, hidden, choosing, self._state, self._vocabulary)

    def _change_tables(self, changes: TableChanges) -> None:
        if not len(changes.blocks):
            return
        self._mapping.reach(int(changes.blocks.max()))
        places = self._state.places(changes.slots, changes.indexes)
        self._state.change(torch.from_numpy(places), torch.from_numpy(changes.blocks))

    def _copy_block(self, copy: Copy) -> None:
        source = self._mapping.block(copy.source, copy.source_on_host)
        self._mapping.block(copy.destination, copy.destination_on_host)[:] = source

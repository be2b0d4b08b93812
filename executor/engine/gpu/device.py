"""A GPU as a device: steps on one stream, behind which the engine runs ahead without ever waiting for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog
import torch

from executor.engine.choice import Choosing, Chosen, choose, choosing_of
from executor.engine.device import NewsCallback
from executor.engine.gpu.copies import BlockCopies
from executor.engine.gpu.graphs import LEAST_ROWS, StepGraphs
from executor.engine.gpu.lanes import Lane, Launched, Outcomes
from executor.engine.gpu.runtime import Runtime
from executor.engine.gpu.staging import Bundle, Staging
from executor.engine.memory import PoolMemory, pool_view
from executor.engine.model_inputs import InputArrays, Inputs, SlotState, Tables, forward
from executor.engine.step import Copy, Done, Step
from executor.found_outputs import MOST_CANDIDATES
from executor.models.model import PagedModel

log = structlog.get_logger()

T = TypeVar("T")

ROW_BYTES, TOKEN_BYTES, SPARE_BYTES = 512, 64, 1 << 16
"""What a row, a token and anything else of a step takes at most on its way to the GPU, table entries included."""

RESULT_BYTES = 64 + MOST_CANDIDATES * (8 + 4)
"""What a row brings back at most: its id, and where it is a beam its likeliest tokens with their log-probabilities."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The largest step that a device is made for."""

    rows: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A step whose arrays are on their way to the GPU, all but started."""

    hidden: Callable[[], torch.Tensor]
    choosing: Choosing | None


class CudaDevice:
    """Executes steps of a model on a GPU.

    Steps and copy-on-write go on one stream, in order; a thread waits for their ends. A step is one copy of its arrays to the
    GPU, the changes to the tables, the model, the choice of tokens, and one copy of the ids back. Ids that were sampled stay
    on the GPU as well, as the inputs of the step behind. Decode steps, and others up to some size, are replayed as they were
    recorded by ``executor.engine.gpu.warmup``; the rest are launched kernel by kernel.

    Owns its streams and threads, tables and staging memory; what it is called by is one thread. The pool's memory is the
    manager's and mapped: blocks are written as steps and copies say, and by nothing else.
    """

    def __init__(
        self,
        model: PagedModel,
        memory: PoolMemory,
        tables: Tables,
        vocabulary: int,
        extent: Extent,
        runtime: Runtime,
        news: NewsCallback,
        *,
        records: bool = True,
    ) -> None:
        """Compute with ``model``; of its logits, ids from ``vocabulary`` on are never chosen. ``records``: steps are recorded,
        where the model's can be.
        """
        self.model = model
        self._brief = model.brief()
        self.extent = extent
        self.runtime = runtime
        self.records = records and model.recordable
        self.state = SlotState(tables, runtime.device)
        self._memory = memory
        self.vocabulary = vocabulary
        self._pool = pool_view(memory, model, tables.tokens_per_block)
        outward = extent.rows * ROW_BYTES + extent.tokens * TOKEN_BYTES + SPARE_BYTES
        self.staging = Staging(runtime, outward, extent.rows * RESULT_BYTES + SPARE_BYTES)
        self.graphs = StepGraphs(runtime, self.state, extent.rows, extent.tokens)
        # What was made so far, the model's weights too, was put on other streams.
        runtime.settle()
        self._failed = False
        self._outcomes = Outcomes(news)
        self._lane = Lane("compute", runtime, self._outcomes)
        self.stream = self._lane.stream
        self._copies = BlockCopies(memory, runtime, self._lane, self.staging, self._outcomes)

    @property
    def block_bytes(self) -> int:
        """Bytes of a block of the pool."""
        return self._memory.block_bytes

    @property
    def serial(self) -> int:
        """Number of the last command launched."""
        return self._outcomes.serial

    @property
    def completed(self) -> int:
        """The last command up to which all are known to have completed."""
        return self._outcomes.completed

    def launch(self, step: Step) -> None:
        """Append a step."""
        serial = self._outcomes.launch()
        try:
            with torch.inference_mode(), self.runtime.on(self.stream):
                self._launch(serial, step)
        except Exception as error:
            # Not a step that failed, but tables or memory: what the device holds is not known any more.
            log.exception("a step cannot be launched", step=step.number)
            self._outcomes.lose(error)

    def copy(self, copies: Sequence[Copy]) -> None:
        """Append copies."""
        try:
            self._copies.launch(copies)
        except Exception as error:
            log.exception("copies cannot be launched", tickets=[copy.ticket for copy in copies])
            self._outcomes.lose(error)

    def resume(self) -> None:
        """Try steps again. Only when nothing is in flight."""
        self._failed = False

    def completions(self) -> list[Done]:
        """What has completed since the last call. Raises ``DeviceLost`` if there will be nothing more."""
        found = self._outcomes.take()
        for done in found:
            if done.tickets:
                self._copies.landed(done)
        return found

    def close(self) -> None:
        """Execute what was launched, then end the threads."""
        self._copies.close()
        self._lane.close()

    # -- a step ------------------------------------------------------------------------------------------------------

    def _launch(self, serial: int, step: Step) -> None:
        bundle = self.staging.take()
        began = self.runtime.mark(self.stream)
        change = self._prepare_changes(step, bundle)
        tried, chosen, error = not self._failed, None, "a step before it failed"
        prepared = None
        if tried:
            prepared, error = self._attempt(step, lambda: self._prepare(step, bundle))
        bundle.send()
        # Of a step that is not tried, too: the tables that it brings are right.
        change()
        if prepared is not None:
            self._copies.arrivals.await_slots(self.stream, step.slots)
            work = prepared
            chosen, error = self._attempt(step, lambda: self._compute(work, bundle))
        reached = self.runtime.mark(self.stream)

        def finish() -> Done:
            results = {} if chosen is None or error else chosen.results()
            self.staging.give_back(bundle)
            if error:
                return Done(serial, step.number, error=error, follows_failure=not tried)
            return Done(serial, step.number, seconds=began.elapsed_time(reached) / 1000, **results)

        self._lane.put(Launched(reached, finish))

    def _attempt(self, step: Step, work: Callable[[], T]) -> tuple[T | None, str]:
        """Do a part of a step that may fail without harm to others: the engine finds out whose fault it is, and goes on.

        An error of the GPU itself comes up again where the step is waited for, and ends the device.
        """
        try:
            return work(), ""
        except Exception as error:
            self._failed = True
            log.exception("a step failed", step=step.number)
            return None, f"{type(error).__name__}: {error}"

    def _prepare_changes(self, step: Step, bundle: Bundle) -> Callable[[], None]:
        changes = step.changes
        if not len(changes.blocks):
            return lambda: None
        self._memory.reach(int(changes.blocks.max()))
        self._copies.arrivals.note(changes)
        places = bundle.put(self.state.places(changes.slots, changes.indexes))
        blocks = bundle.put(changes.blocks)
        return lambda: self.state.change(places, blocks)

    def _prepare(self, step: Step, bundle: Bundle) -> _Prepared:
        """Put a step's arrays into a bundle."""
        choosing = choosing_of(step, bundle.put, LEAST_ROWS)
        arrays = InputArrays.of(step, self.state.sizes.tokens_per_block)
        shape = self.graphs.find(arrays)
        if shape is not None:
            fed = bundle.put(self.graphs.array(shape, arrays))
            return _Prepared(lambda: self.graphs.replay(shape, fed), choosing)
        more = max(LEAST_ROWS - len(arrays.ids), 0)
        rows = len(arrays.slots) + (more if arrays.max_query == 1 else 0)
        inputs = arrays.padded(rows, len(arrays.ids) + more, self.state.padding).put(
            bundle.put, split=arrays.singles > 0
        )
        return _Prepared(lambda: self.forward(inputs), choosing)

    def forward(self, inputs: Inputs) -> torch.Tensor:
        """Launch the model over inputs, kernel by kernel, on the current stream."""
        return forward(self.model, inputs, self.state, self._pool)

    def forward_briefly(self, inputs: Inputs) -> torch.Tensor:
        """Launch all kinds of work that ``forward`` does, so that it is compiled and loaded."""
        return forward(self._brief, inputs, self.state, self._pool)

    def _compute(self, prepared: _Prepared, bundle: Bundle) -> Chosen | None:
        """Put a step on the stream. Returns copies of what it chose, right once the stream has come so far."""
        hidden = prepared.hidden()
        if prepared.choosing is None:
            return None
        return choose(self.model, hidden, prepared.choosing, self.state, self.vocabulary).each(bundle.fetch)

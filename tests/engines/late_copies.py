"""The CPU as a device whose copies on the host tier come late, on a thread of their own, as a GPU's may."""

import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue

import torch

from executor.engine.device import NewsCallback
from executor.engine.gpu.lanes import Outcomes
from executor.engine.host_device import HostDevice, _Launched
from executor.engine.model_inputs import Tables
from executor.engine.step import Copy, Done, Step
from executor.manager import PoolMapping
from executor.models.model import PagedModel


class LateCopies(HostDevice):
    """Steps and copies within the pool are executed one after the other. A copy out of the host tier or into it is done
    ``late`` seconds after everything launched before it, beside what was launched behind it; only what names blocks that
    it brings waits for it.
    """

    late = 0.0

    def __init__(
        self, model: PagedModel, mapping: PoolMapping, tables: Tables, vocabulary: int, news: NewsCallback
    ) -> None:
        self._outcomes = Outcomes(news)
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lane: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._arriving: dict[int, threading.Event] = {}
        super().__init__(model, mapping, tables, vocabulary, news)
        self._copier = threading.Thread(target=self._follow, args=(self._lane,), daemon=True)
        self._copier.start()

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
        serial, arriving = self._outcomes.launch(), self._still_arriving()
        self._work.put(lambda: self._step(serial, step, arriving))

    def copy(self, copies: Sequence[Copy]) -> None:
        """Append copies, as one command."""
        late = [one for one in copies if one.source_on_host or one.destination_on_host]
        within = tuple(one for one in copies if one not in late)
        serial = self._outcomes.launch(bool(late) + bool(within))
        if within:
            arriving = self._still_arriving()
            self._work.put(lambda: self._copy_within(serial, within, arriving))
        if late:
            reached, arrived = threading.Event(), threading.Event()
            self._arriving |= {one.destination: arrived for one in late if one.source_on_host}
            self._work.put(reached.set)
            self._lane.put(lambda: self._copy_late(serial, late, reached, arrived))

    def completions(self) -> list[Done]:
        """What has completed since the last call."""
        return self._outcomes.take()

    def close(self) -> None:
        """Execute what was launched, then end the threads."""
        self._work.put(None)
        self._lane.put(None)
        self._thread.join()
        self._copier.join()

    # -- the threads -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._follow(self._work)

    def _follow(self, work: "SimpleQueue[Callable[[], None] | None]") -> None:
        try:
            with torch.inference_mode():
                while (command := work.get()) is not None:
                    command()
        except BaseException as error:
            self._outcomes.lose(error)

    def _still_arriving(self) -> dict[int, threading.Event]:
        """What a command launched now finds on its way: a copy launched behind it waits for it, even into its blocks."""
        self._arriving = {block: arrived for block, arrived in self._arriving.items() if not arrived.is_set()}
        return dict(self._arriving)

    def _step(self, serial: int, step: Step, arriving: dict[int, threading.Event]) -> None:
        ends = step.starts + step.counts
        tables = self._state.tables[torch.from_numpy(step.slots)].tolist()
        size = self._tokens_per_block
        named = {block for table, end in zip(tables, ends.tolist(), strict=True) for block in table[: -(-end // size)]}
        _await({*named, *step.changes.blocks.tolist()}, arriving)
        self._outcomes.put(self._execute(_Launched(serial, step)))

    def _copy_within(self, serial: int, copies: tuple[Copy, ...], arriving: dict[int, threading.Event]) -> None:
        _await({one.source for one in copies}, arriving)
        self._outcomes.put(self._execute(_Launched(serial, copies)))

    def _copy_late(self, serial: int, copies: list[Copy], reached: threading.Event, arrived: threading.Event) -> None:
        reached.wait()
        time.sleep(self.late)
        done = self._execute(_Launched(serial, tuple(copies)))
        arrived.set()
        self._outcomes.put(done)


def _await(blocks: set[int], arriving: dict[int, threading.Event]) -> None:
    for block in blocks & arriving.keys():
        arriving[block].wait()

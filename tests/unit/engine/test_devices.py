"""Devices: what they compute, in which order, and what they leave alone. A GPU's is tried with a stand-in of CUDA."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from executor.engine.assembly import PendingChanges, Row, assemble
from executor.engine.device import Device, DeviceLost
from executor.engine.gpu.device import CudaDevice, Extent
from executor.engine.gpu.warmup import warm_up
from executor.engine.host_device import HostDevice
from executor.engine.model_inputs import Tables
from executor.engine.request import Request
from executor.engine.sequence import Sequence
from executor.engine.step import Copy, Done
from executor.models.generate import generate
from executor.models.loader import LoadOptions, load_model
from executor.models.model import PagedModel
from pagehold.engine.v1 import request_pb2
from tests.models.checkpoints import VOCABULARY, configuration, random_ids, saved
from tests.scripted.processes import wait_until
from tests.unit.engine.gpu_stand_in import StandInRuntime

BLOCK, BLOCKS, SLOTS = 16, 40, 8


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PagedModel:
    folder = tmp_path_factory.mktemp("tiny")
    saved(configuration("llama"), folder)
    return load_model(folder, LoadOptions(progress=False))


class Memory:
    """A pool's memory without a manager; full of what is no number, but for the null block."""

    def __init__(self, model: PagedModel) -> None:
        shape = model.cache_shape.pool(BLOCKS, BLOCK)
        pool = torch.full(shape, float("nan"))
        pool[0] = 0.0
        self._bytes = pool.numpy().view(np.uint8).reshape(-1)
        self.block_bytes = len(self._bytes) // BLOCKS
        self.device = SimpleNamespace(array=self._bytes)
        self.host = None

    def tensor(self) -> torch.Tensor:
        return torch.from_numpy(self._bytes)

    def reach(self, block: int) -> None:
        if block >= BLOCKS:
            raise IndexError(block)

    def block(self, number: int, host: bool = False) -> Any:
        self.reach(number)
        return self._bytes[number * self.block_bytes : (number + 1) * self.block_bytes]


TABLES = Tables(SLOTS, BLOCKS, BLOCK)

Make = Callable[[PagedModel, Any, int], Device]


def on_host(model: PagedModel, memory: Any, vocabulary: int) -> Device:
    return HostDevice(model, memory, TABLES, vocabulary, lambda: None)


def on_gpu(model: PagedModel, memory: Any, vocabulary: int) -> Device:
    """Launched kernel by kernel."""
    return CudaDevice(model, memory, TABLES, vocabulary, Extent(SLOTS, 64), StandInRuntime(), lambda: None)


def on_warm_gpu(model: PagedModel, memory: Any, vocabulary: int) -> Device:
    """With recorded decode steps."""
    device = cast(CudaDevice, on_gpu(model, memory, vocabulary))
    warm_up(device)
    return device


class Runner:
    """Launches steps of sequences, and takes what comes of them."""

    def __init__(self, model: PagedModel, make: Make, vocabulary: int = VOCABULARY) -> None:
        self.memory = cast(Any, Memory(model))
        self.device = make(model, self.memory, vocabulary)
        self.changes = PendingChanges()
        self.steps = 0
        self._free = iter(range(BLOCKS - 1, 0, -1))
        self._done: list[Done] = []

    def sequence(self, prompt: list[int], slot: int, **parameters: Any) -> Sequence:
        """A sequence with all the blocks that it needs."""
        kept = request_pb2.Request(parameters=request_pb2.Parameters(**{"max_tokens": 40, "top_p": 1.0} | parameters))
        made = Sequence(Request(bytes(16), np.array(prompt, dtype=np.int32), kept), 1 << 20 | slot, list(prompt))
        self.give(made, [next(self._free) for _ in range(-(-made.limit // BLOCK))])
        return made

    def give(self, sequence: Sequence, blocks: list[int]) -> None:
        """A table."""
        self.changes.note(sequence.slot, sequence.update(0, blocks))

    def launch(self, *parts: tuple[Sequence, int]) -> list[Row]:
        """Launch a step."""
        rows = []
        for sequence, count in parts:
            start = sequence.launched
            rows.append(Row(sequence, start, count, sequence.launch(count)))
        self.steps += 1
        self.device.launch(assemble(self.steps, rows, self.changes.take(), frozenset({5})))
        return rows

    def done(self, count: int) -> list[Done]:
        """What the last so many commands came to."""
        wanted = self.device.serial

        def completed() -> bool:
            self._done += self.device.completions()
            return self.device.completed == wanted

        wait_until(completed, "the device is idle")
        return self._done[-count:]


@pytest.fixture(params=[on_host, on_gpu, on_warm_gpu])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


@pytest.fixture
def runner(model: PagedModel, make: Make) -> Iterator[Runner]:
    runner = Runner(model, make)
    yield runner
    runner.device.close()


def test_ids_come_through_the_device_in_memory_that_holds_no_numbers(model: PagedModel, runner: Runner) -> None:
    prompts = [random_ids(length, length) for length in (1, 15, 16, 17, 33)]
    sequences = [runner.sequence(prompt, slot) for slot, prompt in enumerate(prompts)]
    outputs: list[list[int]] = [[] for _ in prompts]
    # Prompts in chunks of 10 beside those that decode already; no id is read before all steps are launched.
    launched = []
    for _ in range(24):
        parts = [(one, min(10, max(len(one.tokens) - one.launched, 1))) for one in sequences]
        launched.append(runner.launch(*parts))
    for rows, done in zip(launched, runner.done(24), strict=True):
        assert not done.error
        ids = iter(done.ids.tolist())
        for row in rows:
            if row.samples:
                outputs[row.sequence.slot].append(next(ids))
    for prompt, output in zip(prompts, outputs, strict=True):
        assert len(output) >= 20
        assert output == generate(model, [prompt], len(output))[0]


def test_a_step_writes_where_it_feeds_and_nowhere_else(runner: Runner) -> None:
    one, other = runner.sequence(random_ids(20, 1), 0), runner.sequence(random_ids(20, 2), 3)
    before = runner.memory.device.array.copy()
    runner.launch((one, 20), (other, 7))
    runner.done(1)
    changed = (runner.memory.device.array != before).reshape(BLOCKS, -1).any(axis=1)
    assert np.flatnonzero(changed).tolist() == sorted([*one.table[:2], other.table[0]])


def test_copies_and_steps_keep_their_order(model: PagedModel, runner: Runner) -> None:
    prompt = random_ids(20, 3)
    one = runner.sequence(prompt, 0)
    runner.launch((one, 20))
    source, spare = one.table[1], 1
    runner.device.copy([Copy(77, source, spare)])
    kept = one.table[1]
    runner.changes.note(0, [(1, spare)])
    runner.launch((one, 1))
    first, copied, second = runner.done(3)
    assert copied.tickets == (77,)
    assert [*first.ids.tolist(), *second.ids.tolist()] == generate(model, [prompt], 2)[0]
    before, behind = (
        runner.memory.block(block).view(np.float32).reshape(3, 2, 2, BLOCK, -1) for block in (kept, spare)
    )
    assert np.array_equal(before[:, :, :, :4], behind[:, :, :, :4])
    assert np.isnan(before[:, :, :, 4:]).all(), "the step wrote behind the copy, not into its source"
    assert not np.isnan(behind[:, :, :, 4]).any()


def test_behind_a_failed_step_nothing_is_tried_until_it_is_resumed_but_tables_are_right(
    model: PagedModel, runner: Runner
) -> None:
    prompt = random_ids(20, 4)
    one = runner.sequence([*prompt[:-1], VOCABULARY + 7], 0)
    two = runner.sequence(prompt, 1)
    runner.launch((one, 20))
    runner.launch((two, 20))
    failed, followed = runner.done(2)
    assert failed.error
    assert not failed.follows_failure
    assert followed.follows_failure
    runner.device.resume()
    two.restart_at(0)
    two.frozen, two.in_flight, two.sampling = False, 0, 0
    runner.launch((two, 20))
    (done,) = runner.done(1)
    assert done.ids.tolist() == generate(model, [prompt], 1)[0]


def test_a_row_without_a_number_is_told_and_the_row_behind_it_harms_nobody(model: PagedModel, runner: Runner) -> None:
    prompt = random_ids(20, 5)
    one, two = runner.sequence(prompt, 0), runner.sequence(prompt, 1)
    # Everything is masked: no id is left to choose.
    one.request.kept.parameters.end_ids.extend(range(VOCABULARY))
    one.request.kept.parameters.min_tokens = 40
    runner.launch((one, 20), (two, 20))
    runner.launch((one, 1), (two, 1))
    first, second = runner.done(2)
    wanted = generate(model, [prompt], 2)[0]
    assert first.ids.tolist() == [-1, wanted[0]]
    assert second.ids.tolist() == [-1, wanted[1]]


def test_ids_beyond_the_tokenizer_are_never_chosen(model: PagedModel, make: Make) -> None:
    runner = Runner(model, make, vocabulary=10)
    try:
        sequences = [runner.sequence(random_ids(5, seed), seed, temperature=5.0, seed=seed) for seed in range(SLOTS)]
        for _ in range(10):
            runner.launch(*[(one, 5 if not one.launched else 1) for one in sequences])
        drawn = {id_ for done in runner.done(10) for id_ in done.ids.tolist()}
    finally:
        runner.device.close()
    assert drawn <= set(range(10))
    assert len(drawn) > 5


def test_a_copy_that_cannot_be_made_is_the_end_of_the_device(runner: Runner) -> None:
    runner.device.copy([Copy(1, 5, BLOCKS + 3)])
    with pytest.raises(DeviceLost):
        runner.done(1)

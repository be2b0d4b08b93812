"""A GPU's device with a stand-in of CUDA: what is recorded, what waits for what, and that the engine waits for nothing."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from executor.engine.assembly import Row, assemble
from executor.engine.device import DeviceLost
from executor.engine.gpu import graphs
from executor.engine.gpu.device import CudaDevice, Extent
from executor.engine.gpu.staging import BUNDLES
from executor.engine.gpu.warmup import try_largest, warm_up
from executor.engine.model_inputs import Tables
from executor.engine.sequence import Sequence
from executor.engine.step import Copy, TableChanges
from executor.models.generate import PagedSequence, SequenceRunner, generate
from executor.models.loader import LoadOptions, load_model
from executor.models.model import PagedModel
from kernels.sampling.ranking import rank
from tests.engines.device_runner import BLOCK, DeviceRunner, OwnMemory
from tests.models.checkpoints import configuration, random_ids, saved
from tests.scripted.processes import wait_until
from tests.unit.engine.gpu_stand_in import StandInRuntime

BLOCKS, HOST_BLOCKS, SLOTS = 60, 6, 12
TABLES = Tables(SLOTS, BLOCKS, BLOCK)
ROWS, TOKENS = 10, 64


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PagedModel:
    folder = tmp_path_factory.mktemp("tiny")
    saved(configuration("llama", max_position_embeddings=BLOCKS * BLOCK), folder)
    return load_model(folder, LoadOptions(progress=False))


class Runner(DeviceRunner):
    """A device with a stand-in of CUDA."""

    def __init__(self, model: PagedModel) -> None:
        self.runtime = StandInRuntime()
        super().__init__(model, self.runtime, TABLES, Extent(ROWS, TOKENS), HOST_BLOCKS)

    def any_sequence(self, slot: int) -> Sequence:
        return self.sequence(slot, random_ids(20, slot))


@pytest.fixture
def runner(model: PagedModel) -> Iterator[Runner]:
    runner = Runner(model)
    yield runner
    runner.runtime.held = False
    runner.runtime.let_go()
    runner.close()


def test_a_warm_device_has_recorded_every_size_the_largest_first_and_left_the_pool_alone(runner: Runner) -> None:
    before = runner.memory.blocks.clone()
    warm_up(runner.device)
    wanted = runner.device.graphs.wanted
    assert [shape.tokens for shape in wanted] == [64, 32, 16, 8]
    assert [shape.is_decode for shape in wanted] == [False] * 2 + [True] * 2
    assert len(runner.runtime.recorded) == len(runner.device.graphs) == len(wanted)
    assert torch.equal(runner.memory.blocks, before)


def test_nothing_is_recorded_where_it_is_not_wanted(model: PagedModel) -> None:
    memory, runtime = OwnMemory(model, BLOCKS, 0), StandInRuntime()
    device = CudaDevice(model, memory, TABLES, 5, Extent(ROWS, TOKENS), runtime, lambda: None, records=False)
    try_largest(device)
    warm_up(device)
    device.close()
    assert not runtime.recorded
    assert not len(device.graphs)


def test_trying_the_largest_step_leaves_the_pool_alone(runner: Runner) -> None:
    before = runner.memory.blocks.clone()
    try_largest(runner.device)
    assert torch.equal(runner.memory.blocks, before)


def test_steps_are_replayed_as_far_as_there_is_a_recorded_one_with_room(
    model: PagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "MOST_TOKENS", 32)
    runner = Runner(model)
    warm_up(runner.device)
    prompts = [random_ids(25 + slot, slot) for slot in range(9)]
    sequences = [runner.sequence(slot, prompt) for slot, prompt in enumerate(prompts)]
    for sequence in sequences[:4]:
        runner.launch((sequence, len(sequence.tokens)))
    assert runner.runtime.replayed == 4
    # A chunk of 28, and 4 single tokens beside it; then one that makes 33.
    runner.launch(*[(sequence, 1) for sequence in sequences[:4]], (sequences[4], 28))
    assert runner.runtime.replayed == 5
    runner.launch(*[(sequence, 1) for sequence in sequences[:4]], (sequences[4], 1), (sequences[5], 28))
    assert runner.runtime.replayed == 5
    for sequence in sequences[5:]:
        runner.launch((sequence, len(sequence.tokens) - sequence.launched))
    for count in (9, 3, 1, 8):
        runner.launch(*[(sequence, 1) for sequence in sequences[:count]])
    outputs: list[list[int]] = [[] for _ in prompts]
    rows = [[0], [1], [2], [3], range(4), range(5), [5], [6], [7], [8], range(9), range(3), [0], range(8)]
    for done, slots in zip(runner.wait(), rows, strict=True):
        assert not done.error
        for slot, id_ in zip(slots, done.ids.tolist(), strict=True):
            outputs[slot].append(id_)
    for prompt, output in zip(prompts, outputs, strict=True):
        assert output == generate(model, [prompt], len(output))[0]
    runner.close()


def test_recorded_steps_give_the_ids_of_steps_that_are_launched(model: PagedModel) -> None:
    outputs = []
    for warm in (False, True):
        runner = Runner(model)
        if warm:
            warm_up(runner.device)
        sequences = [runner.sequence(slot, random_ids(slot + 2, slot)) for slot in range(ROWS)]
        outputs.append(runner.outputs(sequences, 20))
        assert runner.runtime.replayed == (20 + ROWS if warm else 0)
        runner.device.close()
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("warm", [False, True])
def test_rows_that_ask_for_their_likeliest_tokens_get_them_and_nothing_else_changes(
    model: PagedModel, warm: bool
) -> None:
    runner = Runner(model)
    if warm:
        warm_up(runner.device)
    prompts = [random_ids(4 + 9 * slot, slot) for slot in range(4)]
    sequences = [runner.sequence(slot, prompt) for slot, prompt in enumerate(prompts)]
    sequences[1].ranking, sequences[3].ranking = 5, 9
    for sequence in sequences:
        runner.launch((sequence, len(sequence.tokens)))
    done = runner.wait()
    logits = torch.stack(SequenceRunner(model, 40).step([(PagedSequence(), prompt) for prompt in prompts]))
    assert [int(one.ids[0]) for one in done] == logits.argmax(1).tolist()
    assert [one.ranked_ids.shape for one in done] == [(0, 0), (1, 5), (0, 0), (1, 9)]
    for place, count in ((1, 5), (3, 9)):
        ids, logprobs = rank(logits[place : place + 1], count)
        assert done[place].ranked_ids.tolist() == ids.tolist()
        assert done[place].ranked_logprobs.tolist() == logprobs.tolist()
    runner.close()


@pytest.mark.parametrize("warm", [False, True])
def test_single_tokens_beside_chunks_of_prompts_give_the_same_ids(model: PagedModel, warm: bool) -> None:
    runner = Runner(model)
    if warm:
        warm_up(runner.device)
    prompts = [random_ids(3 + 5 * slot, slot) for slot in range(6)]
    sequences = [runner.sequence(slot, prompt) for slot, prompt in enumerate(prompts)]
    for prompt, output in zip(prompts, runner.mixed(sequences, 7, 14), strict=True):
        assert len(output) > 3
        assert output == generate(model, [prompt], len(output))[0]
    runner.close()


@pytest.mark.parametrize("warm", [False, True])
def test_steps_as_full_as_a_servers_give_the_ids_of_each_prompt_alone(model: PagedModel, warm: bool) -> None:
    runner = Runner(model)
    if warm:
        warm_up(runner.device)
    prompts = [random_ids(2 + 9 * slot, slot) for slot in range(ROWS)]
    sequences = [runner.sequence(slot, prompt, max_tokens=6) for slot, prompt in enumerate(prompts)]
    for prompt, output in zip(prompts, runner.served(sequences, Extent(ROWS, TOKENS)), strict=True):
        assert output == generate(model, [prompt], 6)[0]
    runner.close()


def test_nothing_waits_for_the_gpu_but_completions_come_only_when_it_is_done(runner: Runner) -> None:
    warm_up(runner.device)
    one = runner.any_sequence(0)
    runner.runtime.held = True
    runner.launch((one, 20))
    runner.launch((one, 1))
    runner.device.copy([Copy(5, 1, 2)])
    assert runner.device.completions() == []
    assert (runner.device.serial, runner.device.completed, runner.news) == (3, 0, 0)
    runner.runtime.let_go()
    wait_until(lambda: runner.news == 3, "all have completed")
    assert runner.device.completed == 0, "nobody has been told yet"
    assert [(done.step, done.tickets) for done in runner.wait()] == [(1, ()), (2, ()), (0, (5,))]


def test_copies_to_the_host_tier_stand_behind_steps_and_no_step_behind_them(runner: Runner) -> None:
    one = runner.any_sequence(0)
    runner.launch((one, 20))
    runner.wait()
    compute, outward, _ = runner.runtime.streams
    runner.runtime.held = True
    runner.device.copy([Copy(1, one.table[0], 3, destination_on_host=True)])
    runner.launch((one, 1))
    runner.runtime.let_go(compute)
    wait_until(lambda: bool(runner.device.completions()), "the step is over, though the copy is not")
    assert (runner.device.serial, runner.device.completed) == (3, 1)
    assert outward.waits_for(compute)
    assert not compute.waits_for(outward)
    runner.runtime.let_go()
    assert runner.wait()[-1].tickets == (1,)
    assert runner.memory.pinned
    assert torch.equal(runner.memory.host[3], runner.memory.blocks[one.table[0]])


def test_only_the_steps_of_rows_whose_tables_name_it_wait_for_what_comes_in(runner: Runner) -> None:
    one, other = runner.any_sequence(0), runner.any_sequence(1)
    runner.launch((one, 20), (other, 20))
    runner.wait()
    compute, _, inward = runner.runtime.streams
    runner.memory.host[2] = runner.memory.blocks[one.table[1]]
    spare = runner.free.pop()
    runner.runtime.held = True
    runner.device.copy([Copy(9, 2, spare, source_on_host=True)])
    runner.changes.note(0, [(1, spare)])
    runner.launch((other, 1))
    assert not compute.waits_for(inward)
    runner.launch((one, 1))
    assert len(compute.waits_for(inward)) == 1
    runner.runtime.let_go()
    runner.wait()
    runner.launch((one, 1))
    assert len(compute.waits_for(inward)) == 1, "what has arrived is not waited for"


def test_one_command_of_copies_may_go_all_ways_and_is_complete_with_its_last_part(runner: Runner) -> None:
    runner.runtime.held = True
    compute, outward, inward = runner.runtime.streams
    runner.device.copy(
        [Copy(1, 4, 5), Copy(2, 4, 0, destination_on_host=True), Copy(3, 1, 9, source_on_host=True), Copy(4, 6, 7)]
    )
    told: list[tuple[int, ...]] = []

    def another(count: int) -> bool:
        told.extend(done.tickets for done in runner.device.completions())
        return len(told) == count

    for count, stream in enumerate((inward, compute, outward), 1):
        assert runner.device.completed == 0
        runner.runtime.let_go(stream)
        wait_until(partial(another, count), "another part is told")
    assert told == [(3,), (1, 4), (2,)]
    assert runner.device.completed == 1


def test_an_error_of_the_gpu_is_the_end_of_the_device(runner: Runner) -> None:
    runner.runtime.held = True
    runner.launch((runner.any_sequence(0), 20))
    runner.runtime.let_go(error=RuntimeError("an illegal memory access was encountered"))
    with pytest.raises(DeviceLost, match="illegal memory access"):
        runner.wait()


def test_pinned_memory_is_used_again_only_when_its_command_has_completed(runner: Runner) -> None:
    one = runner.any_sequence(0)
    runner.runtime.held = True
    runner.launch((one, 20))
    for _ in range(BUNDLES - 1):
        runner.launch((one, 1))
    free: Any = runner.device.staging
    assert free._free.qsize() == 0
    runner.runtime.let_go()
    runner.wait()
    assert free._free.qsize() == BUNDLES


def test_tables_of_an_engine_that_starts_again_come_with_its_first_step(model: PagedModel, runner: Runner) -> None:
    slots = np.repeat(np.arange(1, SLOTS), BLOCKS)
    indexes = np.tile(np.arange(BLOCKS), SLOTS - 1)
    one = runner.any_sequence(0)
    own = runner.changes.take()
    everything = TableChanges(
        *(np.concatenate(pair) for pair in ((own.slots, slots), (own.indexes, indexes), (own.blocks, indexes)))
    )
    rows = [Row(one, 0, 20, one.launch(20))]
    runner.device.launch(assemble(1, rows, everything, frozenset()))
    (done,) = runner.wait()
    assert done.ids.tolist() == generate(model, [one.tokens], 1)[0]
    assert torch.equal(runner.device.state.tables[3], torch.arange(BLOCKS, dtype=torch.int32))

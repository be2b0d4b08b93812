"""An engine on a GPU: the ids that it generates, whoever shares its steps, and that nothing waits or is compiled meanwhile."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
import torch

from executor.engine.gpu.compilations import Compilations
from executor.engine.gpu.device import Extent
from executor.engine.gpu.runtime import CudaRuntime
from executor.engine.gpu.warmup import warm_up
from executor.engine.model_inputs import Tables
from executor.engine.sequence import Sequence
from executor.engine.step import Copy
from executor.models.loader import LoadOptions, load_model
from executor.models.model import PagedModel
from tests.engines.device_runner import DeviceRunner
from tests.engines.door import start_of
from tests.engines.world import engine_world
from tests.models.checkpoints import VOCABULARY, configuration, random_ids, reference_logits, saved

SEQUENCES, LENGTH, STEPS = 64, 900, 24
TABLES = Tables(slots=128, width=4096, tokens_per_block=16)
EXTENT = Extent(rows=SEQUENCES, tokens=2048)
ALLOWANCE = 1e-3
"""By how much a chosen id's logit may be below the best: two correct computations in float32 differ by less."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PagedModel:
    """Qwen3-0.6B's layers, four of them, in bf16."""
    folder = tmp_path_factory.mktemp("qwen3")
    sizes = {"hidden_size": 1024, "intermediate_size": 3072, "head_dim": 128, "vocab_size": 32000}
    heads = {"num_attention_heads": 16, "num_key_value_heads": 8, "num_hidden_layers": 4}
    # Unlike trained ones, such weights give logits that are far apart: what differs shows.
    configuration("qwen3", **sizes, **heads, max_position_embeddings=4096, initializer_range=0.1).save_pretrained(
        folder
    )
    return load_model(folder, LoadOptions(device="cuda", weights="random", progress=False))


@pytest.fixture(scope="module")
def compilations() -> Compilations:
    compilations = Compilations()
    compilations.watch()
    return compilations


@contextmanager
def running(model: PagedModel, compilations: Compilations, *, warm: bool = True) -> Iterator[DeviceRunner]:
    runner = DeviceRunner(model, CudaRuntime(torch.device("cuda", 0), compilations), TABLES, EXTENT, host_blocks=16)
    try:
        if warm:
            warm_up(runner.device)
        yield runner
    finally:
        runner.close()


@pytest.fixture(scope="module")
def warm(model: PagedModel, compilations: Compilations) -> Iterator[DeviceRunner]:
    with running(model, compilations) as runner:
        yield runner


def prompts(count: int) -> list[list[int]]:
    """Prompts of all lengths, some of which take several splits of attention."""
    return [random_ids(1 + (37 * number) % LENGTH, number) for number in range(count)]


def sequences_of(runner: DeviceRunner, wanted: list[list[int]]) -> list[Sequence]:
    runner.free = list(range(1, TABLES.width))
    return [runner.sequence(slot, prompt) for slot, prompt in enumerate(wanted)]


def test_every_prompt_gets_the_same_ids_alone_and_among_63_others(warm: DeviceRunner) -> None:
    wanted = prompts(SEQUENCES)
    together = warm.outputs(sequences_of(warm, wanted), STEPS)
    alone = [warm.outputs(sequences_of(warm, [prompt]), STEPS)[0] for prompt in wanted]
    differing = [number for number in range(SEQUENCES) if together[number] != alone[number]]
    assert not differing, f"{len(differing)} of {SEQUENCES} prompts differ, prompt {differing[0]} first"


def test_recorded_steps_give_the_ids_of_steps_launched_kernel_by_kernel(
    model: PagedModel, compilations: Compilations, warm: DeviceRunner
) -> None:
    with running(model, compilations, warm=False) as eager:
        for count in (SEQUENCES, 16, 5, 1):
            wanted = prompts(count)
            recorded = warm.outputs(sequences_of(warm, wanted), STEPS)
            assert recorded == eager.outputs(sequences_of(eager, wanted), STEPS)


@pytest.mark.parametrize("chunk", [33, 400])
def test_single_tokens_beside_chunks_of_prompts_give_the_same_ids(warm: DeviceRunner, chunk: int) -> None:
    wanted = prompts(24)
    mixed = warm.mixed(sequences_of(warm, wanted), chunk, 30)
    assert sum(map(len, mixed)) > 150
    for prompt, output in zip(wanted, mixed, strict=True):
        assert output == warm.outputs(sequences_of(warm, [prompt]), max(len(output) - 1, 0))[0][: len(output)]


def test_many_prompts_beside_many_that_decode_fill_steps_of_all_sizes(
    model: PagedModel, compilations: Compilations
) -> None:
    """As a server that is asked a thousand things at once: 200 sequences, steps of up to 2,048 tokens."""
    asked = [random_ids(50 + (67 * number) % 451, number) for number in range(200)]
    sizes, extent = Tables(slots=256, width=8192, tokens_per_block=16), Extent(rows=256, tokens=2048)
    runner = DeviceRunner(model, CudaRuntime(torch.device("cuda", 0), compilations), sizes, extent)
    try:
        outputs = runner.served([runner.sequence(slot, prompt) for slot, prompt in enumerate(asked)], extent)
        some = range(0, 200, 17)
        for number in some:
            runner.free = list(range(1, sizes.width))
            (alone,) = runner.outputs([runner.sequence(0, asked[number])], 29)
            assert outputs[number] == alone
    finally:
        runner.close()


def test_serving_waits_for_nothing_and_compiles_nothing(warm: DeviceRunner, compilations: Compilations) -> None:
    warm.free = list(range(1, TABLES.width))
    parameters = {"max_tokens": 200, "min_tokens": 200, "end_ids": [7, 11], "temperature": 0.7, "top_k": 50}
    sequences = [warm.sequence(slot, prompt, **parameters) for slot, prompt in enumerate(prompts(40))]
    counts, steps = compilations.counts.copy(), 0
    torch.cuda.set_sync_debug_mode("error")
    try:
        # Prompts in chunks beside those that decode, in steps of all sizes; then all numbers of rows, and copies.
        while any(one.launched < one.prompt for one in sequences):
            parts = [(one, min(100, max(one.prompt - one.launched, 1))) for one in sequences]
            warm.launch(*parts[: (20, 9, 3)[steps % 3]])
            steps += 1
            if steps % 4 == 0:
                warm.wait()
            sequences = sequences[1:] + sequences[:1]
        for count in range(1, 41, 3):
            warm.launch(*[(one, 1) for one in sequences[:count]])
            warm.wait()
        spare = warm.free[0]
        warm.device.copy([Copy(1, sequences[0].table[0], spare), Copy(2, spare + 1, 3, destination_on_host=True)])
        warm.device.copy([Copy(3, 3, spare + 2, source_on_host=True)])
        warm.wait()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert not any(done.error for done in warm.done)
    assert compilations.counts == counts


def test_blocks_go_to_the_host_tier_and_back_beside_steps(warm: DeviceRunner) -> None:
    (one,) = sequences_of(warm, [random_ids(100, 1)])
    first = warm.outputs([one], 3)[0]
    spare = [warm.free.pop() for _ in one.table]
    out = [Copy(10 + i, block, i, destination_on_host=True) for i, block in enumerate(one.table)]
    back = [Copy(30 + i, i, block, source_on_host=True) for i, block in enumerate(spare)]
    warm.device.copy(out)
    warm.wait()
    for block in one.table:
        warm.memory.blocks[block] = 0xFF
    torch.cuda.synchronize()
    warm.device.copy(back)
    warm.changes.note(0, list(enumerate(spare)))
    before = len(warm.done)
    for _ in range(5):
        warm.launch((one, 1))
    rest = [done.ids.tolist()[0] for done in warm.wait()[before:] if done.step]
    (again,) = sequences_of(warm, [random_ids(100, 1)])
    assert [*first, *rest] == warm.outputs([again], 8)[0]


def test_an_engine_in_float32_generates_transformers_greedy_ids(tmp_path: Path) -> None:
    reference = saved(configuration("qwen3", max_position_embeddings=512), tmp_path / "model")
    asked = [random_ids(1 + 11 * number, number) for number in range(24)]
    with engine_world() as world:
        port = world.metrics_port
        sizes = ["--kv-memory", str(64 << 20), "--max-running", "16", "--chunk", "96", "--step-tokens", "256"]
        world.start_engine(tmp_path / "model", "--dtype", "float32", "--metrics-port", str(port), *sizes)
        door = world.door()
        door.describe()
        keys = door.start(*[start_of(prompt, max_tokens=64) for prompt in asked])
        outputs = [door.output(key) for key in keys]
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            metrics = answer.read().decode()
        world.check_all_free()
    for prompt, output in zip(asked, outputs, strict=True):
        assert len(output) == 64
        logits = reference_logits(reference, [*prompt, *output])[len(prompt) - 1 : -1]
        chosen = logits.gather(1, torch.tensor(output)[:, None])[:, 0]
        assert (logits.max(1).values - chosen).max() <= ALLOWANCE
    assert max(max(output) for output in outputs) < VOCABULARY
    assert re.search(r'compilations_total\{kind="kernel",when="start"\} [1-9]', metrics)
    assert 'when="serving"' not in metrics

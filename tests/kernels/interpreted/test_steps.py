"""A GPU's steps with the kernels that a GPU runs, interpreted: as recorded, with padding of every kind."""

from pathlib import Path

import torch

from executor.engine.gpu.device import Extent
from executor.engine.model_inputs import Tables
from executor.models.loader import LoadOptions, load_model
from tests.engines.device_runner import DeviceRunner
from tests.models.checkpoints import configuration, random_ids, reference_logits, saved
from tests.unit.engine.gpu_stand_in import StandInRuntime

BLOCK, WIDTH, SLOTS = 16, 16, 8


def test_steps_filled_up_with_padding_give_transformers_greedy_ids_and_leave_the_null_block_alone(
    tmp_path: Path,
) -> None:
    reference = saved(configuration("qwen3", max_position_embeddings=WIDTH * BLOCK, num_hidden_layers=1), tmp_path)
    model = load_model(tmp_path, LoadOptions(progress=False))
    runtime = StandInRuntime()
    runner = DeviceRunner(model, runtime, Tables(SLOTS, WIDTH, BLOCK), Extent(SLOTS, 16))
    device = runner.device
    with torch.inference_mode():
        device.graphs.try_out(device.graphs.wanted[-1], device.forward)
        for shape in device.graphs.wanted:
            device.graphs.record(device.stream, shape, device.forward)
    prompts = [random_ids(3, 1), random_ids(12, 2)]
    sequences = [runner.sequence(slot, prompt) for slot, prompt in enumerate(prompts)]
    outputs = runner.mixed(sequences, chunk=7, steps=5)
    runner.close()
    assert runtime.replayed == 5
    assert not runner.memory.blocks[0].any()
    for prompt, output in zip(prompts, outputs, strict=True):
        assert len(output) >= 3
        ids = [*prompt, *output]
        assert reference_logits(reference, ids)[len(prompt) - 1 : -1].argmax(1).tolist() == output

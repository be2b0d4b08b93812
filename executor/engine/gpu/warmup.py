"""Everything that a device compiles, loads or records happens before it serves: here, over rows of padding.

Padding reads the null block and writes nothing, so nothing here needs a pool that anybody else knows of.
"""

import time
from dataclasses import replace

import numpy as np
import structlog
import torch

from executor.engine.choice import choose, choosing_of
from executor.engine.gpu.device import CudaDevice
from executor.engine.gpu.graphs import LEAST_ROWS, Forward
from executor.engine.model_inputs import InputArrays
from executor.engine.step import Ints, Sampling, Step, TableChanges
from executor.found_outputs import MOST_CANDIDATES
from kernels.copies import copy_checked_blocks

log = structlog.get_logger()


def warm_up(device: CudaDevice) -> None:
    """Compile every kernel, load every matrix product's, and record steps of all sizes, the largest first."""
    began = time.perf_counter()
    with torch.inference_mode(), device.runtime.on(device.stream):
        for tokens in _chunk_sizes(device.extent.tokens):
            # Rows of one token alone would be a decode step.
            _run(device, _padding(device, tokens, min(tokens // 2, device.extent.rows)), device.forward_briefly)
        _change_and_copy(device)
        compiled = time.perf_counter()
        _record(device)
    device.runtime.settle()
    log.info(
        "warmed up",
        compiling=round(compiled - began, 2),
        recording=round(time.perf_counter() - compiled, 2),
        recorded_steps=len(device.graphs),
    )


def try_largest(device: CudaDevice) -> None:
    """Run the largest steps that there can be, and record the largest that can be recorded, so that all the memory that
    they take is taken.
    """
    with torch.inference_mode(), device.runtime.on(device.stream):
        _run(device, _padding(device, device.extent.tokens, device.extent.rows), device.forward)
        wanted = device.graphs.wanted
        largest = wanted[0], next(shape for shape in wanted if shape.is_decode)
        for shape in largest:
            device.graphs.try_out(shape, device.forward)
        if device.records:
            for shape in largest:
                device.graphs.record(device.stream, shape, device.forward)
    device.runtime.settle()


def _record(device: CudaDevice) -> None:
    """Do each kind of step once, and then record it: what a matrix product loads depends on the tokens, and nothing can be
    loaded while recording.
    """
    tried = set()
    for shape in device.graphs.wanted:
        if (shape.tokens, shape.is_decode) not in tried:
            tried.add((shape.tokens, shape.is_decode))
            device.graphs.try_out(shape, device.forward_briefly)
            if shape.is_decode:
                rows = min(shape.rows, device.extent.rows)
                _run(device, _padding(device, shape.tokens, rows), device.forward_briefly)
        if device.records:
            device.graphs.record(device.stream, shape, device.forward)


def _chunk_sizes(most: int) -> list[int]:
    """Numbers of tokens between which matrix libraries choose other kernels, the largest first, which takes most memory."""
    sizes, tokens = [most], 2 * LEAST_ROWS
    while tokens < most:
        sizes.append(tokens)
        tokens *= 2
    return sorted(sizes, reverse=True)


def _padding(device: CudaDevice, tokens: int, rows: int) -> Step:
    """A step of padding alone: so many tokens in so many rows, all of which sample, in every way that there is."""
    counts = np.ones(rows, dtype=np.int64)
    counts[0] += tokens - rows
    numbers = np.arange(rows, dtype=np.int64)
    nothing = np.zeros(0, dtype=np.int64)
    sampling = Sampling(
        rows=numbers,
        # Greedy, and all filters at once: between them they run every part of the sampler.
        temperature=(numbers % 2).astype(np.float32),
        top_k=np.full(rows, 5, dtype=np.int64),
        top_p=np.full(rows, 0.5, dtype=np.float32),
        min_p=np.full(rows, 0.01, dtype=np.float32),
        seeds=numbers,
        positions=numbers,
        masked_rows=numbers[:1],
        masked_ids=numbers[:1],
        ranked=numbers,
        ranking=min(MOST_CANDIDATES, device.vocabulary),
    )
    return Step(
        number=0,
        slots=np.full(rows, device.state.padding, dtype=np.int64),
        starts=-counts,
        counts=counts,
        ids=np.zeros(tokens, dtype=np.int64),
        rope_lengths=np.ones(rows, dtype=np.int64),
        changes=TableChanges(nothing, nothing, nothing),
        sampling=sampling,
    )


def _run(device: CudaDevice, step: Step, forward: Forward) -> None:
    """Do a step kernel by kernel, with the choice of tokens. Waits for it."""
    with device.staging.used_now() as bundle:
        arrays = InputArrays.of(step, device.state.sizes.tokens_per_block)
        # Padding is short, but what decode works in grows with the longest sequence there may be beside it.
        inputs = replace(arrays, width=device.state.sizes.width).put(bundle.put, split=True)
        choosing = choosing_of(step, bundle.put, LEAST_ROWS)
        bundle.send()
        hidden = forward(inputs)
        assert choosing is not None
        choose(device.model, hidden, choosing, device.state, device.vocabulary).each(bundle.fetch)
        device.runtime.settle()


def _change_and_copy(device: CudaDevice) -> None:
    """The two kinds of work beside steps: entries of tables, of padding's here; and copies of blocks, of scratch here."""

    def at(values: list[int]) -> torch.Tensor:
        array: Ints = np.array(values, dtype=np.int64)
        return bundle.put(array)

    with device.staging.used_now() as bundle:
        places, blocks = at([device.state.padding * device.state.sizes.width]), at([0])
        pairs = at([0, 1]).view(1, 2)
        bundle.send()
        device.state.change(places, blocks)
        scratch = torch.zeros((2, device.block_bytes), dtype=torch.uint8, device=device.runtime.device)
        copy_checked_blocks(scratch, pairs)
        device.runtime.settle()

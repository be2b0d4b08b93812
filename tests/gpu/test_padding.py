"""Steps that are filled up with padding, in a pool on a GPU that has no block to spare."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from blockmgr.arena import CudaArena, CudaMapping
from blockmgr.arena.cuda import GRANULE
from blockmgr.arena.driver import visible_gpus
from executor.engine.assembly import PendingChanges, Row, assemble
from executor.engine.gpu.device import CudaDevice, Extent
from executor.engine.gpu.runtime import CudaRuntime
from executor.engine.gpu.warmup import warm_up
from executor.engine.model_inputs import Tables
from executor.engine.request import Request
from executor.engine.sequence import Sequence
from executor.manager.tensors import tensor_on_gpu
from executor.models.loader import LoadOptions, load_model
from executor.models.model import PagedModel
from pagehold.engine.v1 import request_pb2
from tests.models.checkpoints import VOCABULARY, configuration, random_ids, saved
from tests.scripted.processes import wait_until

BLOCK, BLOCKS, SLOTS = 16, 13, 4
NO_NUMBER = 0xFF


class Memory:
    """A pool of a cuda arena, without a manager: no number anywhere but in the null block."""

    host = None

    def __init__(self, mapping: CudaMapping, block_bytes: int) -> None:
        self.block_bytes = block_bytes
        self._bytes = tensor_on_gpu(mapping)[: BLOCKS * block_bytes]
        self._bytes[:block_bytes] = 0
        self._bytes[block_bytes:] = NO_NUMBER

    def tensor(self) -> torch.Tensor:
        return self._bytes

    def host_tensor(self, pinned: bool = False) -> torch.Tensor:
        raise ValueError("there is no host tier")

    def reach(self, block: int) -> None:
        assert 0 < block < BLOCKS

    def blocks(self) -> torch.Tensor:
        return self._bytes.view(BLOCKS, -1).cpu().clone()


@pytest.fixture
def model(tmp_path: Path) -> PagedModel:
    saved(configuration("llama"), tmp_path)
    return load_model(tmp_path, LoadOptions(device="cuda", progress=False))


@pytest.fixture
def memory(model: PagedModel) -> Iterator[Memory]:
    block_bytes = int(np.prod(model.cache_shape.pool(1, BLOCK))) * model.dtype.itemsize
    size, uuid = -(-BLOCKS * block_bytes // GRANULE) * GRANULE, visible_gpus()[0]
    with CudaArena.create(size, "device.padded", gpu_uuid=uuid) as arena:
        yield Memory(CudaMapping.of(arena.extents, gpu_uuid=uuid), block_bytes)


def sequence(slot: int, prompt: int, blocks: list[int], changes: PendingChanges) -> Sequence:
    ids = random_ids(prompt, slot)
    kept = request_pb2.Request(parameters=request_pb2.Parameters(max_tokens=20, top_p=1.0))
    made = Sequence(Request(bytes(16), np.array(ids, dtype=np.int32), kept), 1 << 20 | slot, list(ids))
    changes.note(slot, made.update(0, blocks))
    return made


@pytest.mark.parametrize("warm", [False, True], ids=["launched", "recorded"])
def test_padding_of_a_decode_step_leaves_a_full_pool_alone(model: PagedModel, memory: Memory, warm: bool) -> None:
    device = CudaDevice(
        model,
        memory,
        Tables(SLOTS, BLOCKS, BLOCK),
        VOCABULARY,
        Extent(SLOTS, 80),
        CudaRuntime(torch.device("cuda", 0)),
        lambda: None,
    )
    if warm:
        warm_up(device)
        assert len(device.graphs)
    changes = PendingChanges()
    # The first and the last block that there are belong to sequences, and all between.
    ends = (20, 16, 33)
    tables = [[1, 12, 2, 11], [3, 10, 4, 9], [5, 8, 6, 7]]
    rows = [sequence(slot, ends[slot], table, changes) for slot, table in enumerate(tables)]

    def run(number: int, counts: tuple[int, ...]) -> None:
        parts = [Row(one, one.launched, count, one.launch(count)) for one, count in zip(rows, counts, strict=True)]
        device.launch(assemble(number, parts, changes.take(), frozenset()))
        wait_until(lambda: not device.completions() and device.completed == device.serial, "the step is done")

    run(1, ends)
    before = memory.blocks()
    run(2, (1, 1, 1))
    after = memory.blocks()
    changed = (before != after).any(dim=1).nonzero()[:, 0].tolist()
    assert changed == sorted(table[end // BLOCK] for table, end in zip(tables, ends, strict=True))
    assert not after[0].any(), "the null block"
    shape = model.cache_shape.pool(BLOCKS, BLOCK)
    per_token = (before != after).view(*shape, -1).any(dim=-1).movedim(-2, 1).flatten(2).any(dim=2)
    places = [[table[end // BLOCK], end % BLOCK] for table, end in zip(tables, ends, strict=True)]
    assert per_token.nonzero().tolist() == sorted(places)
    device.close()

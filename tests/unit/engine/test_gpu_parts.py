"""Parts of a GPU's device: what is recorded, and what arrays go through."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from executor.engine.gpu.compilations import Compilations
from executor.engine.gpu.graphs import LEAST_ROWS, counts_up_to, table_widths
from executor.engine.gpu.staging import Staging
from tests.unit.engine.gpu_stand_in import StandInRuntime


@pytest.mark.parametrize("part", [4, 8])
@pytest.mark.parametrize("most", [1, 8, 9, 64, 100, 256, 1000])
def test_no_step_is_filled_up_by_8_rows_or_a_part_of_it(most: int, part: int) -> None:
    counts = counts_up_to(most, LEAST_ROWS, part)
    assert counts == sorted(set(counts))
    assert counts[-1] - most in range(LEAST_ROWS)
    assert not any(count % LEAST_ROWS for count in counts)
    for rows in range(1, most + 1):
        filled = next(count for count in counts if count >= rows)
        assert filled - rows < max(LEAST_ROWS, filled / part)


def test_widths_of_tables_end_with_the_longest_sequence() -> None:
    assert table_widths(8192, 16) == [128, 512, 2048, 8192]
    assert table_widths(40, 16) == [40]
    assert table_widths(512, 16) == [128, 512]
    assert table_widths(513, 16) == [128, 513]


def test_what_finds_no_room_in_pinned_memory_comes_nevertheless() -> None:
    runtime = StandInRuntime()
    staging = Staging(runtime, 128, 64)
    bundle = staging.take()
    arrays: list[NDArray[Any]] = [np.arange(3), np.arange(1000).reshape(2, 500), np.arange(3, dtype=np.float32)]
    tensors = [bundle.put(array) for array in arrays]
    bundle.send()
    for tensor, array in zip(tensors, arrays, strict=True):
        assert np.array_equal(tensor.numpy(), array)
        assert tensor.dtype == torch.from_numpy(array).dtype
    with pytest.raises(ValueError, match="a command has room for 64"):
        bundle.fetch(torch.zeros(9, dtype=torch.int64))


def test_every_array_begins_where_kernels_expect_it() -> None:
    bundle = Staging(StandInRuntime(), 4096, 64).take()
    base = bundle.target.data_ptr()
    for count in (1, 7, 8, 33, 1):
        assert (bundle.put(np.zeros(count, dtype=np.int32)).data_ptr() - base) % 64 == 0


def test_what_is_compiled_while_serving_is_told_apart() -> None:
    told: list[tuple[str, str]] = []
    compilations = Compilations(lambda kind, when: told.append((kind, when)))
    compilations.note("kernel")
    compilations.serving = True
    compilations.note("graph")
    assert told == [("kernel", "start"), ("graph", "serving")]
    assert compilations.counts["kernel", "serving"] == 0


def test_kernels_that_triton_has_not_in_its_memory_are_counted_beside_other_hooks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime = pytest.importorskip("triton.knobs").runtime
    heard: list[str] = []
    monkeypatch.setattr(runtime, "jit_cache_hook", lambda **named: heard.append(named["fn"].name))
    compilations = Compilations()
    compilations.watch()
    assert not runtime.jit_cache_hook(key="", fn=SimpleNamespace(name="decode_kernel"), already_compiled=False)
    assert heard == ["decode_kernel"]
    assert compilations.counts == {("kernel", "start"): 1}

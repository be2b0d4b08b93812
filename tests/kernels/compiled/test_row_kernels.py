"""Norms, activations, rotary positions, copies and sampling as the assembler leaves them for an H200."""

from __future__ import annotations

import re

import pytest
import torch

from kernels.activations.kernel import launch_activation
from kernels.copies.kernel import launch_copies
from kernels.norms.kernel import launch_norm
from kernels.rope_cache.kernel import launch_rope_and_cache, launch_write_cache
from kernels.sampling.kernel import launch_sample
from tests.kernels.compiled.sm90 import SHARED_BYTES, Compiled, capture

BF16 = torch.bfloat16


def stores(kernel: Compiled) -> set[int]:
    """The widths, in bytes, of the stores to global memory."""
    found = re.findall(r"st\.global\S*?(?:\.v(\d))?\.b(\d+) ", kernel.ptx)
    return {int(count or 1) * int(bits) // 8 for count, bits in found}


def assert_sound(kernels: list[Compiled]) -> None:
    assert kernels
    for kernel in kernels:
        assert kernel.spilled_bytes == 0, kernel
        assert kernel.shared_bytes <= SHARED_BYTES, kernel


@pytest.mark.parametrize(
    ("width", "dtype"), [(64, BF16), (2048, BF16), (4096, BF16), (8192, BF16), (16384, torch.float32)]
)
def test_norms_keep_a_row_in_registers(width: int, dtype: torch.dtype) -> None:
    x = torch.zeros(4, width, dtype=dtype)
    with capture() as kernels:
        launch_norm(x, x[0].clone(), None, 1e-6, x.clone(), 0.0, None, centred=False)
        launch_norm(x, x[0].clone(), x[0].clone(), 1e-6, None, 0.0, None, centred=True)
    assert_sound(kernels)
    if width >= 512:
        assert all(16 in kernel.loads() and stores(kernel) == {16} for kernel in kernels)


@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh"])
def test_activations_move_16_bytes_at_a_time(activation: str) -> None:
    with capture() as kernels:
        launch_activation(torch.zeros(4, 2 * 14336, dtype=BF16), activation, gated=True)
    assert_sound(kernels)
    assert (kernels[0].loads(), stores(kernels[0])) == ({16}, {16})


def test_copies_move_16_bytes_at_a_time() -> None:
    with capture() as kernels:
        launch_copies(torch.zeros(8, 2, 2, 8, 16, 128, dtype=BF16), [(1, 2), (3, 4)])
    assert_sound(kernels)
    assert stores(kernels[0]) == {16}
    assert 16 in kernels[0].loads()


@pytest.mark.parametrize(
    ("head_dim", "half"), [(64, 32), (80, 40), (96, 48), (112, 56), (128, 64), (256, 128), (256, 32)]
)
def test_keys_and_values_are_written_16_bytes_at_a_time(head_dim: int, half: int) -> None:
    merged = torch.zeros(3, 48 * head_dim, dtype=BF16)
    query, key, value = (
        part.unflatten(1, (-1, head_dim)) for part in merged.split([32 * head_dim, 8 * head_dim, 8 * head_dim], 1)
    )
    pool = torch.zeros(8, 2, 2, 8, 16, head_dim, dtype=BF16)
    cache = pool[:, 1, 0], pool[:, 1, 1]
    tables, tokens = torch.zeros(2, 100, half), torch.zeros(3, dtype=torch.int64)
    with capture() as kernels:
        launch_rope_and_cache(query, key, value, tables[0], tables[1], tokens, *cache, tokens)
        launch_write_cache(key, value, *cache, tokens)
    assert_sound(kernels)
    assert all(stores(kernel) == {16} for kernel in kernels)


@pytest.mark.parametrize(("dtype", "load"), [(torch.float32, 16), (BF16, 8), (torch.float16, 8)])
def test_sampling_spills_nothing_and_loads_wide_though_the_vocabulary_is_odd(dtype: torch.dtype, load: int) -> None:
    floats, integers = torch.ones(2), torch.ones(2, dtype=torch.int64)
    with capture() as kernels:
        launch_sample(
            torch.zeros(2, 151_936, dtype=dtype), floats, integers, floats, floats, integers, integers, 151_669
        )
    assert_sound(kernels)
    assert load in kernels[0].loads()

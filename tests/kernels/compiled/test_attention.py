from __future__ import annotations

import pytest
import torch

from kernels.attention.decode import launch_decode
from kernels.attention.paged import score_factors
from kernels.attention.prefill import launch_prefill
from tests.kernels.compiled import sm90
from tests.kernels.paged_batches import Batch, make_batch

# Heads, KV heads, head size, window, softcap.
MODELS = {
    "Llama-3.1-8B": (32, 8, 128, 0, 0.0),
    "Qwen3-0.6B": (16, 8, 128, 0, 0.0),
    "SmolLM2-135M": (9, 3, 64, 0, 0.0),
    "Gemma-2-2B": (8, 4, 256, 0, 50.0),
    "Gemma-2-2B, window": (8, 4, 256, 4096, 50.0),
    "Mistral-7B": (32, 8, 128, 4096, 0.0),
    "Phi-3-mini": (32, 32, 96, 2047, 0.0),
    "Qwen2-7B": (28, 4, 128, 0, 0.0),
    "OPT-2.7B": (32, 32, 80, 0, 0.0),
}


def model_batch(model: str, dtype: torch.dtype = torch.bfloat16) -> Batch:
    heads, kv_heads, head_dim, _, _ = MODELS[model]
    # Two splits of keys, or nothing would have to be merged.
    return make_batch([1030, 5], [40, 1], heads=heads, kv_heads=kv_heads, head_dim=head_dim, block=16, dtype=dtype)


def compile_decode(model: str, dtype: torch.dtype = torch.bfloat16) -> list[sm90.Compiled]:
    batch = model_batch(model, dtype).of_last_tokens()
    *_, head_dim, window, softcap = MODELS[model]
    scale, cap = score_factors(head_dim**-0.5, softcap)
    with sm90.capture() as kernels:
        launch_decode(*batch.last_tokens, torch.empty_like(batch.query), scale=scale, cap=cap, window=window)
    return kernels


def compile_prefill(model: str, dtype: torch.dtype = torch.bfloat16) -> list[sm90.Compiled]:
    batch = model_batch(model, dtype)
    *_, head_dim, window, softcap = MODELS[model]
    scale, cap = score_factors(head_dim**-0.5, softcap)
    with sm90.capture() as kernels:
        launch_prefill(*batch.paged, torch.empty_like(batch.query), scale=scale, cap=cap, window=window)
    return kernels


def assert_fits(kernel: sm90.Compiled) -> None:
    assert kernel.spilled_bytes == 0, kernel
    assert kernel.shared_bytes <= sm90.SHARED_BYTES, kernel


@pytest.mark.parametrize("model", MODELS)
def test_decode_fits_an_sm_and_copies_16_bytes_at_a_time(model: str) -> None:
    decode, reduce = compile_decode(model)
    assert_fits(decode)
    assert_fits(reduce)
    assert decode.copies() == {16}
    # Queries are loaded wide too; what is loaded singly are lengths and block ids.
    assert decode.loads() == {16, 4}
    assert "mma.sync" in decode.ptx


@pytest.mark.parametrize("model", ["Llama-3.1-8B", "Qwen3-0.6B"])
def test_three_decode_programs_fit_an_sm(model: str) -> None:
    decode = compile_decode(model)[0]
    assert 3 * (decode.shared_bytes + 1024) <= 228 * 1024
    assert 3 * 4 * 32 * decode.registers <= 65536


@pytest.mark.parametrize("model", MODELS)
def test_prefill_fits_an_sm_and_copies_16_bytes_at_a_time(model: str) -> None:
    (prefill,) = compile_prefill(model)
    assert_fits(prefill)
    assert prefill.copies() == {16}
    assert prefill.loads() == {16, 4}
    assert "wgmma" in prefill.ptx


@pytest.mark.parametrize(
    ("model", "dtype"),
    [("Llama-3.1-8B", torch.float16), ("Gemma-2-2B", torch.float16), ("Llama-3.1-8B", torch.float32)],
)
def test_other_types_fit_an_sm_too(model: str, dtype: torch.dtype) -> None:
    for kernel in [*compile_decode(model, dtype), *compile_prefill(model, dtype)]:
        assert_fits(kernel)


def test_a_batch_of_another_size_needs_no_other_kernel() -> None:
    variants = set()
    for lengths in ([1], [1030, 5], [600] * 16, [3] * 17):
        batch = make_batch(
            lengths, [1] * len(lengths), heads=8, kv_heads=2, head_dim=64, block=16, dtype=torch.bfloat16
        )
        with sm90.capture() as kernels:
            launch_decode(*batch.last_tokens, torch.empty_like(batch.query), scale=1.0, cap=0.0, window=0)
            launch_prefill(*batch.paged, torch.empty_like(batch.query), scale=1.0, cap=0.0, window=0)
        variants |= {(kernel.name, kernel.ptx) for kernel in kernels}
    assert sorted(name for name, _ in variants) == ["decode_kernel", "prefill_kernel", "reduce_kernel"]

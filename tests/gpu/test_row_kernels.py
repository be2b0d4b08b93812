from __future__ import annotations

import math

import pytest
import torch

from kernels.activations import silu_mul
from kernels.copies import copy_blocks
from kernels.norms import rms_norm
from kernels.reference import sampling as reference
from kernels.rope_cache import rope_and_cache, write_cache
from kernels.sampling import sample
from tests.kernels.chi_square import deviation
from tests.kernels.contracts import below, fresh_draw
from tests.kernels.contracts.activations import ActivationsContract
from tests.kernels.contracts.copies import CopiesContract
from tests.kernels.contracts.noise import check_bits
from tests.kernels.contracts.norms import NormsContract
from tests.kernels.contracts.rope_cache import RopeCacheContract
from tests.kernels.contracts.sampling import SamplingContract

VOCABULARY = 151_936
# The id from which on a block of 8 heads of 128 over 16 tokens, keys and values, lies beyond 2^32 numbers.
FAR = 131_072


class TestNormsOnGpu(NormsContract):
    device = "cuda"
    widths = (64, 576, 1001, 4096, 8192, 16384)


class TestActivationsOnGpu(ActivationsContract):
    device = "cuda"


class TestCopiesOnGpu(CopiesContract):
    device = "cuda"


class TestRopeCacheOnGpu(RopeCacheContract):
    device = "cuda"


class TestSamplingOnGpu(SamplingContract):
    device = "cuda"
    rows = 120


def columns(count: int, **changed: float | torch.Tensor) -> dict[str, torch.Tensor]:
    """Parameters of `count` rows on the GPU: sampled at temperature 0.9 without filters, but for what is given."""
    given = {"temperature": 0.9, "top_k": 0.0, "top_p": 1.0, "min_p": 0.0, "seeds": 5.0} | changed
    given.setdefault("positions", torch.arange(count))
    whole = {"top_k", "seeds", "positions"}
    return {
        name: torch.as_tensor(value)
        .expand(count)
        .to("cuda", torch.int64 if name in whole else torch.float32)
        .contiguous()
        for name, value in given.items()
    }


def draw_rows(logits: torch.Tensor, given: dict[str, torch.Tensor], vocabulary: int | None = None) -> torch.Tensor:
    limits = given["temperature"], given["top_k"], given["top_p"], given["min_p"]
    return sample(logits, *limits, given["seeds"], given["positions"], vocabulary=vocabulary)


def test_token_bits_are_those_of_the_reference() -> None:
    check_bits("cuda")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sharpness", [0.5, 3.0])
def test_large_rows_draw_on_a_gpu_what_they_draw_on_a_cpu(sharpness: float, dtype: torch.dtype) -> None:
    draw = fresh_draw()
    logits = (torch.randn(96, VOCABULARY, generator=draw) * sharpness).to(dtype)
    given = columns(
        96,
        temperature=0.1 + 1.5 * torch.rand(96, generator=draw),
        top_k=torch.randint(-1, 3000, (96,), generator=draw) * torch.randint(2, (96,), generator=draw),
        top_p=torch.rand(96, generator=draw) * 1.3,
        min_p=torch.rand(96, generator=draw) * 0.1 * torch.randint(2, (96,), generator=draw),
        seeds=torch.randint(2**40, (96,), generator=draw),
    )
    on_gpu = draw_rows(logits.cuda(), given, 151_669).tolist()
    on_cpu = draw_rows(logits, {name: value.cpu() for name, value in given.items()}, 151_669).tolist()
    # Weights are summed in another order: a token just at the end of a nucleus may be in one and not in the other.
    assert sum(a != b for a, b in zip(on_gpu, on_cpu, strict=True)) <= 1


@pytest.mark.parametrize("filters", [{}, {"top_k": 50.0}, {"top_p": 0.9}, {"top_k": 700.0, "top_p": 0.8}])
def test_each_row_of_a_large_batch_draws_what_it_draws_alone(filters: dict[str, float]) -> None:
    logits = torch.randn(64, VOCABULARY, device="cuda") * 2
    given = columns(64, **filters)
    together = draw_rows(logits, given)
    order = torch.randperm(64, device="cuda")
    shuffled = draw_rows(logits[order], {name: value[order] for name, value in given.items()})
    assert torch.equal(shuffled, together[order])
    for row in range(0, 64, 7):
        alone = {name: value[row : row + 1] for name, value in given.items()}
        assert torch.equal(draw_rows(logits[row : row + 1], alone), together[row : row + 1])


@pytest.mark.parametrize(
    "filters", [{}, {"top_k": 120.0}, {"top_p": 0.7}, {"min_p": 0.01}, {"top_k": 300.0, "top_p": 0.9}]
)
def test_a_million_draws_have_the_distribution_that_the_filters_leave(filters: dict[str, float]) -> None:
    draws = 1 << 20
    logits = torch.randn(1000, generator=torch.Generator().manual_seed(1)) * 0.8
    drawn = draw_rows(logits.cuda().expand(draws, -1), columns(draws, **filters)).cpu()
    chosen = {"top_k": 0.0, "top_p": 1.0, "min_p": 0.0} | filters
    kept = reference.survivors(logits, 0.9, int(chosen["top_k"]), chosen["top_p"], chosen["min_p"])
    counts = drawn.bincount(minlength=1000)[kept]
    assert int(counts.sum()) == draws
    assert abs(deviation(counts, reference.probabilities(logits, 0.9, kept))) < 4


def test_a_captured_step_replays_to_the_same_bits_and_its_padding_writes_nothing() -> None:
    draw = fresh_draw()
    pool = torch.full((8, 2, 2, 2, 16, 64), math.nan, dtype=torch.bfloat16, device="cuda")
    hidden = torch.randn(4, 512, generator=draw).cuda().bfloat16()
    weight, angles = torch.ones(512, dtype=torch.bfloat16, device="cuda"), torch.randn(64, 32, device="cuda")
    positions, slots = torch.tensor([3, 9, 40, 0]).cuda(), torch.tensor([19, 41, 127, -1]).cuda()
    given = columns(4, top_p=0.9)

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        normed = rms_norm(hidden, weight, 1e-6)
        query, key, value = (part.unflatten(1, (-1, 64)) for part in normed.split([256, 128, 128], dim=1))
        rope_and_cache(query, key, value, angles.cos(), angles.sin(), positions, pool[:, 1, 0], pool[:, 1, 1], slots)
        return normed, draw_rows(silu_mul(normed), given)

    expected = step()
    written = pool.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    pool.fill_(math.nan)
    graph.replay()
    assert torch.equal(captured[0], expected[0])
    assert torch.equal(captured[1], expected[1])
    torch.testing.assert_close(pool, written, rtol=0, atol=0, equal_nan=True)
    places = (~pool[:, 1, 0, 0].isnan().any(-1)).nonzero().tolist()
    assert places == [[1, 3], [2, 9], [7, 15]]
    assert bool(pool[:, 0].isnan().all())


def test_keys_and_values_reach_blocks_from_131072_on() -> None:
    pool = torch.zeros(FAR + 20, 1, 2, 8, 16, 128, dtype=torch.bfloat16, device="cuda")
    draw = fresh_draw()
    key, value = (torch.randn(5, 8, 128, generator=draw).cuda().bfloat16() for _ in range(2))
    slots = torch.tensor([16 * block + below(draw, 16) for block in (65_535, 65_536, FAR - 1, FAR, FAR + 19)]).cuda()
    write_cache(key, value, pool[:, 0, 0], pool[:, 0, 1], slots)
    assert torch.equal(pool[slots // 16, 0, 0, :, slots % 16], key)
    assert torch.equal(pool[slots // 16, 0, 1, :, slots % 16], value)
    assert int(pool.count_nonzero()) == int(key.count_nonzero() + value.count_nonzero())


def test_blocks_from_131072_on_are_copied() -> None:
    pool = torch.zeros(FAR + 20, 1, 2, 8, 16, 128, dtype=torch.bfloat16, device="cuda")
    pool[1], pool[FAR + 19] = 1.0, 2.0
    copy_blocks(pool, [(1, FAR), (FAR + 19, 2), (FAR + 19, FAR + 3), (FAR, FAR + 19)])
    held = {int(block): float(pool[block].float().mean()) for block in pool.flatten(1).any(1).nonzero()[:, 0]}
    assert held == {1: 1.0, 2: 2.0, FAR: 1.0, FAR + 3: 2.0}

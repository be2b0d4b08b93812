"""Attention's speed beside the best published kernels', at Llama-3.1-8B's shape in bfloat16.

Every figure comes from a CUDA graph that walks through the layers of one pool with random block tables, so that no call
finds its keys in a cache. A sweep also times other tile shapes, and says which of them keep decode's bits prefill's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from bench.kernels.row import Row
from kernels.attention.decode import launch_decode
from kernels.attention.paged import score_factors
from kernels.attention.prefill import launch_prefill
from kernels.attention.tiles import Tiles, tiles

LAYERS, HEADS, KV_HEADS, HEAD_DIM, BLOCK = 32, 32, 8, 128, 16
TOKENS = 64 * 8192
SCALE, CAP = score_factors(HEAD_DIM**-0.5, 0.0)

# Sequences, length: µs of the best of FlashAttention-3 and FlashInfer on an H200.
DECODES = {
    (1, 1024): 9.0,
    (1, 8192): 17.7,
    (1, 32768): 42.3,
    (8, 4096): 42.0,
    (64, 1024): 74.2,
    (64, 8192): 493.0,
    (256, 1024): 263.0,
    (256, 2048): 503.0,
}
# Sequences, chunk, prefix: TFLOP/s of FlashAttention-3 on an H200.
PREFILLS = {
    (1, 2048, 0): 445.0,
    (8, 2048, 0): 525.0,
    (1, 8192, 0): 587.0,
    (1, 32768, 0): 596.0,
    (1, 2048, 30720): 590.0,
}


@dataclass(frozen=True)
class Sequences:
    """Sequences of one length over a pool of [blocks, layers, 2, KV heads, tokens, head size]."""

    pool: torch.Tensor
    tables: torch.Tensor
    lengths: torch.Tensor
    starts: torch.Tensor
    query: torch.Tensor
    out: torch.Tensor

    def decode(self, layer: int, shape: Tiles) -> None:
        """Launch decode on one layer."""
        side = self.pool[:, layer, 0], self.pool[:, layer, 1]
        launch_decode(
            self.query, *side, self.tables, self.lengths, self.out, scale=SCALE, cap=CAP, window=0, shape=shape
        )

    def prefill(self, layer: int, shape: Tiles) -> None:
        """Launch prefill on one layer."""
        arguments = (self.pool[:, layer, 0], self.pool[:, layer, 1], self.tables, self.starts, self.lengths, self.out)
        launch_prefill(self.query, *arguments, scale=SCALE, cap=CAP, window=0, shape=shape)


def make_pool(tokens: int) -> torch.Tensor:
    """A pool of random keys and values with room for `tokens`."""
    blocks = tokens // BLOCK + 1
    pool = torch.empty(blocks, LAYERS, 2, KV_HEADS, BLOCK, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
    for part in pool.split(1024):
        part.normal_()
    return pool


def make_sequences(pool: torch.Tensor, count: int, length: int, chunk: int) -> Sequences:
    """Sequences of `length` on random blocks, each with its last `chunk` tokens as queries."""
    width = -(-length // BLOCK)
    tables = 1 + torch.randperm(len(pool) - 1, device="cuda")[: count * width].view(count, width).to(torch.int32)
    lengths = torch.full((count,), length, dtype=torch.int32, device="cuda")
    starts = torch.arange(0, count * chunk + 1, chunk, dtype=torch.int32, device="cuda")
    query = torch.randn(count * chunk, HEADS, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
    return Sequences(pool, tables, lengths, starts, query, torch.empty_like(query))


def microseconds(run: Callable[[int], object], replays: int) -> float:
    """Time of one call of `run(layer)`: the median over replays of a graph of all layers."""
    run(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for layer in range(LAYERS):
            run(layer)
    graph.replay()
    times = []
    for _ in range(replays):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / LAYERS)
    return median(times)


def decode_rows(pool: torch.Tensor, shape: Tiles) -> Iterator[Row]:
    """One row a batch."""
    for (count, length), best in DECODES.items():
        sequences = make_sequences(pool, count, length, 1)
        time = microseconds(lambda layer: sequences.decode(layer, shape), 10)  # noqa: B023
        rate = count * length * KV_HEADS * HEAD_DIM * 4 / time / 1e6
        peer = f"best peer {best:.1f} µs, ×{best / time:.2f}"
        yield Row("decode", f"{count} × {length:,}", time, rate, "TB/s", peer)


def prefill_rows(pool: torch.Tensor, shape: Tiles) -> Iterator[Row]:
    """One row a batch."""
    for (count, chunk, prefix), best in PREFILLS.items():
        sequences = make_sequences(pool, count, prefix + chunk, chunk)
        time = microseconds(lambda layer: sequences.prefill(layer, shape), 3)  # noqa: B023
        rate = count * chunk * (prefix + (chunk + 1) / 2) * 4 * HEADS * HEAD_DIM / time / 1e6
        case = f"{count} × {chunk:,}" + (f" after {prefix:,}" if prefix else "")
        yield Row("prefill", case, time, rate, "TFLOP/s", f"best peer {best:.0f} TFLOP/s, ×{rate / best:.2f}")


def torch_rows(count: int = 8, chunk: int = 2048) -> Iterator[Row]:
    """One row a backend of torch's own attention, on contiguous keys and values of as many heads as queries have."""
    query, key, value = torch.randn(3, count, HEADS, chunk, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        with sdpa_kernel(backend):
            time = microseconds(lambda layer: scaled_dot_product_attention(query, key, value, is_causal=True), 5)
        rate = count * chunk * ((chunk + 1) / 2) * 4 * HEADS * HEAD_DIM / time / 1e6
        yield Row("torch SDPA", f"{count} × {chunk:,}", time, rate, "TFLOP/s", f"not paged, {backend.name}")


def agreeing_rows(pool: torch.Tensor, shape: Tiles, length: int = 2000) -> int:
    """Of `length` tokens, how many have the same bits from prefill and from decode."""
    chunk = make_sequences(pool, 1, length, length)
    chunk.prefill(0, shape)
    tokens = replace(
        chunk,
        tables=chunk.tables.expand(length, -1).contiguous(),
        lengths=torch.arange(1, length + 1, dtype=torch.int32, device="cuda"),
        out=torch.empty_like(chunk.out),
    )
    tokens.decode(0, shape)
    return int((tokens.out == chunk.out).flatten(1).all(1).sum())


def sweep(pool: torch.Tensor, usual: Tiles) -> None:
    """Time other shapes that leave a row's bits alone, on a few batches."""
    decodes = [make_sequences(pool, *batch, 1) for batch in ((64, 8192), (256, 1024), (1, 32768), (8, 4096))]
    changes: list[dict[str, Any]] = [
        *({"decode_stages": stages, "decode_warps": warps} for stages in (2, 3, 4) for warps in (4, 8)),
        *({"decode_stages": 2, "decode_registers": registers} for registers in (128, 96)),
        *({"decode_programs": programs} for programs in (1024, 2048, 8192, 16384)),
    ]
    for change in changes:
        shape = replace(usual, **change)
        times = [microseconds(lambda layer: batch.decode(layer, shape), 5) for batch in decodes]  # noqa: B023
        print(f"{change}: 64×8k 256×1k 1×32k 8×4k", *(f"{time:.1f}" for time in times), "µs;", end=" ", file=sys.stderr)
        print(f"{agreeing_rows(pool, shape)} of 2000 rows agree with prefill", file=sys.stderr, flush=True)
    prefills = [make_sequences(pool, *batch) for batch in ((1, 2048, 2048), (8, 2048, 2048), (1, 8192, 8192))]
    changes = [
        {"prefill_rows": rows, "prefill_warps": rows // 16, "prefill_stages": stages}
        for rows in (64, 128)
        for stages in (2, 3, 4)
    ]
    for change in [*changes, {"prefill_merges_inside": False}]:
        shape = replace(usual, **change)
        times = [microseconds(lambda layer: batch.prefill(layer, shape), 3) for batch in prefills]  # noqa: B023
        print(f"{change}: 1×2k 8×2k 1×8k", *(f"{time:.0f}" for time in times), "µs", file=sys.stderr, flush=True)


def rows(swept: bool) -> Iterator[Row]:
    """Print the sweep to standard error, if asked for, and yield the table."""
    pool = make_pool(TOKENS)
    shape = tiles(HEAD_DIM, HEADS // KV_HEADS, torch.bfloat16)
    if swept:
        sweep(pool, shape)
    yield from decode_rows(pool, shape)
    yield from prefill_rows(pool, shape)
    yield from torch_rows()
    agreeing = agreeing_rows(pool, shape)
    yield Row("same bits", "2,000 tokens", note=f"{agreeing} rows have the same from prefill and from decode")

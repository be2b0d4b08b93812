"""Speed of the kernels that work row by row, at Llama-3.1-8B's widths in bfloat16, beside a plain copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

import torch

from bench.kernels.row import Row
from kernels.activations import silu_mul
from kernels.copies import copy_blocks
from kernels.norms import rms_norm
from kernels.rope_cache import rope_and_cache
from kernels.sampling import sample

HIDDEN, INTERMEDIATE, VOCABULARY = 4096, 14336, 151_936
POOL = (1025, 32, 2, 8, 16, 128)


def microseconds(run: Callable[[], object]) -> float:
    """Median time of a call, launched one by one, with caches as the call before left them."""
    for _ in range(3):
        run()
    times = []
    for _ in range(20):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        # A wait on the device lets the host launch ahead of it, so that no launch is timed.
        torch.cuda._sleep(2_000_000)
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000)
    return median(times)


def draw(*shape: int) -> torch.Tensor:
    """Random bfloat16 numbers on the GPU."""
    return torch.randn(*shape, dtype=torch.bfloat16, device="cuda")


def sampling_rows(count: int, dtype: torch.dtype, sharpness: float) -> Iterator[Row]:
    """One row a set of parameters, for logits of this type and standard deviation."""
    logits = (torch.randn(count, VOCABULARY, device="cuda") * sharpness).to(dtype)
    rows = torch.arange(count, device="cuda")
    for name, top_k, top_p in (
        ("greedy", 0, 1.0),
        ("temperature", 0, 1.0),
        ("top-k 50", 50, 1.0),
        ("top-p 0.9", 0, 0.9),
        ("top-p 0.5", 0, 0.5),
        ("both", 50, 0.9),
    ):
        temperature = torch.full((count,), 0.0 if name == "greedy" else 1.0, device="cuda")
        limits = torch.full((count,), top_k, device="cuda"), torch.full((count,), top_p, device="cuda")
        least = torch.zeros(count, device="cuda")
        time = microseconds(lambda: sample(logits, temperature, *limits, least, rows, rows))  # noqa: B023
        case = f"{count} × {VOCABULARY:,} {str(dtype)[6:]}, spread {sharpness:g}"
        yield Row(f"sample, {name}", case, time)


def streaming_rows() -> Iterator[Row]:
    """One row a kernel and a number of rows, with the bytes that it has to move."""
    pool = torch.zeros(POOL, dtype=torch.bfloat16, device="cuda")
    weight, angles = draw(HIDDEN), torch.randn(8192, 64, device="cuda")
    for count in (256, 8192):
        x, residual, gate_up = draw(count, HIDDEN), draw(count, HIDDEN), draw(count, 2 * INTERMEDIATE)
        query, key, value = draw(count, 32, 128), draw(count, 8, 128), draw(count, 8, 128)
        positions = torch.arange(count, device="cuda")
        kernels = {
            "rms_norm": (lambda: rms_norm(x, weight, 1e-5, residual), 4 * 2 * count * HIDDEN),  # noqa: B023
            "silu_mul": (lambda: silu_mul(gate_up), 3 * 2 * count * INTERMEDIATE),  # noqa: B023
            "rope_and_cache": (
                lambda: rope_and_cache(query, key, value, angles, angles, positions, pool[:, 3, 0], pool[:, 3, 1], positions),  # noqa: B023
                2 * count * 128 * (2 * 32 + 3 * 8 + 8),
            ),
        }  # fmt: skip
        for name, (run, moved) in kernels.items():
            time = microseconds(run)
            yield Row(name, f"{count:,} rows", time, moved / time / 1e6, "TB/s")
    for count in (1, 64, 512):
        pairs = [(1 + pair, 513 + pair) for pair in range(count)]
        time = microseconds(lambda: copy_blocks(pool, pairs))  # noqa: B023
        yield Row("copy_blocks", f"{count} pairs", time, 2 * count * pool[0].numel() * 2 / time / 1e6, "TB/s")


def plain_copies() -> Iterator[Row]:
    """One row a size: torch's own copy of contiguous memory, which is what the memory can do."""
    for mebibytes in (2, 128, 1024, 8192):
        source = torch.empty(mebibytes << 20, dtype=torch.uint8, device="cuda").random_()
        target = torch.empty_like(source)
        time = microseconds(lambda: target.copy_(source))  # noqa: B023
        yield Row("plain copy", f"{mebibytes:,} MiB", time, 2 * source.nbytes / time / 1e6, "TB/s", "torch, contiguous")


def rows() -> Iterator[Row]:
    """The whole table."""
    yield from plain_copies()
    yield from streaming_rows()
    yield from sampling_rows(256, torch.float32, 3.0)
    yield from sampling_rows(256, torch.bfloat16, 3.0)
    yield from sampling_rows(256, torch.float32, 1.0)
    yield from sampling_rows(1, torch.bfloat16, 3.0)

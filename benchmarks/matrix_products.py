"""Which matrix products of a model give a row other bits when more rows stand beside it. Needs a GPU.

    python -m benchmarks.matrix_products [--markdown] [--times]

One line a weight: its shape, and the row counts at which the first row differs from what 2048 rows give, with cuBLAS as it
comes and with cuBLAS pinned (`executor.models.cublas`). The settings are read once a process, hence two processes. With
`--times`, how long a product takes instead, in microseconds, for 8, 64 and 256 rows.
"""

import argparse
import json
import statistics
import subprocess
import sys

import torch

from executor.models.cublas import pin_cublas, varying_row_counts

SHAPES = {
    "SmolLM2-135M": {"qkv": (960, 576), "output": (576, 576), "up": (3072, 576), "down": (576, 1536), "head": (49152, 576)},
    "Qwen2.5-7B": {
        "qkv": (4608, 3584), "output": (3584, 3584), "up": (37888, 3584), "down": (3584, 18944), "head": (152064, 3584),
    },
    "Llama-3.1-8B": {
        "qkv": (6144, 4096), "output": (4096, 4096), "up": (28672, 4096), "down": (4096, 14336), "head": (128256, 4096),
    },
}  # fmt: skip
"""[outputs, inputs] of each weight, by model."""

Table = dict[str, dict[str, list[int]]]

TIMED_ROWS = (8, 64, 256)
ROTATED_BYTES, LOOPS = 400 << 20, 5
"""Weights that are gone through in turn, more than a cache holds, and how often that is timed."""


def table(times: bool) -> Table:
    """Row counts that vary, or microseconds, by model and weight."""

    def found(outputs: int, inputs: int) -> list[int]:
        if times:
            return [microseconds(outputs, inputs, rows) for rows in TIMED_ROWS]
        return varying_row_counts(outputs, inputs, torch.bfloat16)

    return {model: {part: found(*shape) for part, shape in parts.items()} for model, parts in SHAPES.items()}


def microseconds(outputs: int, inputs: int, rows: int) -> int:
    """The time of a product in bf16, each over another weight than the one before; the median of some loops."""
    count = max(2, ROTATED_BYTES // (2 * outputs * inputs))
    weights = [torch.randn((outputs, inputs), dtype=torch.bfloat16, device="cuda") for _ in range(count)]
    x = torch.randn((rows, inputs), dtype=torch.bfloat16, device="cuda")
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.nn.functional.linear(x, weights[0])
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for weight in weights:
                torch.nn.functional.linear(x, weight)
        graph.replay()
        taken = []
        for _ in range(LOOPS):
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()
            graph.replay()
            ended.record()
            ended.synchronize()
            taken.append(1000 * began.elapsed_time(ended) / count)
    return round(statistics.median(taken))


def measured(pinned: bool, times: bool) -> Table:
    """`table` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.matrix_products", "--pinned" if pinned else "--as-it-comes"]
    command += ["--times"] if times else []
    found: Table = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print a table for docs/")
    parser.add_argument("--times", action="store_true", help="print microseconds instead")
    parser.add_argument("--pinned", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--as-it-comes", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pinned or options.as_it_comes:
        if options.pinned:
            pin_cublas()
        print(json.dumps(table(options.times)))
        return
    plain, pinned = measured(False, options.times), measured(True, options.times)
    separator = " | " if options.markdown else "  "
    heads = ["model", "weight", "shape", "as it comes", "pinned"]
    rows = [
        [model, part, "×".join(map(str, shape)), *(_counts(found[model][part]) for found in (plain, pinned))]
        for model, parts in SHAPES.items()
        for part, shape in parts.items()
    ]
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    rule = [["-" * width for width in widths]] if options.markdown else []
    for row in [heads, *rule, *rows]:
        line = separator.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(f"| {line} |" if options.markdown else line.rstrip())


def _counts(varying: list[int]) -> str:
    return ", ".join(map(str, varying)) or "none"


if __name__ == "__main__":
    main()

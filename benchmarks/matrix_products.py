"""Which matrix products of a model give a row other bits when more rows stand beside it. Needs a GPU.

    python -m benchmarks.matrix_products [--markdown]

One line a weight: its shape, and the row counts at which the first row differs from what 2048 rows give, with cuBLAS as it
comes and with cuBLAS pinned (`executor.models.cublas`). The settings are read once a process, hence two processes.
"""

import argparse
import json
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


def table() -> Table:
    """Row counts that vary, by model and weight."""
    return {
        model: {part: varying_row_counts(*shape, torch.bfloat16) for part, shape in parts.items()}
        for model, parts in SHAPES.items()
    }


def measured(pinned: bool) -> Table:
    """`table` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.matrix_products", "--pinned" if pinned else "--as-it-comes"]
    found: Table = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print a table for docs/")
    parser.add_argument("--pinned", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--as-it-comes", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pinned or options.as_it_comes:
        if options.pinned:
            pin_cublas()
        print(json.dumps(table()))
        return
    plain, pinned = measured(False), measured(True)
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

"""Holding cuBLAS to matrix products whose rows do not depend on how many there are, as far as it can be held.

cuBLAS chooses a kernel by the shape. Those that split the sum over the inputs (split-K) among several blocks add in
another order, and which shapes get them changes with the number of rows. They need workspace: without it they are not
chosen.
"""

import os
from collections.abc import Sequence

import torch

WORKSPACE = {"CUBLAS_WORKSPACE_CONFIG": ":16:1", "CUBLASLT_WORKSPACE_SIZE": "1"}
"""Read by cuBLAS and by torch when CUDA starts: buffers too small for split-K. One of 16 KiB, since torch hands all of them
over as one, and a part of the sums of 8 rows by 1,024 outputs takes 32 KiB.
"""

ROW_COUNTS = (1, 2, 8, 17, 64, 256, 2048)
"""Row counts of a step that cover the kernels that cuBLAS chooses between."""


def pin_cublas() -> None:
    """Ask for products that do not depend on the number of rows. To be called before CUDA starts in this process.

    Raises RuntimeError if it has started.
    """
    if torch.cuda.is_initialized():
        raise RuntimeError("cuBLAS has to be pinned before CUDA starts in the process")
    os.environ.update(WORKSPACE)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_tf32 = False


def varying_row_counts(
    outputs: int, inputs: int, dtype: torch.dtype, counts: Sequence[int] = ROW_COUNTS, device: str = "cuda"
) -> list[int]:
    """The row counts, of those given, at which a product's first row differs from what the largest of them gives.

    Args:
        outputs: rows of the weight.
        inputs: columns of the weight.
        dtype: of weight and rows.
        counts: row counts to try.
        device: where to compute.
    """
    generator = torch.Generator(device).manual_seed(0)
    weight = torch.randn((outputs, inputs), generator=generator, dtype=dtype, device=device) * inputs**-0.5
    rows = torch.randn((max(counts), inputs), generator=generator, dtype=dtype, device=device)
    expected = torch.nn.functional.linear(rows, weight)[0]
    return [count for count in counts if not torch.equal(torch.nn.functional.linear(rows[:count], weight)[0], expected)]

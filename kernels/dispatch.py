"""Which of the two implementations of a kernel runs: Triton's or torch's."""

from __future__ import annotations

import os

import torch


def interpreting() -> bool:
    """Say whether Triton's interpreter stands in for a GPU (`TRITON_INTERPRET=1`), so that kernels run on CPU tensors."""
    return os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")


def runs_triton(tensor: torch.Tensor) -> bool:
    """Say whether work on `tensor` goes to a Triton kernel: it lies on a GPU, or the interpreter is on.

    Everything else goes to plain torch, where Triton need not be installed. Modules with Triton kernels are
    therefore imported only behind this answer.
    """
    return tensor.is_cuda or interpreting()

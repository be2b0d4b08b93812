"""Asking cuBLAS for products that do not depend on the number of rows."""

import subprocess
import sys

import pytest
import torch

from executor.models.cublas import varying_row_counts

PROGRAM = """
import os
import torch
from executor.models.cublas import WORKSPACE, pin_cublas
torch.backends.cuda.matmul.allow_tf32 = True
pin_cublas()
assert {name: os.environ[name] for name in WORKSPACE} == WORKSPACE
assert not torch.backends.cuda.matmul.allow_tf32
assert not torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
torch.cuda.is_initialized = lambda: True
try:
    pin_cublas()
except RuntimeError as error:
    print(error)
"""


def test_it_is_asked_for_before_cuda_starts_and_refused_afterwards() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=280, check=False)
    assert result.stdout == "cuBLAS has to be pinned before CUDA starts in the process\n", result.stderr


def test_row_counts_that_vary_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = torch.nn.functional.linear
    assert varying_row_counts(8, 1, torch.float32, counts=(1, 2, 16), device="cpu") == []

    def other_at_two(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return linear(x, weight) + (1.0 if len(x) == 2 else 0.0)

    monkeypatch.setattr(torch.nn.functional, "linear", other_at_two)
    # One product a sum: nothing else can differ.
    assert varying_row_counts(8, 1, torch.float32, counts=(1, 2, 16), device="cpu") == [2]

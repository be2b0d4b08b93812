"""Triton reads once whether it interprets kernels, so the tests that have it interpret and those that have it compile
run in two processes: `TRITON_INTERPRET=1 pytest tests/kernels/interpreted`, and `pytest` for everything else."""

from kernels.dispatch import interpreting

collect_ignore = ["compiled"] if interpreting() else ["interpreted"]

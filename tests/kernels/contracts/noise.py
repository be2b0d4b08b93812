"""Triton's noise against that of torch and of Python's integers."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.reference import sampling as reference
from kernels.sampling import noise
from kernels.sampling.noise_kernel import row_keys, token_bits
from tests.kernels.contracts import fresh_draw


@triton.jit  # type: ignore[untyped-decorator]
def _write_bits(seeds, positions, out, tokens: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    first, second = row_keys(tl.load(seeds + row), tl.load(positions + row))
    ids = tl.arange(0, tokens)
    tl.store(out + row * tokens + ids, token_bits(ids * 1187, first, second).to(tl.int64))


def check_bits(device: str) -> None:
    draw = fresh_draw()
    seeds = torch.randint(-(2**63), 2**63 - 1, (12,), generator=draw)
    seeds[:4] = torch.tensor([0, -1, 42, -(2**63)])
    positions = torch.randint(2**40, (12,), generator=draw)
    positions[:2] = torch.tensor([0, 1])
    out = torch.full((12, 128), -1, device=device)
    _write_bits[(12,)](seeds.to(device), positions.to(device), out, tokens=128)
    ids = torch.arange(128) * 1187
    for row, (seed, position) in enumerate(zip(seeds.tolist(), positions.tolist(), strict=True)):
        expected = noise.token_bits(ids, noise.row_keys(seed, position)).tolist()
        assert out[row].tolist() == expected
        assert expected[:3] == [reference.token_bits(seed, position, token) for token in (0, 1187, 2374)]

"""What each kernel must do, as classes of tests without a device: torch, the interpreter and a GPU each inherit them."""

from __future__ import annotations

import secrets

import torch

# How far a result may be from the reference: rounded once to its type, which the interpreter does by cutting off.
TOLERANCE = {torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def fresh_draw() -> torch.Generator:
    """A generator that no earlier run had; its seed is printed, so that a failure can be had again."""
    seed = secrets.randbits(32)
    print(f"drawn from seed {seed}")
    return torch.Generator().manual_seed(seed)


def below(draw: torch.Generator, limit: int) -> int:
    return int(torch.randint(limit, (), generator=draw))


def poison(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.fill_(float("nan"))

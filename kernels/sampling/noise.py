"""The noise of a draw: a hash of (seed, position, token id), and the exponential waiting time made of it, in torch.

`kernels/sampling/passes.py` holds the same in Triton; the two agree bit for bit in the integers.
The mixing function is "triple32" of Chris Wellons' hash-prospector, a bijection of 32 bits.
"""

from __future__ import annotations

import torch

_MASK = 0xFFFFFFFF
# 2^-32, less one part in 2^23.
SPREAD = (2**23 - 1) * 2.0**-55
_GOLDEN = 0x9E3779B9


def mix(x: int) -> int:
    """Return the 32-bit hash of a 32-bit number."""
    x ^= x >> 17
    x = x * 0xED5AD4BB & _MASK
    x ^= x >> 11
    x = x * 0xAC4C1B51 & _MASK
    x ^= x >> 15
    x = x * 0x31848BAB & _MASK
    return x ^ x >> 14


def row_keys(seed: int, position: int) -> tuple[int, int]:
    """Return the two 32-bit keys that a row's tokens are hashed with."""
    first = mix((seed & _MASK) ^ _GOLDEN)
    first = mix(first ^ (seed >> 32 & _MASK))
    first = mix(first ^ (position & _MASK))
    first = mix(first ^ (position >> 32 & _MASK))
    return first, mix(first ^ _GOLDEN)


def token_bits(ids: torch.Tensor, keys: tuple[int, int]) -> torch.Tensor:
    """Return 32 random bits for each token id, as int64: "lowbias32" of the same author, with a key before and within."""
    x = ids * 0x9E3779B1 + keys[0] & _MASK
    x = x ^ x >> 16
    x = x * 0x7FEB352D + keys[1] & _MASK
    x = x ^ x >> 15
    x = x * 0x846CA68B & _MASK
    return x ^ x >> 16


def waiting_times(bits: torch.Tensor) -> torch.Tensor:
    """Return float32 times of the exponential distribution with mean 1, from 32 random bits each.

    The shortest times decide a race, so they come from small uniform numbers, where float32 is finest; the factor
    keeps the greatest below 1.
    """
    return -torch.log1p(-(bits.float() + 0.5) * SPREAD)

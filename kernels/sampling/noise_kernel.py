"""`kernels.sampling.noise` in Triton, and the GPU's own exponential and logarithm."""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.sampling.noise import SPREAD

_SPREAD: tl.constexpr = tl.constexpr(SPREAD)


@triton.jit
def mix(x):
    """`kernels.sampling.noise.mix`, of uint32."""
    x ^= x >> 17
    x *= 0xED5AD4BB
    x ^= x >> 11
    x *= 0xAC4C1B51
    x ^= x >> 15
    x *= 0x31848BAB
    return x ^ (x >> 14)


@triton.jit
def row_keys(seed, position):
    """`kernels.sampling.noise.row_keys`, of two int64 scalars."""
    first = mix((seed & 0xFFFFFFFF).to(tl.uint32) ^ 0x9E3779B9)
    first = mix(first ^ ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32))
    first = mix(first ^ (position & 0xFFFFFFFF).to(tl.uint32))
    first = mix(first ^ ((position >> 32) & 0xFFFFFFFF).to(tl.uint32))
    return first, mix(first ^ 0x9E3779B9)


@triton.jit
def token_bits(ids, first_key, second_key):
    """`kernels.sampling.noise.token_bits`, as uint32."""
    x = ids.to(tl.uint32) * 0x9E3779B1 + first_key
    x ^= x >> 16
    x = x * 0x7FEB352D + second_key
    x ^= x >> 15
    x *= 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def waiting_times(bits, FAST: tl.constexpr):
    """`kernels.sampling.noise.waiting_times`: -log(1 - u), by its series where u is small, else by a logarithm."""
    uniform = (bits.to(tl.float32) + 0.5) * _SPREAD
    series = 1.0 / 3.0 + uniform * (1.0 / 4.0 + uniform * (1.0 / 5.0 + uniform * (1.0 / 6.0)))
    series = uniform + uniform * uniform * (1.0 / 2.0 + uniform * series)
    return tl.where(uniform < 0.0625, series, -0.6931471805599453 * log2(1.0 - uniform, FAST))


@triton.jit
def exp2(x, FAST: tl.constexpr):
    """Return 2^x; FAST takes the GPU's instruction, good to 2 units in the last place, without denormal numbers."""
    if FAST:
        result = tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        result = tl.exp2(x)
    return result


@triton.jit
def log2(x, FAST: tl.constexpr):
    """Return the logarithm of x; FAST takes the GPU's instruction, good to 2^-22 for x from 0.5 to 2."""
    if FAST:
        result = tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        result = tl.log2(x)
    return result

"""Attention over a paged KV cache: `paged_decode` for one token a sequence, `paged_prefill` for chunks of any length."""

from kernels.attention.paged import paged_decode, paged_prefill

__all__ = ["paged_decode", "paged_prefill"]

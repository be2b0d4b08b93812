"""Kernels over a paged KV cache, each with a plain reference."""

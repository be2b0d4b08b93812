"""Models over a paged KV cache: one decoder described by data, loaders for its weights, and transformers' own
modelling code, with paged attention, for what the decoder does not cover.
"""

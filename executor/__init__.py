"""Executors: the processes that compute with the blocks that a block manager hands out."""

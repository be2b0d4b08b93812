"""Tests of the allocator core."""

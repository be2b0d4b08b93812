"""Tests; what several of them need is imported from here by its full name."""

"""Load on a running server, made by client processes, and what they saw of it."""

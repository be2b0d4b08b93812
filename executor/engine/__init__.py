"""The engine: schedules sequences into steps, computes them over the pool, and records what they say with the manager."""

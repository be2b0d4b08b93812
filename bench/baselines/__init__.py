"""What transformers makes of the same workload, with nothing else installed."""

"""The block manager: owns the memory of the KV cache and records what every block of it holds."""

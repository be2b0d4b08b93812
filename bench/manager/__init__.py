"""What the block manager costs: a turn of a session, its parts, and the allocator and the ledger alone."""

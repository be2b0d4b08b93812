"""The allocator: what every block holds, who refers to it, and when it may be used again.

Numpy and the standard library only: no gRPC, no CUDA, no files. ``Pool`` is the way in; ``messages`` is what it is asked
and what it answers; ``columns`` is the state, which a ledger makes durable.
"""

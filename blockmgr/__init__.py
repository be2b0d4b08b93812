"""The block manager: owns the memory of the KV cache and records what every block of it holds."""

import os

# gRPC's event engine reads and writes sockets on threads of its own: each message is handed on once more on both sides,
# which costs a turn a tenth to a fifth of its time (docs/manager-performance.md). Which engine it uses is decided by the
# first channel or server, so it is said here, where every process of a server comes by before it has one.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")

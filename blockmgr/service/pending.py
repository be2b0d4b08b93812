"""How many calls a server lets wait before it has looked at them."""

PENDING = 1 << 20

PENDING_OPTIONS = [
    # Unless told otherwise, gRPC cancels calls without a word once a thousand have come that nobody has looked at yet. Each
    # is looked at as soon as the loop has time for it, and a server says itself, with a reason, what it has no room for.
    ("grpc.server.max_pending_requests", PENDING),
    ("grpc.server.max_pending_requests_hard_limit", PENDING),
]
"""Arguments of every server."""

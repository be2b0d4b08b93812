"""What waits for blocks, both ways."""

from math import isfinite

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.messages import Want
from pagehold.blockmgr.v1 import turn_pb2

ID_BYTES = 16


def decode_want(want: turn_pb2.Want, field: str) -> Want:
    """What waits, as the core takes it. Raises ``InvalidMessage`` naming ``field`` where its form is wrong."""
    if len(want.uuid) != ID_BYTES:
        raise InvalidMessage(f"{field}.uuid", want.uuid.hex() or "empty", f"must have {ID_BYTES} bytes")
    if not isfinite(want.arrived):
        raise InvalidMessage(f"{field}.arrived", want.arrived, "must be a finite number")
    return Want(want.uuid, want.priority, want.arrived, want.blocks, want.running)


def encode_want(want: Want, wire: turn_pb2.Want) -> None:
    """Fill an empty message with what waits."""
    wire.uuid, wire.priority, wire.arrived = want.uuid, want.priority, want.arrived
    wire.blocks, wire.running = want.blocks, want.running

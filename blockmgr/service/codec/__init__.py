"""Turns and replies between the core's plain data and the contracts' messages, both ways.

The manager decodes turns and encodes replies; an executor does the opposite. Nothing here holds state.
"""

from blockmgr.service.codec.replies import decode_reply, encode_reply
from blockmgr.service.codec.turns import decode_turn, encode_turn

__all__ = ["decode_reply", "decode_turn", "encode_reply", "encode_turn"]
